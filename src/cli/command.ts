/** The type of a command, and the readers that turn typed words into an operation's input. */

import type { OperationName, ResultOf } from "../operations/index.ts";
import { Misuse } from "./failure.ts";
import type { Screen } from "./screen.ts";

type Value = string | readonly string[] | boolean | undefined;

/** Options as commander returns them: a string, a list of strings, or true for a switch. */
export type Options = Readonly<Record<string, Value>>;
type Args = readonly (string | undefined)[];

/** A command that runs one operation. */
export interface Command<Name extends OperationName = OperationName> {
  /** The words of the command: `task claim`. */
  readonly words: string;
  readonly operation: Name;
  readonly about: string;
  readonly args?: readonly (readonly [name: string, about: string])[];
  readonly options?: readonly (readonly [flags: string, about: string, must?: "required"])[];
  /** On a terminal: asks for missing options first. */
  readonly ask?: (options: Options, args: Args) => Promise<Options>;
  readonly input?: (args: Args, options: Options) => Readonly<Record<string, unknown>>;
  readonly page: (data: ResultOf<Name>, screen: Screen) => string;
  /** The data of `--json`, if it differs from the result. */
  readonly data?: (data: ResultOf<Name>, screen: Screen) => unknown;
  /** Whether the result needs a person. Sets the exit code. */
  readonly found?: (data: ResultOf<Name>) => boolean;
  /** Runs instead until it is stopped, unless `--once` is given. */
  readonly loop?: (args: Args, options: Options) => Promise<void>;
  /** For people only: needs a name and a reason, asked for on a terminal. */
  readonly answersFor?: true;
}

/** Ties the type of the page to the operation's result. */
export function command<Name extends OperationName>(spec: Command<Name>): Command {
  return spec as unknown as Command;
}

/** The goal from `--goal` or the environment. */
export function goalOption(typed: Value): string | undefined {
  return (typed as string | undefined) ?? (process.env["HOLDFAST_GOAL"] || undefined);
}

export function wholeNumber(name: string, typed: Value): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(typed);
  if (typeof typed === "string" && /^\d+$/.test(typed) && Number.isSafeInteger(number)) return number;
  throw new Misuse(`${name}: ${String(typed)} is not a whole number`, `For example: ${name} 3`);
}

export function fraction(name: string, typed: Value): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(String(typed).replace(/%$/, "")) / (String(typed).endsWith("%") ? 100 : 1);
  if (number >= 0 && number <= 1) return number;
  throw new Misuse(`${name}: ${String(typed)} is not between 0% and 100%`, `For example: ${name} 80%`);
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function duration(name: string, typed: Value): number | undefined {
  if (typed === undefined) return undefined;
  const [, number, unit] = /^(\d+)(s|m|h|d)$/.exec(String(typed)) ?? [];
  if (unit !== undefined && Number(number) > 0) return Number(number) * (UNITS[unit] ?? 0);
  throw new Misuse(
    `${name}: ${String(typed)} is not a duration`,
    `For example: ${name} 30d, 12h, 45m or 90s`,
  );
}

/** JSON if it parses, else the text itself: `8080` is a number, `postgres 17` is text. */
export function jsonOrText(typed: string | undefined): unknown {
  if (typed === undefined) return undefined;
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
    throw new Misuse(
      `${name}: ${String(typed)} is not JSON`,
      `For example: ${name} '{"id": 1}', or for a text ${name} '"sent"'`,
    );
  }
}

/** A phase by number or name. */
export function phase(typed: string | undefined): number | string | undefined {
  return typed !== undefined && /^\d+$/.test(typed) ? Number(typed) : typed;
}

/** Parses `express: too old`. */
export function alternative(typed: string): { option: string; whyNot: string } {
  const at = typed.indexOf(":");
  if (at > 0 && typed.slice(at + 1).trim() !== "") {
    return { option: typed.slice(0, at).trim(), whyNot: typed.slice(at + 1).trim() };
  }
  throw new Misuse(`--not: ${typed} lacks a reason`, 'For example: --not "express: no types of its own"');
}

export function list(typed: Value): readonly string[] | undefined {
  return Array.isArray(typed) ? (typed as readonly string[]) : undefined;
}
