/** From what was typed to what is printed: one operation, one answer, one exit code. */

import { Context, OPERATIONS, perform } from "../operations/index.ts";
import type { Command, Options } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { reportWarning } from "./failure.ts";
import { answerer, whoActs } from "./person.ts";
import { answer, openScreen } from "./screen.ts";
import { goalSaid } from "./values.ts";

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
  const why = command.answersFor ? await answerer(command.words, options) : {};
  const context = contextOf(options);
  try {
    const input = Object.entries({ ...said, ...why }).filter(([, value]) => value !== undefined);
    const data = await perform(operation, context, Object.fromEntries(input));
    const isFound = command.found?.(data as never) ?? false;
    if (isFound) process.exitCode = EXIT.found;
    const page = (each: typeof data) => command.page(each as never, screen);
    const exact = (each: typeof data) => command.data?.(each as never, screen) ?? each;
    process.stdout.write(answer(options["json"], operation.name, data, page, exact));
  } finally {
    await context.close();
  }
}

export function contextOf(options: Options): Context {
  return new Context({
    address: (options["store"] as string | undefined) ?? process.env["HOLDFAST_STORE"],
    goal: goalSaid(options["goal"]),
    by: whoActs(options),
    caller: "person",
    warn: (error) => reportWarning(error, options["json"] === true),
  });
}
