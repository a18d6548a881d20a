/** Who acts. What a person answers for carries a name and a reason: asked for on a terminal, required anywhere else. */

import { userInfo } from "node:os";
import type { Actor, GoalRole } from "../model/goal/index.ts";
import type { Options } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { Misuse } from "./failure.ts";

const ROLES: readonly GoalRole[] = ["worker", "architect", "orchestrator", "verifier", "human", "supervisor"];

export function whoActs({ by, role }: Options): Actor {
  const said = role ?? process.env["HOLDFAST_ROLE"] ?? "human";
  if (!ROLES.includes(said as GoalRole)) {
    throw new Misuse(`there is no role ${String(said)}`, `Say one of: ${ROLES.join(", ")}`);
  }
  return { name: String(by ?? process.env["HOLDFAST_BY"] ?? userName()), role: said as GoalRole };
}

/** The name and the reason that an answer needs. */
export async function answerer(words: string, { by, why }: Options): Promise<{ by: string; why: string }> {
  const isAsked = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const name = by ?? (isAsked ? userName() : undefined);
  if (name !== undefined && why !== undefined) return { by: String(name), why: String(why) };
  if (!isAsked) {
    throw new Misuse(
      `${words} is for people: without a terminal it needs --by and --why`,
      `Say who decides and why: --by ann --why "${words === "resolve" ? "seen in the bank" : "not needed any more"}"`,
    );
  }
  const { isCancel, text } = await import("@clack/prompts");
  const asked = await text({
    message: `Why? It is recorded under the name ${String(name)}.`,
    validate: (typed) => (typed?.trim() ? undefined : "A reason, please: the next one will want to know."),
  });
  if (isCancel(asked)) {
    throw new Misuse(`${words} was not done`, "Nothing was changed.", EXIT.interrupted);
  }
  return { by: String(name), why: String(asked) };
}

function userName(): string {
  try {
    return userInfo().username.slice(0, 128) || "human";
  } catch (error) {
    // A user id without an entry, as in many containers.
    if (error instanceof Error) return "human";
    throw error;
  }
}
