/**
 * Since when a call of unknown outcome cannot have been started any more: the time from which its effects
 * must settle.
 *
 * That is when somebody took the session over from the process that ran it, and it is counted on the steady
 * clock of this process: a wall clock that is set forward settles nothing. A process that lets go of a
 * session and takes it again, with nobody in between, goes on counting; else a tool that wants to be asked
 * again later than a look takes would never settle.
 */

import type { Journal } from "../journal/index.ts";
import type { Call } from "../model/session/index.ts";

interface Left {
  readonly token: number;
  readonly since: ReadonlyMap<string, number>;
}

const leftBy = new WeakMap<Journal, Map<string, Left>>();

/** The attempt, too: another one may have been under way until it was lost. */
const nameOf = ({ id, attempt }: Call): string => `${attempt} ${id}`;

export class LostCalls {
  private readonly journal: Journal;
  private readonly life: string;
  private readonly token: number;
  private readonly known = new Map<string, { lostAt: number | null; since: number }>();

  /** `calls` are those that are open as the session is taken under the lease of this token. */
  constructor(journal: Journal, life: string, token: number, calls: readonly Call[]) {
    this.journal = journal;
    this.life = life;
    this.token = token;
    const left = leftBy.get(journal)?.get(life);
    leftBy.get(journal)?.delete(life);
    for (const call of calls) {
      const since = left?.token === token - 1 ? left.since.get(nameOf(call)) : undefined;
      this.known.set(nameOf(call), { lostAt: call.lostAt, since: since ?? journal.steady() });
    }
  }

  /** What is lost again, because a person or a late answer had it started once more, counts from then. */
  since(call: Call): number {
    const known = this.known.get(nameOf(call));
    if (known?.lostAt === call.lostAt) return known.since;
    const since = this.journal.steady();
    this.known.set(nameOf(call), { lostAt: call.lostAt, since });
    return since;
  }

  /** The session is let go with these calls open. */
  leave(calls: readonly Call[]): void {
    const lost = calls.filter(({ status, doubt }) => status === "unknown" && doubt !== null);
    if (lost.length === 0) return;
    const since = new Map(lost.map((call) => [nameOf(call), this.since(call)]));
    const left = leftBy.get(this.journal) ?? new Map<string, Left>();
    leftBy.set(this.journal, left.set(this.life, { token: this.token, since }));
  }
}
