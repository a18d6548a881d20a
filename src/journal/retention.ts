/**
 * Removing is always an act that somebody asked for; nothing expires by itself. A stream with open calls is not
 * removed: the answer to them would be lost. A stream that forks share is hidden and goes with the last of them.
 */

import { HoldfastError, streamId, streamKind } from "../model/index.ts";
import type { Guard, Store, StreamRow } from "../store.ts";

export type Removal = "removed" | "hidden" | "gone" | "open" | "held";

const PAGE = 200;

/** Removes one stream. `guards` are the leases of a caller that holds it; without them a held stream is left alone. */
export async function removeStream(
  store: Store,
  namespace: string,
  stream: string,
  options: { guards?: readonly Guard[]; erase?: true } = {},
): Promise<Removal> {
  for (;;) {
    const { stream: row } = await store.read({
      namespace,
      stream,
      after: Number.MAX_SAFE_INTEGER - 1,
      limit: 1,
    });
    const obstacle = await obstacleTo(store, namespace, row, options.guards !== undefined);
    if (obstacle) return obstacle;
    if (options.erase) await eraseForks(store, namespace, stream);
    const outcome = await store.remove({ of: "stream", namespace, stream, expect: row.head, ...options });
    if (outcome.outcome === "removed" || outcome.outcome === "hidden") return outcome.outcome;
    if (outcome.outcome === "fenced") return "held";
  }
}

async function obstacleTo(
  store: Store,
  namespace: string,
  row: StreamRow,
  isOurs: boolean,
): Promise<Exclude<Removal, "removed" | "hidden"> | null> {
  if (row.state === "gone") return "gone";
  if (row.facets.openCalls > 0) return "open";
  return !isOurs && (await isHeld(store, namespace, row.stream)) ? "held" : null;
}

/** What `removeStream` would come to right now. */
async function foresee(store: Store, namespace: string, row: StreamRow): Promise<Removal> {
  const obstacle = await obstacleTo(store, namespace, row, false);
  if (obstacle) return obstacle;
  const parent = row.stream;
  const forks = await store.list<"streams">({ of: "streams", namespace, parent, hidden: true, limit: 1 });
  return forks.rows.length > 0 ? "hidden" : "removed";
}

async function eraseForks(store: Store, namespace: string, parent: string): Promise<void> {
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
      const result = await removeStream(store, namespace, fork.stream, { erase: true });
      if (result === "open" || result === "held") throw cannotErase(parent, fork.stream, result);
    }
  }
}

function cannotErase(parent: string, fork: string, why: "open" | "held"): HoldfastError {
  const reason = why === "open" ? "has calls without an outcome" : "is held by a running process";
  return new HoldfastError("STREAM_BUSY", `${parent} cannot be erased: its fork ${fork} ${reason}`, {
    hint: "Settle those calls or stop that process, then erase again.",
    data: { parent, fork, why },
  });
}

async function isHeld(store: Store, namespace: string, name: string): Promise<boolean> {
  const leases = await store.list<"leases">({ of: "leases", namespace, prefix: name, limit: PAGE });
  return leases.rows.some((lease) => lease.name === name && lease.holder !== null && lease.remainingMs > 0);
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
}

export interface PruneReport {
  readonly removed: readonly string[];
  readonly hidden: readonly string[];
  /** Left alone, and why. */
  readonly spared: readonly { readonly id: string; readonly why: "open" | "held" }[];
}

/** By age, count or status. At least one of them must be said: "everything" is not a default. */
export async function prune(store: Store, namespace: string, options: PruneOptions): Promise<PruneReport> {
  if (options.updatedBefore === undefined && options.status === undefined && options.keep === undefined) {
    throw new HoldfastError("INPUT_INVALID", "prune was not told what to remove", {
      hint: "Say an age, a status, or how many to keep.",
    });
  }
  const report = {
    removed: [] as string[],
    hidden: [] as string[],
    spared: [] as PruneReport["spared"][number][],
  };
  for (const row of await matching(store, namespace, options)) {
    const id = streamId(row.stream);
    const result = options.dryRun
      ? await foresee(store, namespace, row)
      : await removeStream(store, namespace, row.stream);
    if (result === "removed" || result === "hidden") report[result].push(id);
    else if (result !== "gone") report.spared.push({ id, why: result });
  }
  return report;
}

async function matching(store: Store, namespace: string, options: PruneOptions): Promise<StreamRow[]> {
  const { kind, updatedBefore, status } = options;
  const rows: StreamRow[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list<"streams">({
      of: "streams",
      namespace,
      kind,
      ...(status !== undefined && { status }),
      ...(updatedBefore !== undefined && { updatedBefore }),
      ...(cursor !== undefined && { cursor }),
      limit: PAGE,
    });
    rows.push(...page.rows.filter((row) => streamKind(row.stream) === kind));
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return rows.slice(options.keep ?? 0);
}
