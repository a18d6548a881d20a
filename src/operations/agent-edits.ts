/**
 * The record of rendered files that hooks saw agents write, in `agent-edits/` of the store's folder. Without
 * it an agent could do anything in the name of a person, by an edit of STATE.md.
 *
 * A hook leaves two marks per edit, named by a hash: of the file's text, and of the seal that the text began
 * with. The second one still holds if a person saves the file after the agent. Their edit then counts as the
 * agent's, because the two cannot be told apart. A new rendering has a new seal.
 *
 * Hooks load this file in a cold process: the projections, which need schemas, are loaded only for an edit.
 */

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "../model/digest.ts";

const MARKS = "agent-edits";
const MAX_MARKS = 1_000;
const KEEP_MS = 30 * 86_400_000;

/** `path`: below `.planning/`. */
export async function noteAgentEdit(
  home: string,
  path: string,
  text: string,
  session: string,
): Promise<void> {
  const { editKeys } = await import("../projections/index.ts");
  const folder = join(home, MARKS);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (const key of editKeys(text)) writeFileSync(join(folder, nameOf(path, key)), session, { mode: 0o600 });
  const all = readdirSync(folder);
  if (all.length > MAX_MARKS) for (const name of all) removeIfOld(join(folder, name));
}

/** For `agentEdit` of a folder: the session of the agent that wrote this text. */
export async function agentEditsIn(home: string): Promise<(path: string, text: string) => string | null> {
  const { editKeys } = await import("../projections/index.ts");
  return (path, text) => {
    const marks = editKeys(text).map((key) => join(home, MARKS, nameOf(path, key)));
    const mark = marks.find((each) => existsSync(each));
    return mark === undefined ? null : readFileSync(mark, "utf8").slice(0, 128) || "agent";
  };
}

function nameOf(path: string, key: string): string {
  return sha256(`${path} ${key}`).slice(0, 40);
}

function removeIfOld(mark: string): void {
  const { mtimeMs = Date.now() } = statSync(mark, { throwIfNoEntry: false }) ?? {};
  if (Date.now() - mtimeMs > KEEP_MS) rmSync(mark, { force: true });
}
