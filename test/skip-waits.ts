import { vi } from "vitest";

/**
 * For the rest of a test, timers of exactly these lengths fire at once, and `pass` gets the skipped time.
 * Other timers, such as those of a driver, are unchanged. Returns the skipped waits, so that a test can check
 * a backoff without living through it.
 */
export function skipWaits(
  lengths: readonly number[],
  pass: (ms: number) => void = () => undefined,
): number[] {
  const waited: number[] = [];
  const real = globalThis.setTimeout;
  const skip = (act: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    if (!lengths.includes(ms)) return real(act, ms, ...args);
    waited.push(ms);
    const over = (): void => {
      pass(ms);
      act(...args);
    };
    return real(over, 0);
  };
  vi.spyOn(globalThis, "setTimeout").mockImplementation(skip as typeof setTimeout);
  return waited;
}
