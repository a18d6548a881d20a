/**
 * Notices a server that went back in time: an asynchronous standby took over without the last commits, or a
 * backup was restored. Then a stream ends before an acknowledged seq, or a lease has an older token than one
 * that was granted. A writer that continued would repeat effects, so the handle throws STORE_REPLACED.
 *
 * An answer is compared with what was known before its request was sent: answers may overtake each other.
 */

import { HoldfastError } from "../../model/errors.ts";
import type { AppendOutcome, Batch, Head, LeaseOutcome } from "../../store.ts";
import { placeName } from "./rows.ts";

/** Each entry takes about 200 bytes. The least recently used is dropped first. */
const MAX_ENTRIES = 20_000;
/** Below this size no entry is about to be dropped, so their order does not matter. */
const ORDERED_FROM = MAX_ENTRIES / 2;

const isOlder = (a: Head, b: Head): boolean =>
  a.generation < b.generation || (a.generation === b.generation && a.seq < b.seq);

export class RewindGuard {
  readonly #address: string;
  readonly #heads = new Map<string, Head>();
  readonly #tokens = new Map<string, number>();

  constructor(address: string) {
    this.#address = address;
  }

  headOf(namespace: string, stream: string): Head | undefined {
    return this.#heads.get(placeName(namespace, stream));
  }

  tokenOf(namespace: string, lease: string): number | undefined {
    return this.#tokens.get(placeName(namespace, lease));
  }

  /** Throws if the stream ends before the head that was `known`. */
  checkHead(stream: string, head: Head, known: Head | undefined): void {
    if (known && isOlder(head, known)) {
      throw this.#rewound(`${stream} ends at ${head.seq} but ${known.seq} was acknowledged`);
    }
  }

  /** `known`: the heads of the batch's streams, in their order, from before it was sent. */
  noteAppend(batch: Batch, outcome: AppendOutcome, known: readonly (Head | undefined)[]): void {
    if (outcome.outcome === "conflict") {
      const index = batch.writes.findIndex(({ stream }) => stream === outcome.stream);
      this.checkHead(outcome.stream, outcome.head, known[index]);
    } else if (outcome.outcome === "ok") {
      batch.writes.forEach(({ stream }, index) => {
        const head = outcome.heads[index];
        if (head) keepNewest(this.#heads, placeName(batch.namespace, stream), head, isOlder);
      });
    }
  }

  /** `known`: the token of the lease from before the request was sent. */
  noteLease(namespace: string, outcome: LeaseOutcome, known: number | undefined): void {
    if (outcome.outcome !== "granted" && outcome.outcome !== "held") return;
    const { name, token } = outcome.lease;
    if (known !== undefined && token < known) {
      throw this.#rewound(`the token of ${name} is ${token} but ${known} was granted`);
    }
    keepNewest(this.#tokens, placeName(namespace, name), token, (a, b) => a < b);
  }

  #rewound(what: string): HoldfastError {
    const message = `${this.#address}: ${what}: the server has gone back in time`;
    return new HoldfastError("STORE_REPLACED", message, {
      hint:
        "Stop all writers. A standby without the last commits, or a backup, took the server's place: " +
        "bring back the newer one, or restart the workers to accept the loss. " +
        "A synchronous standby loses nothing.",
      data: { address: this.#address },
    });
  }
}

/** Keeps the newer value: a resend answers with the heads of the first time. */
function keepNewest<Value>(
  map: Map<string, Value>,
  name: string,
  value: Value,
  isOlderThan: (a: Value, b: Value) => boolean,
): void {
  const before = map.get(name);
  if (before !== undefined && isOlderThan(value, before)) return;
  // Moves the entry to the end: the first entry of a map is the least recently used.
  if (map.size > ORDERED_FROM) map.delete(name);
  map.set(name, value);
  if (map.size <= MAX_ENTRIES) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
