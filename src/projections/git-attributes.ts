import { join } from "node:path";
import { signatureAt, writeFileWhole } from "../state-files/index.ts";

/**
 * Rendered files are made again after every merge, so git need not ask anybody about them: it keeps the lines of both
 * sides, which no rendering looks like, and the next sync puts it right.
 */
const GIT_ATTRIBUTES = `# Written by Holdfast. Rendered files are made again from events/ after a merge.
/STATE.md merge=union
/agent_state.json merge=union
/task_board.json merge=union
/decisions/*.md merge=union
/blockers/*.md merge=union
/sessions/*.md merge=union
/events/*.jsonl -text merge=binary
`;

/** A file that is there is somebody's. */
export async function writeGitAttributes(folder: string): Promise<void> {
  const path = join(folder, ".gitattributes");
  if (signatureAt(path) === null) await writeFileWhole(path, GIT_ATTRIBUTES);
}
