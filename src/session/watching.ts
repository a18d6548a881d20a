import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { SessionCore } from "./session-core.ts";

const WATCH_MS = 100;

/** Others may cancel, answer and prompt while we work: their events are taken in soon, not only at a conflict. */
export function watchForCancel(session: SessionCore, cancelled: AbortController): () => void {
  const { own, journal } = session;
  let timer: NodeJS.Timeout | null = null;
  const look = (): void => {
    timer = null;
    own.log.refresh().then(
      (state) => {
        if (state.status === "cancelled") cancelled.abort(cancelledError(session.id));
      },
      (error: unknown) => {
        // A store that was closed under a run that was given up has nothing more to say.
        if (!isHoldfastError(error, "STORE_CLOSED")) journal.warn(error);
      },
    );
  };
  const unwatch = journal.watch(own.log.stream, () => {
    timer ??= setTimeout(look, WATCH_MS).unref();
  });
  return () => {
    unwatch();
    if (timer) clearTimeout(timer);
  };
}

function cancelledError(id: string): HoldfastError {
  return new HoldfastError("SESSION_ENDED", `session ${id} was cancelled`, { hint: "Reopen it to go on." });
}
