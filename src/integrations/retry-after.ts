import { sleep } from "../ledger/index.ts";

const LIMIT_MS = 60_000;

/** Waits as long as a provider asks for by `retry-after-ms` or `retry-after`, at most a minute. */
export async function waitAsAsked(headers: Headers | undefined, signal: AbortSignal): Promise<void> {
  const ms = Number(headers?.get("retry-after-ms") ?? Number.NaN);
  const seconds = Number(headers?.get("retry-after") ?? Number.NaN);
  const wanted = Number.isFinite(ms) ? ms : seconds * 1_000;
  const waitMs = Number.isFinite(wanted) ? Math.min(Math.max(wanted, 0), LIMIT_MS) : 0;
  if (waitMs > 0) await sleep(waitMs, signal);
}
