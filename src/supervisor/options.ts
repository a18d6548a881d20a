import type { Tool } from "../ledger/index.ts";
import type { CommandNotice, SupervisorEvent } from "./notices.ts";
import type { Work } from "./worker-kind.ts";

/** How a supervisor starts a worker: one process for one task or session. */
export interface WorkerCommand {
  /** Program and arguments. It finds what to do in HOLDFAST_GOAL and HOLDFAST_TASK, or in HOLDFAST_SESSION. */
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Where its output goes: to that of this process, all of it to its `stderr`, or, told to `ignore` it, nowhere. */
  readonly output?: "inherit" | "stderr" | "ignore";
}

/** For one look at everything, `holdfast.superviseOnce`: what counts as stuck, what can be settled, who is told. */
export interface SweepOptions {
  /** A task whose session has shown no progress for so long is put back, also if its process still lives. 30 min. */
  readonly staleAfterMs?: number;
  /**
   * Tools by which interrupted calls are settled without their agent: asked by their `verify` and, where that or the
   * tool itself allows it, run once more under the same key. A session is left to its agent while any of its open
   * calls is of a tool that is not here.
   */
  readonly tools?: readonly Tool[];
  /** `ask`: calls of tools that are not here are put before a person instead of being left to their agent. */
  readonly unknownTools?: "leave" | "ask";
  /** Who this is, in logs and for others. */
  readonly name?: string;
  /** Told of everything, as it happens. */
  readonly onEvent?: (event: SupervisorEvent) => void;
  /** Told of what a person would want to hear of. What goes wrong in here is a warning and stops nothing. */
  readonly notify?: (event: SupervisorEvent) => void | Promise<void>;
  /** The same for a program, which reads the event as JSON on its standard input. */
  readonly notifyCommand?: CommandNotice;
  readonly signal?: AbortSignal;
}

/** For the loop, `holdfast.supervise`: how often it looks, and which workers it starts. It ends by `signal` only. */
export interface SuperviseOptions extends SweepOptions {
  /** Ends the loop: workers are asked to stop, and what is under way is put in order first. */
  readonly signal: AbortSignal;
  /** How often to look when nothing gives a sign. 10 s unless set. */
  readonly everyMs?: number;
  /** Starts a worker for what is ready. A function is asked often and only answers; null: not for this. */
  readonly start?: WorkerCommand | ((work: Work) => WorkerCommand | null);
  /** Workers at once. 2 unless set. */
  readonly parallel?: number;
  /** After this many deaths in a row a worker is not started again until a person has looked. 3 unless set. */
  readonly maxDeaths?: number;
  /** After the first death wait this long, then twice as long each time, up to `maxBackoffMs`. 1 s and 5 min. */
  readonly backoffMs?: number;
  readonly maxBackoffMs?: number;
  /** How long workers may take to stop before they are killed. 10 s unless set. */
  readonly graceMs?: number;
}

export const DEFAULTS = {
  staleAfterMs: 30 * 60_000,
  everyMs: 10_000,
  parallel: 2,
  maxDeaths: 3,
  backoffMs: 1_000,
  maxBackoffMs: 5 * 60_000,
  graceMs: 10_000,
} as const;
