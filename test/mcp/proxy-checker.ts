// Compares the effects in the world with the ledger. Pure, so that it can be tested on a planted bug.

import type { Call } from "../../src/model/session/index.ts";

export interface Evidence {
  /** One line per effect, `<tool> <id>`, from the server's own log. */
  readonly effects: readonly string[];
  /** Every call of the session, with any outcome. */
  readonly calls: readonly Pick<Call, "tool" | "args" | "status" | "attempt">[];
  /** How often the agent intended each effect. */
  readonly meant: Readonly<Record<string, number>>;
}

/** One sentence per violation; empty if there is none. */
export function findProblems({ effects, calls, meant }: Evidence): string[] {
  const problems: string[] = [];
  const names = new Set([...effects, ...Object.keys(meant)]);
  for (const name of names) {
    const happened = effects.filter((each) => each === name).length;
    const wanted = meant[name] ?? 0;
    const own = calls.filter(({ tool, args }) => `${tool} ${(args as { id?: string }).id}` === name);
    const attempts = own.reduce((sum, { status, attempt }) => sum + (status === "repeated" ? 0 : attempt), 0);
    if (happened > attempts) problems.push(`${name}: ${happened} effects, ${attempts} durable intents`);
    if (happened > wanted) problems.push(`${name}: doubled, ${happened} effects for ${wanted}`);
    if (happened < wanted) problems.push(`${name}: lost, ${happened} effects for ${wanted}`);
    const completed = own.filter(({ status }) => status === "completed").length;
    if (completed > happened) problems.push(`${name}: ${completed} recorded as done, ${happened} effects`);
  }
  return problems;
}
