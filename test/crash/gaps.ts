import { readFileSync } from "node:fs";

/** The longest pause between two heartbeats, and how long the process was ready then but had no processor. */
export class Gaps {
  count = 0;
  longest = 0;
  /** Without the time it waited for a processor, which the machine caused. */
  longestOwn = 0;
  longestWait = 0;
  #last = 0;
  #waited = 0;

  begin(): void {
    this.#last = performance.now();
    this.#waited = waitedMs();
  }

  beat(): void {
    const now = performance.now();
    const waited = waitedMs();
    const gap = now - this.#last;
    const wait = waited - this.#waited;
    this.longest = Math.max(this.longest, gap);
    this.longestOwn = Math.max(this.longestOwn, gap - wait);
    this.longestWait = Math.max(this.longestWait, wait);
    this.count += 1;
    this.#last = now;
    this.#waited = waited;
  }
}

/**
 * How long this process's first thread was ready but did not run, in total. 0 if the system does not count
 * it.
 */
function waitedMs(): number {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1] ?? 0) / 1e6;
  } catch {
    // Not Linux, or not available: then all of a gap counts.
    return 0;
  }
}
