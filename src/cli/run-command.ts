/** From what was typed to what is printed: one operation, one answer, one exit code. */

import { userInfo } from "node:os";
import type { Actor, GoalRole } from "../model/goal/index.ts";
import { Context, OPERATIONS, perform } from "../operations/index.ts";
import { type Command, goalOption, type Options } from "./command.ts";
import { Misuse, reportWarning } from "./failure.ts";
import { EXIT, formatAnswer, openScreen } from "./screen.ts";

/** Who acts. What a person answers for carries a name and a reason: asked for on a terminal, required anywhere else. */

const ROLES: readonly GoalRole[] = ["worker", "architect", "orchestrator", "verifier", "human", "supervisor"];

function actorFrom({ by, role }: Options): Actor {
  const said = role ?? process.env["HOLDFAST_ROLE"] ?? "human";
  if (!ROLES.includes(said as GoalRole)) {
    throw new Misuse(`there is no role ${String(said)}`, `Say one of: ${ROLES.join(", ")}`);
  }
  return { name: String(by ?? process.env["HOLDFAST_BY"] ?? userName()), role: said as GoalRole };
}

/** The name and the reason that an answer needs. */
async function askForReason(words: string, { by, why }: Options): Promise<{ by: string; why: string }> {
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

export async function runCommand(
  command: Command,
  args: readonly (string | undefined)[],
  typed: Options,
): Promise<void> {
  const operation = OPERATIONS.get(command.operation);
  if (!operation) throw new Error(`${command.words} names no operation`);
  const screen = await openScreen(typed["store"]);
  const isAsked = process.stdin.isTTY === true && screen.isTerminal && !typed["json"];
  const options = command.ask && isAsked ? await command.ask(typed, args) : typed;
  const said = command.input?.(args, options) ?? {};
  const why = command.answersFor ? await askForReason(command.words, options) : {};
  const context = contextOf(options);
  try {
    const input = Object.entries({ ...said, ...why }).filter(([, value]) => value !== undefined);
    const data = await perform(operation, context, Object.fromEntries(input));
    const isFound = command.found?.(data as never) ?? false;
    if (isFound) process.exitCode = EXIT.found;
    const page = (each: typeof data) => command.page(each as never, screen);
    const exact = (each: typeof data) => command.data?.(each as never, screen) ?? each;
    process.stdout.write(formatAnswer(options["json"], operation.name, data, page, exact));
  } finally {
    await context.close();
  }
}

export function contextOf(options: Options): Context {
  return new Context({
    address: (options["store"] as string | undefined) ?? process.env["HOLDFAST_STORE"],
    goal: goalOption(options["goal"]),
    by: actorFrom(options),
    caller: "person",
    warn: (error) => reportWarning(error, options["json"] === true),
  });
}
