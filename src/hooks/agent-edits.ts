/** Edits of rendered files by agents, as the hook `touched` sees them. */

import { readFileSync, statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { sessionName } from "../agent-sessions/index.ts";
import { REHEARSAL } from "../model/names.ts";
import { noteAgentEdit, PLANNING, pathBelowRoot, type StorePlace } from "../operations/index.ts";
import type { AgentEvent } from "./agent-event.ts";

const MAX_BYTES = 16 << 20;

/** Marks rendered files that the agent wrote, so that they do not count as the edits of a person. */
export async function markAgentEdits(
  { agent, conversation, files, cwd }: AgentEvent,
  place: StorePlace,
): Promise<void> {
  const { root, home } = place;
  const rendered = files.flatMap((file) => {
    const full = isAbsolute(file) ? file : resolve(cwd ?? root, file);
    const path = pathBelowRoot(root, full);
    if (!path?.startsWith(`${PLANNING}/`)) return [];
    const found = statSync(full, { throwIfNoEntry: false });
    return found?.isFile() && found.size <= MAX_BYTES
      ? [{ full, path: path.slice(PLANNING.length + 1) }]
      : [];
  });
  if (rendered.length === 0 || conversation === REHEARSAL) return;
  for (const { full, path } of rendered) {
    await noteAgentEdit(home, path, readFileSync(full, "utf8"), sessionName(agent, conversation));
  }
}
