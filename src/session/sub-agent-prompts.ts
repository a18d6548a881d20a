/**
 * The run of a sub-agent is made again from its beginning after a crash, and finds its session as the crash left it. What it
 * says there in plain words is then no new prompt: the first prompt of some words is the first of those words in
 * every attempt, the second the second. So each has a name, and one that was answered is answered from the record.
 */

import { sha256 } from "../model/digest.ts";
import type { RunOptions } from "./run-options.ts";
import type { SessionCore } from "./session-core.ts";

const counts = new WeakMap<SessionCore, Map<string, number>>();

/** From now on, in this handle. */
export function namePrompts(session: SessionCore): void {
  counts.set(session, new Map());
}

export function withNamedPrompt(session: SessionCore, options: RunOptions): RunOptions {
  const said = counts.get(session);
  const { prompt } = options;
  if (!said || typeof prompt !== "string") return options;
  const count = (said.get(prompt) ?? 0) + 1;
  said.set(prompt, count);
  return { ...options, prompt: { id: `prompt-${sha256(prompt).slice(0, 16)}-${count}`, text: prompt } };
}
