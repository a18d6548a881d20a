import type { Goal } from "./goal.ts";

/** A hint from the store may not come, so nobody waits longer than this without looking. */
const LOOK_AGAIN_MS = 250;

/** Resolves when the goal changed, at the latest after `ms` or the time to look again. Says how long it took. */
export function nextChange(goal: Goal, ms: number | null, signal: AbortSignal | undefined): Promise<number> {
  const started = performance.now();
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      stopWatching();
      signal?.removeEventListener("abort", finish);
      resolve(performance.now() - started);
    };
    const timer = setTimeout(finish, Math.max(1, Math.min(ms ?? LOOK_AGAIN_MS, LOOK_AGAIN_MS)));
    const stopWatching = goal.watch(finish);
    signal?.addEventListener("abort", finish, { once: true });
  });
}
