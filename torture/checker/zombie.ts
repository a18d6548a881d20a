/**
 * The rules for a process after another has taken over: it may finish the effect that it had begun and
 * record its late answer. It must not start or write anything else. It may read.
 */

import { type Evidence, field, type Violation } from "./evidence.ts";

export interface Awakening {
  readonly pid: number;
  /** The number of acknowledgements when it was stopped. */
  readonly acksBefore: number;
  /** Batches that were stored by then: the zombie may learn late of its own earlier writes. */
  readonly storedBefore: ReadonlySet<string>;
  /** Effects that it was about to send at that moment. */
  readonly underWay: number;
}

export function zombieIsHarmless(
  evidence: Evidence,
  { pid, acksBefore, storedBefore, underWay }: Awakening,
): Violation[] {
  const found: Violation[] = [];
  const later = evidence.acks.slice(acksBefore).filter((ack) => ack.pid === pid);
  const reads = new Set(evidence.world.filter(({ kind }) => kind === "read").map(({ callId }) => callId));
  const started = later.filter((ack) => ack.t === "start" && !reads.has(ack.callId)).length;
  if (started > underWay) {
    found.push({ invariant: "I7", what: `a zombie started ${started} effects, ${underWay} were under way` });
  }
  const batches = new Set(later.flatMap((ack) => (ack.t === "append" ? [ack.batch] : [])));
  for (const { events } of evidence.sessions) {
    for (const event of events) {
      if (!batches.has(event.batch) || storedBefore.has(event.batch)) continue;
      const isLate = /^call\.(completed|failed)$/.test(event.type) && field(event, "by") === "late";
      if (!isLate) found.push({ invariant: "I7", what: `a zombie wrote ${event.type} at ${event.seq}` });
    }
  }
  return found;
}
