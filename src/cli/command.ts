/** What a command of the command line is: words, arguments and options that become the input of one operation. */

import type { OperationName, ResultOf } from "../operations/index.ts";
import type { Screen } from "./screen.ts";

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
