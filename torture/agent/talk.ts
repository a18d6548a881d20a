import { writeSync } from "node:fs";
import { createInterface } from "node:readline";

/** Lines to and from the harness: it learns what happens the moment it happens, and lets the agent go on. */
export class Talk {
  private readonly on: boolean;
  private readonly gated: boolean;
  private readonly waiting = new Map<string, () => void>();

  constructor(on: boolean, gated: boolean) {
    this.on = on;
    this.gated = gated;
    if (!gated) return;
    const lines = createInterface({ input: process.stdin });
    lines.on("line", (line) => {
      this.waiting.get(line)?.();
      this.waiting.delete(line);
    });
    process.stdin.unref?.();
  }

  say(what: object): void {
    if (this.on) this.sayNow(what);
  }

  /** Also for processes that do not talk otherwise: the last words before a stop. */
  sayNow(what: object): void {
    writeSync(1, `${JSON.stringify(what)}\n`);
  }

  /** Says that it is at a place and waits until it is let go. */
  ask(place: string): Promise<void> {
    if (!this.gated) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.set(place, resolve);
      this.say({ at: place });
    });
  }
}
