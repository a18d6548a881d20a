/**
 * The time since which a call of unknown outcome cannot be started any more. `settleMs` counts from it.
 *
 * Counting starts when this process takes the session over from the one that ran the call. It is measured on
 * the steady clock, since a wall clock that is set forward settles nothing. A process that releases a session
 * and takes it again, without another owner in between, keeps counting. Otherwise a supervisor that looks in
 * for a moment would never see `settleMs` pass.
 */

import type { Journal } from "../journal/index.ts";
import type { Call } from "../model/session/index.ts";

interface ReleasedCalls {
  readonly token: number;
  readonly since: ReadonlyMap<string, number>;
}

const releasedBy = new WeakMap<Journal, Map<string, ReleasedCalls>>();

/** Includes the attempt: a later one was in flight until it was lost itself. */
const keyOf = ({ id, attempt }: Call): string => `${attempt} ${id}`;

export class LostCalls {
  private readonly journal: Journal;
  private readonly incarnation: string;
  private readonly token: number;
  private readonly known = new Map<string, { lostAt: number | null; since: number }>();

  /** `calls` are open when the session is taken under the lease with this token. */
  constructor(journal: Journal, incarnation: string, token: number, calls: readonly Call[]) {
    this.journal = journal;
    this.incarnation = incarnation;
    this.token = token;
    const released = releasedBy.get(journal)?.get(incarnation);
    releasedBy.get(journal)?.delete(incarnation);
    for (const call of calls) {
      const since = released?.token === token - 1 ? released.since.get(keyOf(call)) : undefined;
      this.known.set(keyOf(call), { lostAt: call.lostAt, since: since ?? journal.steady() });
    }
  }

  /** Counts anew if the call was started and lost again since. */
  since(call: Call): number {
    const known = this.known.get(keyOf(call));
    if (known?.lostAt === call.lostAt) return known.since;
    const since = this.journal.steady();
    this.known.set(keyOf(call), { lostAt: call.lostAt, since });
    return since;
  }

  /** Keeps the times while the session is released with these calls open. */
  release(calls: readonly Call[]): void {
    const lost = calls.filter(({ status, doubt }) => status === "unknown" && doubt !== null);
    if (lost.length === 0) return;
    const since = new Map(lost.map((call) => [keyOf(call), this.since(call)]));
    const released = releasedBy.get(this.journal) ?? new Map<string, ReleasedCalls>();
    releasedBy.set(this.journal, released.set(this.incarnation, { token: this.token, since }));
  }
}
