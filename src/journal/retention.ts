/**
 * Removing streams. Only a caller removes; nothing expires on its own.
 *
 * A stream stays while it has open calls (their answers would be lost), while another stream still needs it,
 * or if it was written to since it was chosen. A stream that forks share is hidden, and goes with the last of
 * them. All of that is checked again under the stream's lease, right before the removal.
 *
 * A companion is a stream of another kind that is about this one. It goes with its stream, in this order:
 *
 *     erase    companions first: after a crash the stream is still there, and the caller erases again
 *     remove   companions last: a stream is never without its companions; a crash leaves companions that no
 *              reader asks for, and a later erase of that id takes them
 */

import { randomUUID } from "node:crypto";
import { HoldfastError } from "../model/errors.ts";
import { streamId, streamKind } from "../model/names.ts";
import { checkOption } from "../model/options.ts";
import type { Guard, Head, Store, StreamRow } from "../store.ts";
import { cipherOf } from "./codec.ts";
import { Lease, type LeaseKeeper } from "./leases.ts";
import { allRows } from "./pages.ts";
import { readRow } from "./reading.ts";

/** Why a stream was left alone. */
type Spared = "open" | "held" | "needed" | "changed";

export type Removal = "removed" | "hidden" | "gone" | Spared;

/** Whether another stream still needs the one with this id. */
type IsNeeded = (id: string) => Promise<boolean>;

export interface RemoveOptions {
  /** The lease of a caller that holds the stream. */
  readonly guards?: readonly Guard[];
  /** Overwrites the bytes on the medium as far as the store can, and takes forks along. */
  readonly erase?: true;
  /** Removes the stream only if it still ends there. */
  readonly head?: Head;
  readonly isNeeded?: IsNeeded;
  readonly companions?: Companions;
}

/** The names of the companions of a stream, by its id. */
export type Companions = (id: string) => readonly string[];

const NO_COMPANIONS: Companions = () => [];

const PAGE = 200;

interface Companion {
  readonly of: string;
  readonly row: StreamRow;
}

interface RemovalContext {
  readonly store: Store;
  readonly namespace: string;
  readonly leases: LeaseKeeper;
}

/**
 * Removes one stream under its lease, so that no process can open it meanwhile: the caller's lease in
 * `guards`, or one taken here. A stream that another process holds is left alone.
 */
export async function removeStream(
  context: RemovalContext,
  stream: string,
  options: RemoveOptions = {},
): Promise<Removal> {
  if (options.guards) return removeHeld(context, stream, options.guards, options);
  const row = await readRow(context, stream);
  if (row.state === "gone") return removeGone(context, stream, options);
  if (row.facets.openCalls > 0) return "open";
  const lease = await context.leases.take(stream, randomUUID(), { label: "removal", waitMs: 0 });
  if (!(lease instanceof Lease)) return "held";
  try {
    return await removeHeld(context, stream, [lease.guard], options);
  } finally {
    await lease.release();
  }
}

/** Companions may exist without their stream, if it was never created or its removal was interrupted. */
async function removeGone(
  context: RemovalContext,
  stream: string,
  { erase, companions = NO_COMPANIONS }: RemoveOptions,
): Promise<"gone" | "removed"> {
  if (!erase) return "gone";
  const hadCompanions = await eraseCompanions(context, stream, companions);
  const hadKeys = await eraseKeys(context, stream);
  const { store, namespace } = context;
  const { head, state } = await readRow(context, stream);
  // It may have left a tombstone and a lease.
  if (state === "gone") await store.remove({ of: "stream", namespace, stream, expect: head, erase: true });
  return hadKeys || hadCompanions ? "removed" : "gone";
}

/**
 * In an encrypted store, keys outlive a stream that was only removed, so that a backup with it can still be
 * read. An erase ends that.
 */
async function eraseKeys({ store, namespace, leases }: RemovalContext, stream: string): Promise<boolean> {
  const cipher = cipherOf(store);
  if (!cipher) return false;
  // Under the lease no process creates the stream again with a key that is about to be destroyed.
  const lease = await leases.take(stream, randomUUID(), { label: "removal", waitMs: 0 });
  if (!(lease instanceof Lease)) return false;
  try {
    const { state } = await readRow({ store, namespace }, stream);
    return state === "gone" && cipher.forget({ namespace, stream });
  } finally {
    await lease.release();
  }
}

async function removeHeld(
  context: RemovalContext,
  stream: string,
  guards: readonly Guard[],
  { erase, head, isNeeded, companions = NO_COMPANIONS }: RemoveOptions,
): Promise<Removal> {
  const { store, namespace } = context;
  for (let isFirst = true; ; isFirst = false) {
    const row = await readRow(context, stream);
    // A hidden stream goes with the last of its forks, which we just erased.
    if (row.state === "gone") return isFirst ? "gone" : "removed";
    if (row.facets.openCalls > 0) return "open";
    if (head && (head.generation !== row.head.generation || head.seq !== row.head.seq)) return "changed";
    if (await isNeeded?.(streamId(stream))) return "needed";
    if (erase) {
      await eraseForks(context, stream, companions);
      await eraseCompanions(context, stream, companions);
    }
    const left = await findCompanions(context, row, companions);
    const how = erase ? { erase } : {};
    const outcome = await store.remove({ of: "stream", namespace, stream, expect: row.head, guards, ...how });
    if (outcome.outcome === "removed") {
      await removeCompanions(context, left, how);
      return "removed";
    }
    // A fork was created in between: an erase takes it too, in the next round.
    if (outcome.outcome === "hidden" && !erase) return "hidden";
    // A hidden stream goes with its last fork, and an erase takes its lease along.
    const isGone = outcome.outcome === "fenced" && (await readRow(context, stream)).state === "gone";
    if (outcome.outcome === "fenced") return isGone ? "removed" : "held";
  }
}

/** True if there was at least one. */
async function eraseCompanions(
  context: RemovalContext,
  stream: string,
  companions: Companions,
): Promise<boolean> {
  let isAny = false;
  for (const name of companions(streamId(stream))) {
    const result = await removeStream(context, name, { erase: true });
    if (result === "held" || result === "open") throw cannotErase(stream, name, result);
    isAny ||= result === "removed";
  }
  return isAny;
}

/** The companions of the stream, and of its hidden ancestors, which may go with it. */
async function findCompanions(
  context: RemovalContext,
  row: StreamRow,
  companions: Companions,
): Promise<Companion[]> {
  const found: Companion[] = [];
  let each: StreamRow | null = companions === NO_COMPANIONS ? null : row;
  while (each) {
    const { stream, parent }: StreamRow = each;
    for (const name of companions(streamId(stream))) {
      const companion = await readRow(context, name);
      if (companion.state !== "gone") found.push({ of: stream, row: companion });
    }
    const above: StreamRow | null = parent && (await readRow(context, parent.stream));
    each = above?.state === "hidden" ? above : null;
  }
  return found;
}

/** Spares a companion that was written to since: a new stream uses that name. */
async function removeCompanions(
  context: RemovalContext,
  found: readonly Companion[],
  how: Pick<RemoveOptions, "erase">,
): Promise<void> {
  for (const { of, row } of found) {
    if ((await readRow(context, of)).state === "gone") {
      await removeStream(context, row.stream, { head: row.head, ...how });
    }
  }
}

/** The result that `removeStream` would have now. */
async function previewRemoval(
  { store, namespace, leases }: RemovalContext,
  row: StreamRow,
  isNeeded?: IsNeeded,
): Promise<Removal> {
  if (row.facets.openCalls > 0) return "open";
  if (await leases.isHeld(row.stream)) return "held";
  if (await isNeeded?.(streamId(row.stream))) return "needed";
  const parent = row.stream;
  const forks = await store.list<"streams">({ of: "streams", namespace, parent, hidden: true, limit: 1 });
  return forks.rows.length > 0 ? "hidden" : "removed";
}

async function eraseForks(context: RemovalContext, parent: string, companions: Companions): Promise<void> {
  const { store, namespace } = context;
  for (;;) {
    const forks = await store.list<"streams">({
      of: "streams",
      namespace,
      parent,
      hidden: true,
      limit: PAGE,
    });
    if (forks.rows.length === 0) return;
    for (const fork of forks.rows) {
      const result = await removeStream(context, fork.stream, { erase: true, companions });
      if (result === "open" || result === "held") throw cannotErase(parent, fork.stream, result);
    }
  }
}

function cannotErase(parent: string, part: string, why: "open" | "held"): HoldfastError {
  const reason = why === "open" ? "has calls without an outcome" : "is held by a running process";
  const what = streamKind(part) === streamKind(parent) ? `its fork ${part}` : `its companion ${part}`;
  return new HoldfastError("STREAM_BUSY", `${parent} cannot be erased: ${what} ${reason}`, {
    hint: "Settle those calls or stop that process, then erase again.",
    data: { parent, fork: part, why },
  });
}

export interface PruneOptions {
  readonly kind: string;
  /** Only streams whose last change was before this wall clock. */
  readonly updatedBefore?: number;
  /** Only streams with this status. */
  readonly status?: string;
  /** Keeps this many of the latest that match. */
  readonly keep?: number;
  readonly dryRun?: boolean;
  readonly isNeeded?: IsNeeded;
  readonly companions?: Companions;
}

/**
 * The streams that matched a `prune`, by id and by what happened to them; with `dryRun`, by what would
 * happen.
 *
 * @example
 * { removed: ["old-1"], hidden: ["old-2"], spared: [{ id: "old-3", why: "open" }] }
 */
export interface PruneReport {
  readonly removed: readonly string[];
  /** Streams whose history forks share: lists no longer show them, and they go with the last fork. */
  readonly hidden: readonly string[];
  /**
   * Streams that were left alone: calls are `open`, a process `held` it, another stream `needed` it, it
   * `changed`.
   */
  readonly spared: readonly { readonly id: string; readonly why: Spared }[];
}

/** Removes streams by age, count or status. At least one must be given: "everything" is not a default. */
export async function prune(context: RemovalContext, options: PruneOptions): Promise<PruneReport> {
  if (options.updatedBefore === undefined && options.status === undefined && options.keep === undefined) {
    throw new HoldfastError("INPUT_INVALID", "prune: no condition was given", {
      hint: "Pass an age, a status, or how many to keep.",
    });
  }
  // A comparison with NaN would match everything or cut the list nowhere.
  if (options.keep !== undefined) checkOption("prune: keep", options.keep, "count");
  if (options.updatedBefore !== undefined) checkOption("prune: updatedBefore", options.updatedBefore, "time");
  const report = {
    removed: [] as string[],
    hidden: [] as string[],
    spared: [] as PruneReport["spared"][number][],
  };
  for (const row of await matching(context, options)) {
    const id = streamId(row.stream);
    const { isNeeded, companions = NO_COMPANIONS } = options;
    const result = options.dryRun
      ? await previewRemoval(context, row, isNeeded)
      : await removeStream(context, row.stream, {
          head: row.head,
          companions,
          ...(isNeeded && { isNeeded }),
        });
    if (result === "removed" || result === "hidden") report[result].push(id);
    else if (result !== "gone") report.spared.push({ id, why: result });
  }
  return report;
}

async function matching({ store, namespace }: RemovalContext, options: PruneOptions): Promise<StreamRow[]> {
  const { kind, updatedBefore, status } = options;
  const only = {
    ...(status !== undefined && { status }),
    ...(updatedBefore !== undefined && { updatedBefore }),
  };
  const request = { of: "streams", namespace, kind, limit: PAGE, ...only } as const;
  const rows = await allRows((from) => store.list<"streams">({ ...request, ...from }));
  return rows.filter((row) => streamKind(row.stream) === kind).slice(options.keep ?? 0);
}
