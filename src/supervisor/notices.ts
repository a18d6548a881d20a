/**
 * Sends a supervisor's events to listeners. A listener may throw, hang or be missing: that is a warning, and
 * never hurts the loop. Each supervisor sends a notice at least once, so two supervisors may both send it.
 */

import type { LostClaim } from "../goal/index.ts";
import { withTimeout } from "../ledger/index.ts";
import type { Work } from "./worker-kind.ts";

/** A call without an outcome in a session that has no owner. */
export interface OpenCallNote {
  readonly session: string;
  readonly callId: string;
  readonly tool: string;
  /** True if a person has to answer. False if its agent or a later sweep finds out. */
  readonly person: boolean;
  readonly why: string;
}

/** A finding or an act of a supervisor. `onEvent` gets all of them, `notify` those that concern a person. */
export type SupervisorEvent =
  | {
      readonly type: "session.crashed";
      readonly session: string;
      readonly goal: string | null;
      readonly why: string;
    }
  | ({ readonly type: "task.reset"; readonly goal: string } & LostClaim)
  | ({ readonly type: "call.settled"; readonly status: string } & Omit<OpenCallNote, "person" | "why">)
  | ({ readonly type: "call.open" } & OpenCallNote)
  | { readonly type: "goal.blocked"; readonly goal: string; readonly why: string }
  | { readonly type: "task.unblocked"; readonly goal: string; readonly tasks: readonly string[] }
  | { readonly type: "worker.started"; readonly work: Work; readonly pid: number | null }
  | {
      readonly type: "worker.ended";
      readonly work: Work;
      /** `waiting`: it ended well and left calls open. The next worker starts when a person has answered. */
      readonly how: "done" | "waiting" | "died" | "stopped";
      readonly why: string | null;
    }
  /** It died too often in a row. Resolve `blocker` to let it be tried again. */
  | {
      readonly type: "worker.looping";
      readonly work: Work;
      readonly deaths: number;
      readonly blocker: string | null;
      readonly why: string;
    }
  | { readonly type: "error"; readonly doing: string; readonly error: unknown };

const QUIET: readonly SupervisorEvent["type"][] = ["worker.started", "worker.ended", "call.settled"];

/** A program that gets the events of `notify`, e.g. `{ command: ["./send-mail.sh"] }`. */
export interface CommandNotice {
  readonly command: readonly string[];
  /** The time after which it is killed. 10 s unless set. */
  readonly timeoutMs?: number;
}

interface Listeners {
  readonly onEvent?: ((event: SupervisorEvent) => void) | undefined;
  readonly notify?: ((event: SupervisorEvent) => void | Promise<void>) | undefined;
  readonly notifyCommand?: CommandNotice | undefined;
}

const COMMAND_TIMEOUT_MS = 10_000;
/** Notices in flight at once. A command that hangs must not pile up processes. */
const MAX_IN_FLIGHT = 16;

export class Notices {
  readonly #listeners: Listeners;
  readonly #warn: (error: unknown) => void;
  readonly #inFlight = new Set<Promise<void>>();

  constructor(listeners: Listeners, warn: (error: unknown) => void) {
    this.#listeners = listeners;
    this.#warn = warn;
  }

  emit(event: SupervisorEvent): void {
    const { onEvent, notify, notifyCommand } = this.#listeners;
    this.#guard(async () => onEvent?.(event));
    if (QUIET.includes(event.type)) return;
    if (notify) this.#guard(async () => notify(event));
    if (!notifyCommand) return;
    if (this.#inFlight.size < MAX_IN_FLIGHT) this.#guard(() => runCommand(notifyCommand, event));
    else this.#warn(new Error(`a notice was dropped: ${MAX_IN_FLIGHT} others are still in flight`));
  }

  async settled(withinMs: number): Promise<void> {
    await withTimeout(Promise.allSettled(this.#inFlight), withinMs, new AbortController().signal, null);
  }

  #guard(send: () => Promise<void>): void {
    const sent = send().catch(this.#warn);
    this.#inFlight.add(sent);
    const done = () => this.#inFlight.delete(sent);
    sent.then(done, done);
  }
}

function runCommand({ command, timeoutMs }: CommandNotice, event: SupervisorEvent): Promise<void> {
  return new Promise((resolve, reject) => {
    const [program = "", ...args] = command;
    const { spawn } = process.getBuiltinModule("node:child_process");
    const child = spawn(program, args, {
      stdio: ["pipe", "ignore", "inherit"],
      timeout: timeoutMs ?? COMMAND_TIMEOUT_MS,
      killSignal: "SIGKILL",
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0) resolve();
      else reject(new Error(`the notification command ended with ${signal ?? `exit code ${code}`}`));
    });
    // A command may ignore its input.
    child.stdin.on("error", () => undefined);
    const errorAsText = (_name: string, value: unknown) => (value instanceof Error ? value.message : value);
    child.stdin.end(`${JSON.stringify(event, errorAsText)}\n`);
  });
}
