import { readFileSync } from "node:fs";

/** How long the longest pause between two beats was, and how much of one the process was ready and had no processor. */
export class Gaps {
  count = 0;
  longest = 0;
  /** Without what it waited for a processor: that is the machine's doing. */
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

/** For how long this process's first thread has been ready to run in all its life, and did not. 0 where nobody counts it. */
function waitedMs(): number {
  try {
    return Number(readFileSync("/proc/self/schedstat", "utf8").split(" ")[1] ?? 0) / 1e6;
  } catch {
    // Not Linux, or not told here: then all of a gap counts.
    return 0;
  }
}
