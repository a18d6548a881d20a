/** Runs a command: one operation, one answer, one exit code. */

import { userInfo } from "node:os";
import { HoldfastError } from "../model/errors.ts";
import type { Actor, GoalRole } from "../model/goal/index.ts";
import { Context, OPERATIONS, perform } from "../operations/index.ts";
import { agentAbove } from "./agent-above.ts";
import { type Command, goalOption, inputOf, type Options } from "./command.ts";
import { Misuse, reportWarning } from "./failure.ts";
import { EXIT, formatAnswer, openScreen } from "./screen.ts";

export async function runCommand(
  command: Command,
  args: readonly (string | undefined)[],
  typed: Options,
): Promise<void> {
  const operation = OPERATIONS.get(command.operation);
  if (!operation) throw new Error(`${command.words}: there is no operation ${command.operation}`);
  const screen = await openScreen(typed);
  const canAsk = process.stdin.isTTY === true && screen.isTerminal && !typed["json"];
  const options = command.ask && canAsk ? await command.ask(typed, args) : typed;
  const input = inputOf(command, args, options);
  const reason = command.answersFor ? await askForReason(command.words, options) : {};
  const context = await contextOf(options, { ignoresConfig: command.ignoresConfig === true });
  try {
    const defined = Object.entries({ ...input, ...reason }).filter(([, value]) => value !== undefined);
    const data = await perform(operation, context, Object.fromEntries(defined));
    if (command.found?.(data as never)) process.exitCode = EXIT.found;
    const page = (each: typeof data) => command.page(each as never, screen);
    const exact = (each: typeof data) => command.data?.(each as never, screen) ?? each;
    process.stdout.write(formatAnswer(options["json"], operation.name, data, page, exact));
  } finally {
    await context.close();
  }
}

export function contextOf(
  options: Options,
  { ignoresConfig = false, via }: { readonly ignoresConfig?: boolean; readonly via?: string } = {},
): Promise<Context> {
  const by = actorFrom(options);
  return Context.of({
    ignoresConfig,
    store: options["store"] as string | undefined,
    namespace: options["namespace"] as string | undefined,
    goal: goalOption(options["goal"]),
    by,
    caller: "person",
    agent: agentAbove(by.role),
    ...(via !== undefined && { via }),
    warn: (error) => reportWarning(error, options["json"] === true),
  });
}

const ROLES: readonly GoalRole[] = ["worker", "architect", "orchestrator", "verifier", "human", "supervisor"];

/** Without a role, a command is a person's, unless an agent runs it. */
function actorFrom({ by, role: typed }: Options): Actor {
  const agent = agentAbove();
  const role = typed ?? (process.env["HOLDFAST_ROLE"] || (agent === null ? "human" : "worker"));
  if (!ROLES.includes(role as GoalRole)) {
    throw new Misuse(`there is no role ${String(role)}`, `Use one of: ${ROLES.join(", ")}`);
  }
  if (role === "human" && agent !== null) {
    const message = `the role human is for people, but an agent runs this: ${agent}`;
    const hint = "Pass the role that you work in: --role worker, architect, orchestrator or verifier.";
    throw new HoldfastError("ROLE_REFUSED", message, { hint, data: { agent } });
  }
  return { name: String(by ?? process.env["HOLDFAST_BY"] ?? userName()), role: role as GoalRole };
}

async function askForReason(words: string, { by, why }: Options): Promise<{ by: string; why: string }> {
  const canAsk = process.stdin.isTTY === true && process.stdout.isTTY === true;
  const name = by ?? (canAsk ? userName() : undefined);
  if (name !== undefined && why !== undefined) return { by: String(name), why: String(why) };
  if (!canAsk) {
    const example = words === "resolve" ? "seen in the bank" : "no longer needed";
    throw new Misuse(
      `${words} is for people: without a terminal it needs --by and --why`,
      `Name who decides and why: --by ann --why "${example}"`,
    );
  }
  const { isCancel, text } = await import("@clack/prompts");
  const asked = await text({
    message: `Why? The reason is recorded under the name ${String(name)}.`,
    validate: (typed) => (typed?.trim() ? undefined : "Enter a reason for those who come later."),
  });
  if (isCancel(asked)) {
    throw new Misuse(`${words} was cancelled`, "Nothing was changed.", EXIT.interrupted);
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
