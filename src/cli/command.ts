/** What a command of the command line is: words, arguments and options that become the input of one operation. */

import type { OperationName, ResultOf } from "../operations/index.ts";
import { Misuse } from "./failure.ts";
import type { Screen } from "./screen.ts";

/** What was typed, as the values that operations take. */

type Typed = string | readonly string[] | boolean | undefined;

/** The goal that was named, on the command line or in the environment. */
export function goalOption(typed: Typed): string | undefined {
  return (typed as string | undefined) ?? (process.env["HOLDFAST_GOAL"] || undefined);
}

export function wholeNumber(name: string, typed: Typed): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(typed);
  if (typeof typed === "string" && /^\d+$/.test(typed) && Number.isSafeInteger(number)) return number;
  throw new Misuse(`${name} is not a whole number: ${String(typed)}`, `Say for example ${name} 3`);
}

export function fraction(name: string, typed: Typed): number | undefined {
  if (typed === undefined) return undefined;
  const number = Number(String(typed).replace(/%$/, "")) / (String(typed).endsWith("%") ? 100 : 1);
  if (number >= 0 && number <= 1) return number;
  throw new Misuse(`${name} is not a share: ${String(typed)}`, `Say for example ${name} 80%`);
}

const UNITS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function duration(name: string, typed: Typed): number | undefined {
  if (typed === undefined) return undefined;
  const [, number, unit] = /^(\d+)(s|m|h|d)$/.exec(String(typed)) ?? [];
  if (unit !== undefined && Number(number) > 0) return Number(number) * (UNITS[unit] ?? 0);
  throw new Misuse(
    `${name} is not a length of time: ${String(typed)}`,
    `Say for example ${name} 30d, or 12h, 45m, 90s`,
  );
}

/** JSON where it is JSON, else the text itself: `8080` is a number, `postgres 17` is words. */
export function jsonOrText(typed: string | undefined): unknown {
  if (typed === undefined) return undefined;
  try {
    return JSON.parse(typed) as unknown;
  } catch {
    return typed;
  }
}

/** JSON and nothing else, for what a program will read. */
export function json(name: string, typed: Typed): unknown {
  if (typed === undefined) return undefined;
  try {
    return JSON.parse(String(typed)) as unknown;
  } catch {
    throw new Misuse(
      `${name} is not JSON: ${String(typed)}`,
      `Say for example ${name} '{"id": 1}', or for a text ${name} '"sent"'`,
    );
  }
}

/** A phase: a number, or its name. */
export function phase(typed: string | undefined): number | string | undefined {
  return typed !== undefined && /^\d+$/.test(typed) ? Number(typed) : typed;
}

/** `express: too old` */
export function alternative(typed: string): { option: string; whyNot: string } {
  const at = typed.indexOf(":");
  if (at > 0 && typed.slice(at + 1).trim() !== "") {
    return { option: typed.slice(0, at).trim(), whyNot: typed.slice(at + 1).trim() };
  }
  throw new Misuse(`--not needs a reason: ${typed}`, 'Say for example --not "express: no types of its own"');
}

export function list(typed: Typed): readonly string[] | undefined {
  return Array.isArray(typed) ? (typed as readonly string[]) : undefined;
}

/** As commander hands it over: a string, a list of them, or true for a switch. */
export type Options = Readonly<Record<string, string | readonly string[] | boolean | undefined>>;
type Args = readonly (string | undefined)[];

export interface Command<Name extends OperationName = OperationName> {
  /** As it is typed: `task claim`. */
  readonly words: string;
  readonly operation: Name;
  readonly about: string;
  readonly args?: readonly (readonly [name: string, about: string])[];
  readonly options?: readonly (readonly [flags: string, about: string, must?: "required"])[];
  /** On a terminal: asks for what was not said, before anything else. */
  readonly ask?: (options: Options, args: Args) => Promise<Options>;
  readonly input?: (args: Args, options: Options) => Readonly<Record<string, unknown>>;
  readonly page: (data: ResultOf<Name>, screen: Screen) => string;
  /** What `--json` gives, where that is not simply the answer. */
  readonly data?: (data: ResultOf<Name>, screen: Screen) => unknown;
  /** Whether the answer is something that a person has to see to: the exit code says so. */
  readonly found?: (data: ResultOf<Name>) => boolean;
  /** What runs instead, until it is stopped, unless `--once` is said. */
  readonly loop?: (args: Args, options: Options) => Promise<void>;
  /** For people: who says it and why is asked for on a terminal, and has to be given anywhere else. */
  readonly answersFor?: true;
}

/** Ties the page to the operation's answer. */
export function command<Name extends OperationName>(spec: Command<Name>): Command {
  return spec as unknown as Command;
}
