import { appendCases, conflictCases } from "./append.ts";
import { artifactCases } from "./artifacts.ts";
import { batchCases, neighbourCases, resendCases } from "./batches.ts";
import { forkCases } from "./forks.ts";
import { attempt, type Cases, type Opened, type StoreSubject } from "./harness.ts";
import { keyCases } from "./keys.ts";
import { guardCases, leaseCases } from "./leases.ts";
import { itemListCases, streamListCases } from "./lists.ts";
import { nameCases, namespaceCases } from "./names.ts";
import { readCases } from "./reads.ts";
import { removalCases } from "./removal.ts";
import { snapshotCases } from "./snapshots.ts";
import { sizeCases, unicodeCases } from "./values.ts";
import { closingCases, reopeningCases, watchCases } from "./watch-and-close.ts";

export type { Opened, StoreSubject };

const TOPICS = {
  append: appendCases,
  conflict: conflictCases,
  "guards and fencing": guardCases,
  "keys claimed and released": keyCases,
  "batches over several streams": batchCases,
  "resend of a batch": resendCases,
  "appends sent at once": neighbourCases,
  reads: readCases,
  forks: forkCases,
  "lists of streams": streamListCases,
  "lists of items": itemListCases,
  snapshots: snapshotCases,
  "artifacts and their collection": artifactCases,
  leases: leaseCases,
  "removal and tombstones": removalCases,
  watch: watchCases,
  namespaces: namespaceCases,
  "hostile names": nameCases,
  "huge values": sizeCases,
  unicode: unicodeCases,
  closing: closingCases,
  reopening: reopeningCases,
} as const satisfies Record<string, Cases>;

/** A part of the port's contract. */
export type StoreTopic = keyof typeof TOPICS;

/** A property that every store must have. */
export interface StoreCase {
  readonly topic: StoreTopic;
  /** The property: "a refused batch leaves nothing behind in either stream". */
  readonly name: string;
  /** Rejects with an `AssertionError` if the store lacks the property. */
  run(): Promise<void>;
}

/**
 * The contract of the port as cases for any test runner. Each case opens a store of its own, so cases may run
 * in any order and at once. `docs/guides/add-a-store.md` builds a small store that passes all of them.
 *
 * @example
 * for (const { topic, name, run } of storeSuite({ name: "my store", open: openForTest })) {
 *   test(`${topic}: ${name}`, run);
 * }
 */
export function storeSuite(subject: StoreSubject): StoreCase[] {
  return Object.entries(TOPICS).flatMap(([topic, cases]) =>
    Object.entries(cases).map(([name, run]) => ({
      topic: topic as StoreTopic,
      name,
      run: () => attempt(subject, run),
    })),
  );
}
