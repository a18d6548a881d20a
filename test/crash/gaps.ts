/** Counts beats, and measures the longest pause between two. */
export class Gaps {
  count = 0;
  longest = 0;
  #last = 0;

  begin(): void {
    this.#last = performance.now();
  }

  beat(): void {
    const now = performance.now();
    this.longest = Math.max(this.longest, now - this.#last);
    this.count += 1;
    this.#last = now;
  }
}
