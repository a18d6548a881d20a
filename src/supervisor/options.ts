import type { Tool } from "../ledger/index.ts";
import type { CommandNotice, SupervisorEvent } from "./notices.ts";
import type { Work } from "./worker-kind.ts";

/**
 * How a supervisor starts a worker: one process for one task or session.
 *
 * @example
 * { command: ["node", "agent.js"], env: { LOG: "debug" } }
 */
export interface WorkerCommand {
  /** Program and arguments. Its work is in HOLDFAST_GOAL and HOLDFAST_TASK, or in HOLDFAST_SESSION. */
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Its output goes to this process's output (default), all of it to `stderr`, or nowhere (`ignore`). */
  readonly output?: "inherit" | "stderr" | "ignore";
}

/**
 * The options of one sweep, `holdfast.superviseOnce`.
 *
 * @example
 * await holdfast.superviseOnce({ tools: [charge], staleAfterMs: 10 * 60_000 });
 */
export interface SweepOptions {
  /** A task without progress for this time is reset, even if its process lives. 30 min unless set. */
  readonly staleAfterMs?: number;
  /** Settle interrupted calls without their agent. Sessions with calls of other tools are left to theirs. */
  readonly tools?: readonly Tool[];
  /** Calls of other tools are left to their agent (`"leave"`, default) or wait for a person (`"ask"`). */
  readonly unknownTools?: "leave" | "ask";
  /** The supervisor's name in logs and histories, e.g. `"night-shift"`. */
  readonly name?: string;
  /** Receives every event as it happens: `onEvent: (event) => log(event.type)`. */
  readonly onEvent?: (event: SupervisorEvent) => void;
  /** Receives events that concern a person, such as a call that waits. An error in it is only a warning. */
  readonly notify?: (event: SupervisorEvent) => void | Promise<void>;
  /** Like `notify`, for a program that reads the event as JSON from standard input. */
  readonly notifyCommand?: CommandNotice;
  /** Ends the sweep after the session at hand. */
  readonly signal?: AbortSignal;
}

/**
 * The options of the supervisor's loop, `holdfast.supervise`. Only `signal` ends it.
 *
 * @example
 * await holdfast.supervise({ signal, start: { command: ["node", "agent.js"] }, parallel: 4 });
 */
export interface SuperviseOptions extends SweepOptions {
  /** Ends the loop. Workers are asked to stop, their ends are recorded, and leases are released. */
  readonly signal: AbortSignal;
  /** The time between sweeps if nothing changes. 10 s unless set. */
  readonly everyMs?: number;
  /** Starts workers. A function may choose per work, or return null for none; it is called often. */
  readonly start?: WorkerCommand | ((work: Work) => WorkerCommand | null);
  /** The most workers at once. 2 unless set. */
  readonly parallel?: number;
  /** After this many deaths in a row no worker starts until a person has looked. 3 unless set. */
  readonly maxDeaths?: number;
  /** The pause after a first death. It doubles each time. 1 s unless set. */
  readonly backoffMs?: number;
  /** The longest pause after a death. 5 min unless set. */
  readonly maxBackoffMs?: number;
  /** The time that workers have to stop before they are killed. 25 s unless set. */
  readonly graceMs?: number;
}

export const DEFAULTS = {
  staleAfterMs: 30 * 60_000,
  everyMs: 10_000,
  parallel: 2,
  maxDeaths: 3,
  backoffMs: 1_000,
  maxBackoffMs: 5 * 60_000,
  /** Longer than the guides let a worker drain (`withinMs: 20_000`), shorter than the 30 s of Kubernetes. */
  graceMs: 25_000,
  noticesMs: 10_000,
} as const;
