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

/** Resolves to the result of `work`, or to `fallback` after `ms`. */
export async function withTimeout<Result, Fallback>(
  work: Promise<Result>,
  ms: number,
  stop: AbortSignal,
  fallback: Fallback,
): Promise<Result | Fallback> {
  const done = new AbortController();
  const timeout = sleep(ms, AbortSignal.any([stop, done.signal])).then(() => fallback);
  // When the work wins, the sleep is aborted. Its rejection has no other handler.
  timeout.catch(() => undefined);
  try {
    return await Promise.race([work, timeout]);
  } finally {
    done.abort();
  }
}
