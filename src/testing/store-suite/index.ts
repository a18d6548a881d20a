import { appendCases } from "./append.ts";
import { artifactCases } from "./artifacts.ts";
import { batchCases } from "./batches.ts";
import { closingCases, reopeningCases } from "./closing.ts";
import { conflictCases } from "./conflicts.ts";
import { forkCases } from "./forks.ts";
import { guardCases } from "./guards.ts";
import { itemListCases } from "./item-lists.ts";
import { keyCases } from "./keys.ts";
import { leaseCases } from "./leases.ts";
import { nameCases } from "./names.ts";
import { namespaceCases } from "./namespaces.ts";
import { neighbourCases } from "./neighbours.ts";
import { readCases } from "./reads.ts";
import { removalCases } from "./removal.ts";
import { resendCases } from "./resends.ts";
import { sizeCases } from "./sizes.ts";
import { snapshotCases } from "./snapshots.ts";
import { streamListCases } from "./stream-lists.ts";
import { attempt, type Cases, type Opened, type StoreSubject } from "./trial.ts";
import { unicodeCases } from "./unicode.ts";
import { watchCases } from "./watching.ts";

export type { Opened, StoreSubject };

const TOPICS = {
  append: appendCases,
  conflict: conflictCases,
  "guards and fencing": guardCases,
  "keys claimed and released": keyCases,
  "batches over several streams": batchCases,
  "resend of a batch": resendCases,
  "coalescing with a refused neighbour": neighbourCases,
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

/** One property that every store has. */
export interface StoreCase {
  readonly topic: StoreTopic;
  /** The property: "a refused batch leaves nothing behind in either stream". */
  readonly name: string;
  /** Rejects with an `AssertionError` when the store does not have the property. */
  run(): Promise<void>;
}

/**
 * The contract of the port as cases for any test runner. Each opens a store of its own, so they may run in any
 * order and at once. With vitest or `node:test`:
 *
 * ```ts
 * import { describe, test } from "vitest"; // or "node:test"
 * import { storeSuite } from "holdfast/testing";
 *
 * describe("my store", () => {
 *   for (const { topic, name, run } of storeSuite({ name: "my store", open: openForTest })) {
 *     test(`${topic}: ${name}`, run);
 *   }
 * });
 *
 * async function openForTest() {
 *   const folder = await mkdtemp(join(tmpdir(), "my-store-"));
 *   const handles = [];
 *   const another = async () => {
 *     const store = await openMyStore(folder);
 *     handles.push(store);
 *     return store;
 *   };
 *   const store = await another();
 *   return {
 *     store,
 *     another,
 *     reopen: async () => {
 *       await store.close();
 *       return another();
 *     },
 *     dispose: async () => {
 *       await Promise.all(handles.map((handle) => handle.close()));
 *       await rm(folder, { recursive: true });
 *     },
 *   };
 * }
 * ```
 *
 * Without a runner: `for (const { run } of storeSuite(subject)) await run();`
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
