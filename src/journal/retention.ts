/**
 * Removing is always an act that somebody asked for; nothing expires by itself. A stream with open calls is not
 * removed: the answer to them would be lost. Nor is one that another stream will look into again, or that was written to
 * since it was chosen. A stream that forks share is hidden and goes with the last of them.
 *
 * All of that is asked again under the stream's lease, right before it goes.
 *
 * What belongs to a stream, under its id and of another kind, goes with it: when it is erased before it, so that whoever
 * was interrupted finds it still there and erases again; else after it, so that it is never without what belongs to it. A
 * crash in between then leaves what nobody reads any more, and what erasing that id takes, too.
 */

import { v7 as uuid } from "uuid";
import { HoldfastError } from "../model/errors.ts";
import { streamId, streamKind, streamName } from "../model/names.ts";
import { checkOption } from "../model/options.ts";
import type { Guard, Head, Store, StreamRow } from "../store.ts";
import { Lease, type LeaseKeeper } from "./leases.ts";
import { allRows } from "./pages.ts";

/** Why a stream was left alone. */
type Spared = "open" | "held" | "needed" | "changed";

export type Removal = "removed" | "hidden" | "gone" | Spared;

/** Whether something else rests on what the stream holds. */
type IsNeeded = (id: string) => Promise<boolean>;

export interface RemoveOptions {
  /** Of a caller that holds the stream. */
  readonly guards?: readonly Guard[];
  readonly erase?: true;
  /** Only if it is still there. */
  readonly head?: Head;
  readonly isNeeded?: IsNeeded;
  /** Kinds of streams that belong to it: they have its id. */
  readonly companions?: readonly string[];
}

const PAGE = 200;

interface Belonging {
  readonly of: string;
  readonly companion: StreamRow;
}

/** Where to remove, and whose leases to do it under. */
export interface Ground {
  readonly store: Store;
  readonly namespace: string;
  readonly leases: LeaseKeeper;
}

/**
 * Removes one stream. It is done under the stream's lease, so that nobody can take it in the middle: `guards` of a
 * caller that holds it, or a lease of our own; what somebody else holds is left alone.
 */
export async function removeStream(
  ground: Ground,
  stream: string,
  options: RemoveOptions = {},
): Promise<Removal> {
  if (options.guards) return removeHeld(ground, stream, options.guards, options);
  const row = await rowOf(ground, stream);
  if (row.state === "gone") return removeGone(ground, stream, options);
  if (row.facets.openCalls > 0) return "open";
  const lease = await ground.leases.take(stream, uuid(), { label: "removal", waitMs: 0 });
  if (!(lease instanceof Lease)) return "held";
  try {
    return await removeHeld(ground, stream, [lease.guard], options);
  } finally {
    await lease.release();
  }
}

/** What belongs to a stream may be there without it: it never was, or a removal was cut off. Erasing takes that, too. */
async function removeGone(
  ground: Ground,
  stream: string,
  { erase, companions = [] }: RemoveOptions,
): Promise<"gone" | "removed"> {
  return erase && (await eraseCompanions(ground, stream, companions)) ? "removed" : "gone";
}

async function removeHeld(
  ground: Ground,
  stream: string,
  guards: readonly Guard[],
  { erase, head, isNeeded, companions = [] }: RemoveOptions,
): Promise<Removal> {
  const { store, namespace } = ground;
  for (let isFirst = true; ; isFirst = false) {
    const row = await rowOf(ground, stream);
    // One that was hidden already goes with the last of its forks.
    if (row.state === "gone") return isFirst ? "gone" : "removed";
    if (row.facets.openCalls > 0) return "open";
    if (head && (head.generation !== row.head.generation || head.seq !== row.head.seq)) return "changed";
    if (await isNeeded?.(streamId(stream))) return "needed";
    if (erase) {
      await eraseForks(ground, stream, companions);
      await eraseCompanions(ground, stream, companions);
    }
    const left = await belongings(ground, row, companions);
    const how = erase ? { erase } : {};
    const outcome = await store.remove({ of: "stream", namespace, stream, expect: row.head, guards, ...how });
    if (outcome.outcome === "removed") {
      await removeLeft(ground, left, how);
      return "removed";
    }
    // A fork that came in between: erasing takes that too.
    if (outcome.outcome === "hidden" && !erase) return "hidden";
    if (outcome.outcome === "fenced") return "held";
  }
}

/** Whether there was any. */
async function eraseCompanions(
  ground: Ground,
  stream: string,
  companions: readonly string[],
): Promise<boolean> {
  let isAny = false;
  for (const kind of companions) {
    const name = streamName(kind, streamId(stream));
    const result = await removeStream(ground, name, { erase: true });
    if (result === "held" || result === "open") throw cannotErase(stream, name, result);
    isAny ||= result === "removed";
  }
  return isAny;
}

/** Streams, and where what belongs to them ends: of the row's own, and of those that are hidden and may go with it. */
async function belongings(
  ground: Ground,
  row: StreamRow,
  companions: readonly string[],
): Promise<Belonging[]> {
  const found: Belonging[] = [];
  let each: StreamRow | null = companions.length > 0 ? row : null;
  while (each) {
    const { stream, parent }: StreamRow = each;
    for (const kind of companions) {
      const companion = await rowOf(ground, streamName(kind, streamId(stream)));
      if (companion.state !== "gone") found.push({ of: stream, companion });
    }
    const above: StreamRow | null = parent && (await rowOf(ground, parent.stream));
    each = above?.state === "hidden" ? above : null;
  }
  return found;
}

/** Not what has been written to since: somebody has begun anew under that name. */
async function removeLeft(
  ground: Ground,
  found: readonly Belonging[],
  how: Pick<RemoveOptions, "erase">,
): Promise<void> {
  for (const { of, companion } of found) {
    if ((await rowOf(ground, of)).state === "gone")
      await removeStream(ground, companion.stream, { head: companion.head, ...how });
  }
}

async function rowOf({ store, namespace }: Ground, stream: string): Promise<StreamRow> {
  const after = Number.MAX_SAFE_INTEGER - 1;
  return (await store.read({ namespace, stream, after, limit: 1 })).stream;
}

/** What `removeStream` would come to right now. */
async function foresee(
  { store, namespace, leases }: Ground,
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

async function eraseForks(ground: Ground, parent: string, companions: readonly string[]): Promise<void> {
  const { store, namespace } = ground;
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
      const result = await removeStream(ground, fork.stream, { erase: true, companions });
      if (result === "open" || result === "held") throw cannotErase(parent, fork.stream, result);
    }
  }
}

function cannotErase(parent: string, part: string, why: "open" | "held"): HoldfastError {
  const reason = why === "open" ? "has calls without an outcome" : "is held by a running process";
  const what = streamKind(part) === streamKind(parent) ? `its fork ${part}` : `${part}, which belongs to it,`;
  return new HoldfastError("STREAM_BUSY", `${parent} cannot be erased: ${what} ${reason}`, {
    hint: "Settle those calls or stop that process, then erase again.",
    data: { parent, fork: part, why },
  });
}

export interface PruneOptions {
  readonly kind: string;
  /** Only streams that were last changed before this wall clock. */
  readonly updatedBefore?: number;
  /** Only streams with this status. */
  readonly status?: string;
  /** Keep this many of the latest that match. */
  readonly keep?: number;
  readonly dryRun?: boolean;
  readonly isNeeded?: IsNeeded;
  readonly companions?: readonly string[];
}

/** What became of the streams that matched, by id. With `dryRun`, what would. */
export interface PruneReport {
  readonly removed: readonly string[];
  /** Forks share their past: they no longer show, and go with the last fork. */
  readonly hidden: readonly string[];
  /** Left alone, and why. */
  readonly spared: readonly { readonly id: string; readonly why: Spared }[];
}

/** By age, count or status. At least one of them must be said: "everything" is not a default. */
export async function prune(ground: Ground, options: PruneOptions): Promise<PruneReport> {
  if (options.updatedBefore === undefined && options.status === undefined && options.keep === undefined) {
    throw new HoldfastError("INPUT_INVALID", "prune was not told what to remove", {
      hint: "Say an age, a status, or how many to keep.",
    });
  }
  // Compared with what is no number everything would match, or the list be cut nowhere.
  if (options.keep !== undefined) checkOption("prune: keep", options.keep, "count");
  if (options.updatedBefore !== undefined) checkOption("prune: updatedBefore", options.updatedBefore, "time");
  const report = {
    removed: [] as string[],
    hidden: [] as string[],
    spared: [] as PruneReport["spared"][number][],
  };
  for (const row of await matching(ground, options)) {
    const id = streamId(row.stream);
    const { isNeeded, companions = [] } = options;
    const result = options.dryRun
      ? await foresee(ground, row, isNeeded)
      : await removeStream(ground, row.stream, { head: row.head, companions, ...(isNeeded && { isNeeded }) });
    if (result === "removed" || result === "hidden") report[result].push(id);
    else if (result !== "gone") report.spared.push({ id, why: result });
  }
  return report;
}

async function matching({ store, namespace }: Ground, options: PruneOptions): Promise<StreamRow[]> {
  const { kind, updatedBefore, status } = options;
  const only = {
    ...(status !== undefined && { status }),
    ...(updatedBefore !== undefined && { updatedBefore }),
  };
  const request = { of: "streams", namespace, kind, limit: PAGE, ...only } as const;
  const rows = await allRows((from) => store.list<"streams">({ ...request, ...from }));
  return rows.filter((row) => streamKind(row.stream) === kind).slice(options.keep ?? 0);
}
