import { writeSync } from "node:fs";
import { createInterface } from "node:readline";

/** Lines to and from the harness: it learns at once what happens, and lets the agent continue. */
export class HarnessChannel {
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

  /** Also for processes without a channel: the last line before a stop. */
  sayNow(what: object): void {
    writeSync(1, `${JSON.stringify(what)}\n`);
  }

  /** Reports a place and waits until the harness lets it continue. */
  ask(place: string): Promise<void> {
    if (!this.gated) return Promise.resolve();
    return new Promise((resolve) => {
      this.waiting.set(place, resolve);
      this.say({ at: place });
    });
  }
}
