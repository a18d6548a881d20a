/**
 * One batch inside an open write transaction: first every question, then every change. A refusal therefore has
 * nothing to undo. The order of the questions decides which refusal a caller sees; a resend comes first, because
 * its own first arrival would look like a conflict.
 *
 * A batch that is here already is answered `ok`, but it may have been left by a process that died before its fsync
 * and be in the page cache only. So that answer, too, waits for a commit that has something to write.
 */

import type { AppendOutcome, Batch, Write } from "../../store.ts";
import { type Clock, guardsOf, headOf, headsAfter } from "../kit/index.ts";
import type { Connection } from "./driver.ts";
import { checkGuards, renewGuards } from "./leases.ts";
import { proof } from "./opening.ts";
import type { StreamKey } from "./rows.ts";
import { findKnownStream } from "./streams.ts";
import { fromText, type StoredText, toText } from "./text.ts";
import type { Done, Transaction } from "./transaction.ts";
import { storeWrite } from "./write.ts";

export function append(transaction: Transaction, clock: Clock, batch: Batch): Done<AppendOutcome> {
  return appendNext(transaction, clock, batch) ?? appendAny(transaction, clock, batch);
}

/**
 * The usual batch: the next events of one live stream, under a lease or none. It can only be accepted or fenced, and the same
 * questions cost a third. Null for every other one, with nothing changed.
 */
function appendNext(transaction: Transaction, clock: Clock, batch: Batch): Done<AppendOutcome> | null {
  const { namespace, writes } = batch;
  const write = writes[0] as Write;
  const { stream, expect, count, guards = NONE, fork, claims, releases, artifacts } = write;
  if (writes.length > 1 || fork || claims?.length || releases?.length || artifacts?.length) return null;
  const key = findKnownStream(transaction, namespace, stream);
  const { generation, seq } = expect;
  if (key?.state !== "live" || key.generation !== generation || key.seq !== seq) return null;
  const held = checkGuards(transaction, clock, namespace, guards);
  if (!Array.isArray(held)) return refused(held);
  renewGuards(transaction, clock, namespace, held);
  storeWrite(transaction, batch, { write, key, parent: null, artifacts: NONE });
  return { result: { outcome: "ok", heads: [{ generation, seq: seq + count }], resent: false }, wrote: true };
}

function appendAny(transaction: Transaction, clock: Clock, batch: Batch): Done<AppendOutcome> {
  const { connection } = transaction;
  const { namespace } = batch;
  const keys = batch.writes.map(({ stream }) => findKnownStream(transaction, namespace, stream));
  if (isResent(connection, batch, keys)) {
    proof(connection);
    return { result: { outcome: "ok", heads: headsAfter(batch), resent: true }, wrote: true };
  }
  const held = checkGuards(transaction, clock, namespace, guardsOf(batch));
  if (!Array.isArray(held)) return refused(held);
  const parents = checkPlaces(transaction, batch, keys);
  if (!Array.isArray(parents)) return refused(parents);
  const taken = checkClaims(connection, batch);
  if (taken) return refused(taken);
  const artifacts = checkArtifacts(connection, batch);
  if (!Array.isArray(artifacts)) return refused(artifacts);

  renewGuards(transaction, clock, namespace, held);
  for (const [index, write] of batch.writes.entries()) {
    const checked = {
      write,
      key: keys[index],
      parent: parents[index] ?? null,
      artifacts: artifacts[index] ?? NONE,
    };
    storeWrite(transaction, batch, checked);
  }
  return { result: { outcome: "ok", heads: headsAfter(batch), resent: false }, wrote: true };
}

const NONE: readonly never[] = [];

function refused(result: AppendOutcome): Done<AppendOutcome> {
  return { result, wrote: false };
}

const WRITE_AFTER = `SELECT first, batch FROM writes
  WHERE id > (? << 28 | ?) AND id <= (? << 28 | 268435455) ORDER BY id LIMIT 1`;

function isResent(connection: Connection, batch: Batch, keys: readonly (StreamKey | undefined)[]): boolean {
  return batch.writes.every(({ expect }, index) => {
    const key = keys[index];
    const { generation, seq } = headOf(key);
    if (!key || generation !== expect.generation || seq <= expect.seq) return false;
    const next = connection.get<{ first: number; batch: StoredText }>(
      WRITE_AFTER,
      key.id,
      expect.seq,
      key.id,
    );
    return next?.first === expect.seq + 1 && fromText(next.batch) === batch.id;
  });
}

type Refusal<Outcome extends AppendOutcome["outcome"]> = Extract<AppendOutcome, { outcome: Outcome }>;

/** Each write must continue its stream where that ends now; a fork must leave a past that is there. */
function checkPlaces(
  transaction: Transaction,
  batch: Batch,
  keys: readonly (StreamKey | undefined)[],
): Refusal<"conflict"> | (StreamKey | null)[] {
  const parents: (StreamKey | null)[] = [];
  for (const [index, { stream, expect, fork }] of batch.writes.entries()) {
    const key = keys[index];
    const head = headOf(key);
    const isFree = fork ? !key || key.state === "gone" : key?.state !== "hidden" && head.seq === expect.seq;
    if (!isFree || head.generation !== expect.generation) return { outcome: "conflict", stream, head };
    const parent = fork && findKnownStream(transaction, batch.namespace, fork.stream);
    const past = headOf(parent);
    const isThere =
      parent && parent.state !== "gone" && past.generation === fork.generation && past.seq >= fork.seq;
    if (fork && !isThere) return { outcome: "conflict", stream: fork.stream, head: past };
    parents.push(parent ?? null);
  }
  return parents;
}

const KEY_HOLDER = `SELECT s.stream, k.seq FROM keys AS k JOIN streams AS s ON s.id = k.stream
  WHERE k.namespace = ? AND k.key = ?`;

export interface KeyHolder {
  readonly stream: string;
  readonly seq: number;
}

export function keyHolder(connection: Connection, namespace: string, key: string): KeyHolder | null {
  const found = connection.get<{ stream: StoredText; seq: number }>(
    KEY_HOLDER,
    toText(namespace),
    toText(key),
  );
  return found ? { stream: fromText(found.stream), seq: found.seq } : null;
}

/** Within a write releases come first, so that a key can change hands; what earlier writes do to keys counts. */
function checkClaims(connection: Connection, batch: Batch): Refusal<"taken"> | null {
  if (!batch.writes.some(({ claims }) => claims && claims.length > 0)) return null;
  const changed = new Map<string, KeyHolder | null>();
  const holderOf = (key: string): KeyHolder | null => {
    const known = changed.get(key);
    return known === undefined ? keyHolder(connection, batch.namespace, key) : known;
  };
  for (const { stream, expect, releases, claims } of batch.writes) {
    for (const key of releases ?? []) if (holderOf(key)?.stream === stream) changed.set(key, null);
    for (const { key, event } of claims ?? []) {
      const by = holderOf(key);
      if (by) return { outcome: "taken", key, by };
      changed.set(key, { stream, seq: expect.seq + 1 + event });
    }
  }
  return null;
}

const ARTIFACT = "SELECT id FROM artifacts WHERE namespace = ? AND hash = ?";

function checkArtifacts(connection: Connection, batch: Batch): Refusal<"missing"> | (readonly number[])[] {
  const found: (readonly number[])[] = [];
  for (const { artifacts } of batch.writes) {
    if (!artifacts || artifacts.length === 0) {
      found.push(NONE);
      continue;
    }
    const ids: number[] = [];
    for (const hash of artifacts) {
      const row = connection.get<{ id: number }>(ARTIFACT, toText(batch.namespace), toText(hash));
      if (!row) return { outcome: "missing", artifact: hash };
      ids.push(row.id);
    }
    found.push(ids);
  }
  return found;
}
