/**
 * What this process was told is durable, so that it notices when the server has forgotten it.
 *
 * A standby that follows asynchronously may take over without the last commits of its primary, and a backup may be put
 * in the place of a server. Either way a stream then ends before a seq that was acknowledged, or a lease has a token
 * that is older than one that was granted. Whoever wrote on from there would do again what was done already. So that
 * is refused with STORE_REPLACED, by every handle that knows better; one that never was told cannot know.
 *
 * An answer is compared with what was known before its question was sent: an older answer may arrive after a newer one.
 */

import { HoldfastError } from "../../model/errors.ts";
import type { AppendOutcome, Batch, Head, LeaseOutcome } from "../../store.ts";
import { placeName } from "./text.ts";

/** What is remembered costs about 200 bytes each; the oldest is forgotten first. */
const MOST = 20_000;
/** With fewer nobody is about to be forgotten, and their order need not be kept. */
const MANY = MOST / 2;

const isOlder = (a: Head, b: Head): boolean =>
  a.generation < b.generation || (a.generation === b.generation && a.seq < b.seq);

export class Acknowledged {
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

  /** Throws when a stream ends before what was `known` of it. */
  checkHead(stream: string, head: Head, known: Head | undefined): void {
    if (known && isOlder(head, known)) {
      throw this.#forgotten(`${stream} ends at ${head.seq} but ${known.seq} was acknowledged`);
    }
  }

  checkToken(lease: string, token: number, known: number | undefined): void {
    if (known !== undefined && token < known) {
      throw this.#forgotten(`the token of ${lease} is ${token} but ${known} was granted`);
    }
  }

  /** Takes in what an append came to; `known` are the heads of its streams, in their order, from before it was sent. */
  noteAppend(batch: Batch, outcome: AppendOutcome, known: readonly (Head | undefined)[]): void {
    if (outcome.outcome === "conflict") {
      const at = batch.writes.findIndex(({ stream }) => stream === outcome.stream);
      this.checkHead(outcome.stream, outcome.head, known[at]);
    } else if (outcome.outcome === "ok") {
      batch.writes.forEach(({ stream }, index) => {
        const head = outcome.heads[index];
        if (head) keepNewest(this.#heads, placeName(batch.namespace, stream), head, isOlder);
      });
    }
  }

  noteLease(namespace: string, outcome: LeaseOutcome, known: number | undefined): void {
    if (outcome.outcome !== "granted" && outcome.outcome !== "held") return;
    const { name, token } = outcome.lease;
    this.checkToken(name, token, known);
    keepNewest(this.#tokens, placeName(namespace, name), token, (a, b) => a < b);
  }

  #forgotten(what: string): HoldfastError {
    return new HoldfastError(
      "STORE_REPLACED",
      `${this.#address}: ${what}: the server has gone back in time`,
      {
        hint: "Stop all writers. A standby without the last commits, or a backup, took the server's place: bring back the newer one, or start the workers anew to accept the loss. A synchronous standby loses nothing.",
        data: { address: this.#address },
      },
    );
  }
}

/** A resend is told the head of the first time, which may be older than what came since. */
function keepNewest<Value>(
  map: Map<string, Value>,
  name: string,
  value: Value,
  isOlderThan: (a: Value, b: Value) => boolean,
): void {
  const before = map.get(name);
  if (before !== undefined && isOlderThan(value, before)) return;
  // Put at the end: the first of a map is the one that was not used for the longest time.
  if (map.size > MANY) map.delete(name);
  map.set(name, value);
  if (map.size <= MOST) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
