/** A command: one row of the table, and the readers that turn typed words into the operation's input. */

import { parseDuration } from "../model/time.ts";
import type { OperationName, ResultOf } from "../operations/index.ts";
import { Misuse } from "./failure.ts";
import type { Screen } from "./screen.ts";

type Value = string | readonly string[] | boolean | undefined;

/** Options as commander returns them: a string, a list of strings, or true for a switch. */
export type Options = Readonly<Record<string, Value>>;
type Args = readonly (string | undefined)[];

type Input = Readonly<Record<string, unknown>>;

/** A name in brackets, the help text, and the field of the input if its name differs. */
export type ArgumentRow = readonly [name: string, about: string, field?: string];
export type OptionRow = readonly [
  flags: string,
  about: string,
  must?: "required" | "optional",
  field?: string,
];

export interface Command<Name extends OperationName = OperationName> {
  readonly words: string;
  readonly operation: Name;
  readonly about: string;
  readonly args?: readonly ArgumentRow[];
  readonly options?: readonly OptionRow[];
  /** On a terminal: asks for missing options first. */
  readonly ask?: (options: Options, args: Args) => Promise<Options>;
  /** Makes the input, unless each argument and option is a field of it. */
  readonly input?: (args: Args, options: Options) => Input;
  readonly adjust?: (fields: Input) => Input;
  readonly page: (data: ResultOf<Name>, screen: Screen) => string;
  /** The data of `--json`, if it differs from the result. */
  readonly data?: (data: ResultOf<Name>, screen: Screen) => unknown;
  /** Whether the result needs a person. Sets the exit code. */
  readonly found?: (data: ResultOf<Name>) => boolean;
  /** Runs instead until it is stopped, unless `--once` is given. */
  readonly loop?: (args: Args, options: Options) => Promise<void>;
  /** Runs without the project's configuration file. */
  readonly ignoresConfig?: true;
  /** For people only: needs a name and a reason, asked for on a terminal. */
  readonly answersFor?: true;
}

type Spec<Name extends OperationName> = Omit<Command<Name>, "words" | "operation" | "about">;

/** A command for an operation. Its words are the operation's name unless given. */
export function command<Name extends OperationName>(
  operation: Name,
  about: string,
  spec: Spec<Name> & { readonly words?: string },
): Command {
  return { words: operation, operation, about, ...spec } as unknown as Command;
}

export function inputOf(command: Command, typed: Args, options: Options): Input {
  if (command.input) return command.input(typed, options);
  const fields: Record<string, unknown> = {};
  command.args?.forEach(([bracketed, , field], index) => {
    const name = bracketed.replace(/[<>[\].]/g, "");
    const rest = typed.slice(index) as readonly string[];
    const value = bracketed.includes("...") && rest.length > 0 ? rest : typed[index];
    fields[field ?? name] = read(name, name, value);
  });
  for (const [flags, , , field] of command.options ?? []) {
    const [, name = "", placeholder = ""] = /^--([\w-]+)(?: <(.+?)(?:\.\.\.)?>)?$/.exec(flags) ?? [];
    const own = name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
    fields[field ?? own] = read(placeholder, `--${name}`, options[own]);
  }
  return command.adjust?.(fields) ?? fields;
}

/** Readers of values by their placeholder in the help text: `<n>` is a number. Others are texts. */
const READERS: Readonly<Record<string, (name: string, typed: string) => unknown>> = {
  n: wholeNumber,
  seq: wholeNumber,
  version: wholeNumber,
  before: wholeNumber,
  after: wholeNumber,
  time: duration,
  share: fraction,
  amount: (name, typed) => {
    const number = Number(typed);
    if (number > 0 && Number.isFinite(number)) return number;
    throw new Misuse(`${name}: ${typed} is not a positive number`, `For example: ${name} 10`);
  },
  json,
  value: (_, typed) => jsonOrText(typed),
  phase: (_, typed) => (/^\d+$/.test(typed) ? Number(typed) : typed),
  option: alternative,
  "on|off": (_, typed) => {
    if (typed === "on" || typed === "off") return typed;
    throw new Misuse(`session effects: ${typed} is neither on nor off`, "Use on or off.");
  },
  outcome: (_, typed) => {
    if (["landed", "retry", "failed"].includes(typed)) return typed;
    throw new Misuse(
      `resolve: there is no outcome ${typed}`,
      "Use landed (it happened), retry (it did not: try again) or failed (it did not: tell the agent). " +
        "For a call that waits for approval: holdfast approve, holdfast deny.",
    );
  },
};

function read(placeholder: string, name: string, typed: Value): unknown {
  const reader = READERS[placeholder];
  if (!reader || typed === undefined) return typed;
  return Array.isArray(typed)
    ? typed.map((each) => reader(name, each as string))
    : reader(name, typed as string);
}

export function goalOption(typed: Value): string | undefined {
  return (typed as string | undefined) ?? (process.env["HOLDFAST_GOAL"] || undefined);
}

export function wholeNumber(name: string, typed: Value): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(typed);
  if (typeof typed === "string" && /^\d+$/.test(typed) && Number.isSafeInteger(number)) return number;
  throw new Misuse(`${name}: ${String(typed)} is not a whole number`, `For example: ${name} 3`);
}

function fraction(name: string, typed: Value): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(String(typed).replace(/%$/, "")) / (String(typed).endsWith("%") ? 100 : 1);
  if (number >= 0 && number <= 1) return number;
  throw new Misuse(`${name}: ${String(typed)} is not between 0% and 100%`, `For example: ${name} 80%`);
}

export function duration(name: string, typed: Value): number | undefined {
  if (typed === undefined) return undefined;
  const ms = parseDuration(String(typed));
  if (ms !== undefined) return ms;
  const hint = `For example: ${name} 30d, 12h, 45m or 90s`;
  throw new Misuse(`${name}: ${String(typed)} is not a duration`, hint);
}

/** JSON if it parses, else the text itself: `8080` is a number, `postgres 17` is text. */
function jsonOrText(typed: string): unknown {
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}

export function json(name: string, typed: Value): unknown {
  if (typed === undefined) return undefined;
  try {
    return JSON.parse(String(typed)) as unknown;
  } catch {
    const hint = `For example: ${name} '{"id": 1}', or for a text ${name} '"sent"'`;
    throw new Misuse(`${name}: ${String(typed)} is not JSON`, hint);
  }
}

function alternative(name: string, typed: string): { option: string; whyNot: string } {
  const at = typed.indexOf(":");
  if (at > 0 && typed.slice(at + 1).trim() !== "") {
    return { option: typed.slice(0, at).trim(), whyNot: typed.slice(at + 1).trim() };
  }
  throw new Misuse(`${name}: ${typed} lacks a reason`, `For example: ${name} "express: no types of its own"`);
}

export function list(typed: unknown): readonly string[] | undefined {
  return Array.isArray(typed) ? (typed as readonly string[]) : undefined;
}
