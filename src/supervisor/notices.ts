/**
 * Telling others what a supervisor sees. Nothing here may hurt the loop: whoever is told may throw, hang or be missing,
 * and that is a warning. A notice is sent at least once per supervisor; two supervisors may both send one.
 */

import type { Work } from "./worker-kind.ts";

/** What a supervisor found or did. `onEvent` is told of all of them, `notify` of those that a person would want to hear of. */
export type SupervisorEvent =
  | {
      readonly type: "session.crashed";
      readonly session: string;
      readonly goal: string | null;
      readonly why: string;
    }
  | {
      readonly type: "task.reset";
      readonly goal: string;
      readonly task: string;
      readonly session: string | null;
      readonly agent: string;
      /** The last that it said it was doing. */
      readonly note: string | null;
      readonly why: string;
    }
  | {
      readonly type: "call.settled";
      readonly session: string;
      readonly callId: string;
      readonly tool: string;
      readonly status: string;
    }
  /** `person`: it waits for an answer. Else its agent, or a later look, finds out. */
  | {
      readonly type: "call.open";
      readonly session: string;
      readonly callId: string;
      readonly tool: string;
      readonly person: boolean;
      readonly why: string;
    }
  | { readonly type: "goal.blocked"; readonly goal: string; readonly why: string }
  | { readonly type: "task.unblocked"; readonly goal: string; readonly tasks: readonly string[] }
  | { readonly type: "worker.started"; readonly work: Work; readonly pid: number | null }
  | {
      readonly type: "worker.ended";
      readonly work: Work;
      /** `waiting`: it ended well and left calls open; it is started again when a person has answered. */
      readonly how: "done" | "waiting" | "died" | "stopped";
      readonly why: string | null;
    }
  /** It died too often in a row; `blocker` is what a person resolves for it to be tried again. */
  | {
      readonly type: "worker.looping";
      readonly work: Work;
      readonly deaths: number;
      readonly blocker: string | null;
      readonly why: string;
    }
  | { readonly type: "error"; readonly doing: string; readonly error: unknown };

const QUIET: readonly SupervisorEvent["type"][] = ["worker.started", "worker.ended", "call.settled"];

/** A program that is told of what a person would want to hear of, such as one that sends a mail. */
export interface CommandNotice {
  /** Program and arguments. */
  readonly command: readonly string[];
  /** After this long it is killed. 10 s unless set. */
  readonly timeoutMs?: number;
}

interface Listeners {
  readonly onEvent?: ((event: SupervisorEvent) => void) | undefined;
  readonly notify?: ((event: SupervisorEvent) => void | Promise<void>) | undefined;
  readonly notifyCommand?: CommandNotice | undefined;
}

const COMMAND_TIMEOUT_MS = 10_000;
/** Notices under way at once; a hook that hangs must not gather processes without end. */
const AT_ONCE = 16;

export class Notices {
  readonly #listeners: Listeners;
  readonly #warn: (error: unknown) => void;
  readonly #underWay = new Set<Promise<void>>();

  constructor(listeners: Listeners, warn: (error: unknown) => void) {
    this.#listeners = listeners;
    this.#warn = warn;
  }

  tell(event: SupervisorEvent): void {
    const { onEvent, notify, notifyCommand } = this.#listeners;
    this.#guard(async () => onEvent?.(event));
    if (QUIET.includes(event.type)) return;
    if (notify) this.#guard(async () => notify(event));
    if (!notifyCommand) return;
    if (this.#underWay.size < AT_ONCE) this.#guard(() => runCommand(notifyCommand, event));
    else this.#warn(new Error(`a notice was dropped: ${AT_ONCE} others have not been taken yet`));
  }

  /** Waits for notices under way, but not for long. */
  async settled(withinMs: number): Promise<void> {
    const patience = new AbortController();
    const enough = new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, withinMs);
      patience.signal.addEventListener("abort", () => clearTimeout(timer));
    });
    await Promise.race([Promise.allSettled(this.#underWay), enough]);
    patience.abort();
  }

  #guard(tell: () => Promise<void>): void {
    const told = tell().catch(this.#warn);
    this.#underWay.add(told);
    const done = (): void => {
      this.#underWay.delete(told);
    };
    told.then(done, done);
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
    // A command that does not read is no reason to fail.
    child.stdin.on("error", () => undefined);
    child.stdin.end(`${JSON.stringify(event, plainError)}\n`);
  });
}

function plainError(_name: string, value: unknown): unknown {
  return value instanceof Error ? value.message : value;
}
