/**
 * Every write as an act inside a flush: first every check, then the line, then memory.
 *
 * Leases are split: the journal has the holder, the live file the time of expiry. A grant or a release is
 * therefore a durable line, a renewal one small write without a sync.
 *
 *     none ──take──▶ held ──renew, guarded append──▶ held
 *                     │──release──▶ free (token kept) ──take──▶ held, token + 1
 *                     └──expired, other boot, evicted──take by another──▶ held, token + 1
 *
 * The clock matters only to `take`. The current token of a held lease may write, however late.
 */

import type * as port from "../../store.ts";
import { guardsOf, timelineOf } from "../kit/index.ts";
import type { Lease } from "../memory/index.ts";
import {
  changedLease,
  checkAppend,
  lease,
  list,
  ownArtifacts,
  unreferencedArtifacts,
  withAncestors,
} from "../memory/index.ts";
import type { Flush } from "./append.ts";
import { deleteSnapshots, dropArtifact, hasArtifactFile, writeArtifact } from "./blobs.ts";
import { toSegment } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";
import type { LoggedLease, LoggedWrite } from "./state.ts";

export function append(flush: Flush, batch: port.Batch): port.AppendOutcome {
  const { state, journal, options } = flush.folder;
  const { namespace } = batch;
  const answer = checkAppend(state.space(namespace), batch, options.clock.nowMs());
  if (answer?.outcome === "fenced")
    return { ...answer, now: leaseNow(flush.folder, namespace, answer.lease) };
  if (answer) return answer;
  const encoded = batch.writes.map(toLogged);
  const logged = encoded.map(({ write }) => write);
  const segments = encoded.map(({ segment }) => segment);
  const lease = batch.lease && leaseLog(flush.folder, namespace, batch.lease);
  const record = { do: "append", id: batch.id, namespace, writes: logged, ...(lease && { lease }) } as const;
  const line = flush.addLine(record, segments);
  const outcome = state.applyBatch(batch, logged, line, journal);
  renewGuards(flush, namespace, guardsOf(batch));
  if (lease) {
    state.setLease({ do: "lease", namespace, ...lease }, 0);
    writeExpiries(flush, namespace, [lease.name]);
  }
  if (outcome.outcome === "ok") flush.appended.push({ batch, heads: outcome.heads });
  return outcome;
}

function toLogged({ payload, codec, ...write }: port.Write): { write: LoggedWrite; segment: Buffer } {
  const { form, segment } = toSegment(payload);
  const optional = { ...(codec !== null && { codec }), ...(form !== "json" && { form }) };
  return { write: { ...write, ...optional, bytes: segment.length }, segment };
}

export function remove(flush: Flush, request: port.RemoveRequest): port.RemoveOutcome {
  switch (request.of) {
    case "stream":
      return removeStream(flush, request);
    case "artifacts":
      return collectArtifacts(flush, request.namespace, request.putBefore);
    case "snapshots":
      return { outcome: "removed", count: deleteSnapshots(flush.folder, request.namespace, request.stream) };
  }
}

function removeStream(
  flush: Flush,
  request: Extract<port.RemoveRequest, { of: "stream" }>,
): port.RemoveOutcome {
  const { folder } = flush;
  const { namespace, stream, expect, erase = false } = request;
  const space = folder.state.space(namespace);
  const before = erase ? withAncestors(space, stream) : [];
  const { forgot = false, ...outcome } = folder.state.removeStream(request);
  if (outcome.outcome === "fenced") {
    return { ...outcome, now: leaseNow(folder, namespace, outcome.lease) };
  }
  const changesNothing = outcome.outcome === "removed" && outcome.count === 0 && !forgot;
  if (outcome.outcome === "conflict" || changesNothing) return outcome;
  flush.addLine({ do: "remove", namespace, stream, expect, ...(erase && { erase }) });
  flush.afterSync.push(() => deleteSnapshots(folder, namespace, stream, erase));
  if (erase) flush.mustErase = true;
  dropArtifacts(flush, namespace, ownArtifacts(space, before), erase);
  return outcome;
}

function collectArtifacts(flush: Flush, namespace: string, putBefore: number): port.RemoveOutcome {
  const hashes = unreferencedArtifacts(flush.folder.state.space(namespace), putBefore);
  dropArtifacts(flush, namespace, hashes, false);
  return { outcome: "removed", count: hashes.length };
}

function dropArtifacts(flush: Flush, namespace: string, hashes: readonly string[], erase: boolean): void {
  const { folder } = flush;
  const { state } = folder;
  if (hashes.length === 0) return;
  const { length } = flush.addLine({ do: "collect", namespace, hashes });
  state.collect(namespace, hashes, length);
  flush.afterSync.push(() => {
    // The same flush may have put one of them again.
    const gone = hashes.filter((hash) => !state.space(namespace).artifacts.has(hash));
    for (const hash of gone) dropArtifact(folder, namespace, hash, erase);
  });
}

/** The bytes are on the disk under their name before the line that names them is written. */
export function putArtifact(flush: Flush, request: Extract<port.PutRequest, { of: "artifact" }>): void {
  const { namespace, hash, at } = request;
  const { folder } = flush;
  const { state } = folder;
  const known = state.space(namespace).artifacts.get(hash);
  const isStored = known !== undefined && hasArtifactFile(folder, request);
  if (isStored && known.putAt >= at) return;
  if (!isStored) for (const each of writeArtifact(folder, request)) flush.foldersToSync.add(each);
  const { length } = flush.addLine({ do: "artifact", namespace, hash, at });
  state.putArtifact(namespace, hash, at, length);
}

export function leaseAct(flush: Flush, request: port.LeaseRequest): port.LeaseOutcome {
  const { folder } = flush;
  const { state, options } = folder;
  const { namespace } = request;
  // Throws for a request that cannot be written, before anything changes.
  JSON.stringify(request);
  if (request.act === "take") refreshExpiries(folder, namespace, [request.name]);
  const outcome = lease(state.space(namespace), request, options.clock.nowMs());
  if (outcome.outcome === "granted") {
    logLease(flush, namespace, outcome.lease.name);
  } else if (outcome.outcome === "released" && request.act === "release") {
    if (outcome.wasOurs) logLease(flush, namespace, request.lease.lease);
  } else if (outcome.outcome === "renewed" && request.act === "renew") {
    writeExpiries(flush, namespace, stillHeld(request.leases, outcome.lost));
  }
  return outcome;
}

/** The part of a batch's line that takes or releases a lease. */
function leaseLog(folder: OpenFolder, namespace: string, change: port.BatchLease): LoggedLease {
  const { state, options } = folder;
  const { name } = change;
  const changed = changedLease(state.space(namespace), change, options.clock.nowMs());
  return { name, ...changed, boot: timelineOf(options.clock), slot: state.slot(namespace, name) };
}

function stillHeld(asked: readonly port.Guard[], lost: readonly port.Guard[]): string[] {
  const isLost = ({ lease: name, token }: port.Guard) =>
    lost.some((each) => each.lease === name && each.token === token);
  return asked.filter((guard) => !isLost(guard)).map((guard) => guard.lease);
}

function logLease(flush: Flush, namespace: string, name: string): void {
  const { folder } = flush;
  const { state } = folder;
  const { token, holder, ttlMs, deadline } = leaseOf(folder, namespace, name);
  const slot = state.slot(namespace, name);
  const boot = timelineOf(folder.options.clock);
  const record = { do: "lease", namespace, name, token, holder, ttlMs, deadline, boot, slot } as const;
  const { length } = flush.addLine(record);
  state.setLease(record, length);
  writeExpiries(flush, namespace, [name]);
}

function leaseOf(folder: OpenFolder, namespace: string, name: string): Lease {
  return folder.state.space(namespace).leases.get(name) as Lease;
}

/** A guarded write renews its leases, but not those with most of their time left. */
function renewGuards(flush: Flush, namespace: string, guards: readonly port.Guard[]): void {
  const { folder } = flush;
  const { clock } = folder.options;
  const now = clock.nowMs();
  const isDue = ({ deadline, ttlMs }: Lease) => deadline - now <= (ttlMs * 3) / 4;
  const names = guards.map(({ lease }) => lease).filter((name) => isDue(leaseOf(folder, namespace, name)));
  for (const name of names) {
    refreshExpiries(folder, namespace, [name]);
    const held = leaseOf(folder, namespace, name);
    const { ttlMs } = held;
    const expiry = { ttlMs, deadline: now + ttlMs, boot: timelineOf(clock) };
    folder.state.renewLease(namespace, name, held, expiry);
  }
  writeExpiries(flush, namespace, names);
}

function writeExpiries(flush: Flush, namespace: string, names: readonly string[]): void {
  if (names.length === 0) return;
  const { folder } = flush;
  flush.afterSync.push(() => {
    for (const name of names) {
      const row = folder.state.space(namespace).leases.get(name);
      // Erased in the same flush.
      if (!row) continue;
      const { token, deadline, ttlMs } = row;
      const boot = timelineOf(folder.options.clock);
      folder.live?.setExpiry(folder.state.slot(namespace, name), { token, deadline, ttlMs, boot });
    }
  });
}

/** Reads the live file: another process may hold these leases, and renews them without a line. */
export function refreshExpiries(folder: OpenFolder, namespace: string, names: Iterable<string>): void {
  const { state, live } = folder;
  const { leases } = state.space(namespace);
  for (const name of names) {
    const row = leases.get(name);
    if (!row?.holder) continue;
    const expiry = live?.expiry(state.slot(namespace, name));
    if (expiry?.token === row.token) state.renewLease(namespace, name, row, expiry);
  }
}

/** A lease as it is now, for a caller that was refused because of it. */
function leaseNow(folder: OpenFolder, namespace: string, name: string): port.LeaseRow | null {
  refreshExpiries(folder, namespace, [name]);
  const request = { of: "leases", namespace, names: [name], limit: 1 } as const;
  const { rows } = list(folder.state.space(namespace), request, folder.options.clock.nowMs());
  return (rows as port.LeaseRow[])[0] ?? null;
}
