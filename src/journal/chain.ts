/**
 * The hash chain of a stream. Each write carries a link: a hash of the link before it, of its position and of
 * its payload. A changed, moved, dropped or inserted record breaks every link from there on.
 *
 *     link(n) = SHA-256(link(n-1), stream, first seq, count, time, codec, nonce, SHA-256(payload))
 *
 * The id of the batch is `nonce.link`, so a link needs no column of its own, and the nonce keeps two equal
 * batches of two writers apart. The first write of a stream, also of a fork, follows the empty link.
 *
 * A person who can write the store can also make a new chain. So a chain proves something only against a head
 * that was signed or kept elsewhere: `holdfast verify`.
 */

import { hash, randomFillSync } from "node:crypto";
import type { Payload, Store, StoredWrite } from "../store.ts";

const NONCE_BYTES = 9;
const LINKED = /^[\w-]{12}\.([\w-]{43})$/;

/** The link before the first write of a stream. */
export const NO_LINK = "";

type Linked = Readonly<{ first: number; last: number; at: number; codec: string | null; payload: Payload }>;

/** The id of a batch with this one write, which follows `previous`. */
export function linkedBatchId(previous: string, stream: string, write: Linked): string {
  const nonce = newNonce();
  return `${nonce}.${linkOf(previous, stream, write, nonce)}`;
}

/** The link in the id of a batch. An id of another program stands for itself. */
export function linkIn(batch: string): string {
  return LINKED.exec(batch)?.[1] ?? batch;
}

function linkOf(previous: string, stream: string, write: Linked, nonce: string): string {
  const { first, last, at, codec, payload } = write;
  const content = hash("sha256", payload, "base64url");
  return hash(
    "sha256",
    `${previous}\n${stream}\n${first}\n${last}\n${at}\n${codec ?? ""}\n${nonce}\n${content}`,
    "base64url",
  );
}

const pool = Buffer.alloc(NONCE_BYTES * 128);
let used = pool.length;

/** From a pool: asking the system for so few bytes takes longer than both hashes. */
function newNonce(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  used += NONCE_BYTES;
  return pool.toString("base64url", used - NONCE_BYTES, used);
}

/**
 * Follows the links of one stream, write by write, from its first own write. A stream that another program
 * writes through the port has no links at all; one that has some must have them throughout.
 */
export class ChainWalk {
  readonly stream: string;
  link = NO_LINK;
  /** Why the chain is broken, at its first broken link. */
  problem: string | null = null;
  /** Whether the first write has a link; null before it. */
  isLinked: boolean | null = null;

  constructor(stream: string) {
    this.stream = stream;
  }

  add(write: StoredWrite): void {
    const { batch, first, last } = write;
    const isLinked = LINKED.test(batch);
    this.isLinked ??= isLinked;
    if (isLinked !== this.isLinked) this.problem ??= `events ${first} to ${last} break the chain of links`;
    else if (isLinked && !this.#follows(write)) {
      this.problem ??= `events ${first} to ${last} do not follow from what was recorded before them`;
    }
    this.link = linkIn(batch);
  }

  #follows(write: StoredWrite): boolean {
    const [nonce = ""] = write.batch.split(".");
    return write.batch === `${nonce}.${linkOf(this.link, this.stream, write, nonce)}`;
  }
}

const PAGE_WRITES = 500;

/** Walks a whole stream. `at` is called with the link after each write. */
export async function walkChain(
  { store, namespace }: { readonly store: Store; readonly namespace: string },
  stream: string,
  at: (seq: number, link: string) => void = () => undefined,
): Promise<ChainWalk> {
  const walk = new ChainWalk(stream);
  let after = 0;
  for (;;) {
    const page = await store.read({ namespace, stream, after, limit: PAGE_WRITES });
    for (const write of page.writes) {
      walk.add(write);
      at(write.last, walk.link);
      after = write.last;
    }
    if (!page.more) return walk;
  }
}
