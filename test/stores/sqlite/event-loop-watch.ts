import { Gaps } from "../../crash/gaps.ts";

/** Measures the event loop of this process: how often it turns, and its longest pause. */
export class TurningLoop {
  readonly #gaps = new Gaps();
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#gaps.begin();
    this.#timer = setInterval(() => this.#gaps.beat(), 1);
  }

  async turns(times: number): Promise<void> {
    const before = this.#gaps.count;
    while (this.#gaps.count < before + times) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  /** Ends the watch. */
  longestStandMs(): number {
    this.#gaps.beat();
    clearInterval(this.#timer);
    return this.#gaps.longest;
  }
}
