/** Timers that end at once when the run is stopped, and leave nothing behind. */

/** A longer timer fires at once. */
export const TIMER_LIMIT_MS = 2 ** 31 - 1;

export function sleep(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(finish, Math.min(ms, TIMER_LIMIT_MS));
    function finish(): void {
      stop.removeEventListener("abort", aborted);
      resolve();
    }
    function aborted(): void {
      clearTimeout(timer);
      reject(stop.reason);
    }
    if (stop.aborted) aborted();
    else stop.addEventListener("abort", aborted, { once: true });
  });
}

/** Resolves to the result of `work`, or to `fallback` after `ms`. Rejects with the reason of `stop`. */
export function withTimeout<Result, Fallback>(
  work: Promise<Result>,
  ms: number,
  stop: AbortSignal,
  fallback: Fallback,
): Promise<Result | Fallback> {
  return new Promise((resolve, reject) => {
    // Also without a limit: the timer keeps the process alive while the work waits for nothing of its own.
    const timer = setTimeout(() => end(() => resolve(fallback)), Math.min(ms, TIMER_LIMIT_MS));
    let removeListener = (): unknown => undefined;
    function end(settle: () => void): void {
      clearTimeout(timer);
      removeListener();
      settle();
    }
    removeListener = onAbort(stop, () => end(() => reject(stop.reason)));
    // A model may answer without a promise, whatever its type says.
    Promise.resolve(work).then(
      (result) => end(() => resolve(result)),
      (error: unknown) => end(() => reject(error)),
    );
  });
}

const abortListeners = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Calls `act` when the signal aborts, at once if it has. Returns the way out. All share one listener per
 * signal: adding one costs as much as a SQL statement.
 */
export function onAbort(signal: AbortSignal, act: () => void): () => void {
  if (signal.aborted) {
    act();
    return () => undefined;
  }
  const acts = abortListeners.get(signal) ?? new Set();
  if (!abortListeners.has(signal)) {
    abortListeners.set(signal, acts);
    const runAll = (): void => {
      for (const each of acts) each();
    };
    signal.addEventListener("abort", runAll, { once: true });
  }
  acts.add(act);
  return () => acts.delete(act);
}
