/** Waiting that ends at once when the run is stopped, and leaves no timer behind. */

export function sleep(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(finish, Math.min(ms, 2 ** 31 - 1));
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

/** What `work` gives, or `otherwise` if that takes longer than `ms`. */
export async function withTimeout<Result, Other>(
  work: Promise<Result>,
  ms: number,
  stop: AbortSignal,
  otherwise: Other,
): Promise<Result | Other> {
  const enough = new AbortController();
  const timeout = sleep(ms, AbortSignal.any([stop, enough.signal])).then(() => otherwise);
  // When the work is first, the timer is called off; nobody waits for it any more.
  timeout.catch(() => undefined);
  try {
    return await Promise.race([work, timeout]);
  } finally {
    enough.abort();
  }
}
