import { vi } from "vitest";

/**
 * For the rest of a test, timers of exactly these lengths go off at once, and `pass` hears how much time that was. All
 * others, such as those of a driver, run as ever. Gives the lengths as they are waited for, so that a test can say by how
 * much a back-off grows instead of living through it.
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
