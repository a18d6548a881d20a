/**
 * Brings a name to a later life. A store counts lives by those that were lived, so each that is missing is lived here: a
 * session that says what it stands for, and is removed at once, under its lease. The keys of earlier lives are claimed by
 * the first of them, and stay claimed.
 *
 * A crash in between leaves that session, told by the id of its only write; the next import removes it and goes on.
 */

import { type Journal, Lease } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { sessionKind } from "../../model/session/index.ts";
import { type Draft, writeEvents } from "../../model/stream/index.ts";
import type { Guard, Head, StreamRow, Write } from "../../store.ts";
import type { KeyAt } from "./lines.ts";

const STANDS_FOR_GONE = "import-of-a-removed-session-";

export interface Lives {
  /** The life that comes next in this store … */
  readonly from: number;
  /** … and the one that has to. */
  readonly to: number;
  readonly keys: readonly KeyAt[];
}

export async function liveThrough(
  journal: Journal,
  stream: string,
  { from, to, keys }: Lives,
): Promise<void> {
  if (from >= to) return;
  const { store, namespace } = journal;
  await underLease(journal, stream, async (guards) => {
    for (let generation = from; generation < to; generation++) {
      const write = { ...standIn(journal, stream, generation === from ? keys : []), guards };
      const id = `${STANDS_FOR_GONE}${journal.newId()}`;
      const expect = { generation, seq: 0 };
      const outcome = await store.append({ id, namespace, writes: [{ ...write, expect }] });
      if (outcome.outcome !== "ok") throw inUse(stream);
      const head = { generation, seq: write.count };
      const removal = await store.remove({ of: "stream", namespace, stream, expect: head, guards });
      if (removal.outcome !== "removed") throw inUse(stream);
    }
  });
}

/** Whoever was killed in an import may still have it: for so long it is waited for. */
async function underLease(
  journal: Journal,
  stream: string,
  act: (guards: readonly Guard[]) => Promise<void>,
): Promise<void> {
  const waitMs = journal.leases.ttlMs + 1_000;
  const lease = await journal.leases.take(stream, journal.newId(), { label: "import", waitMs });
  if (!(lease instanceof Lease)) throw inUse(stream);
  try {
    await act([lease.guard]);
  } finally {
    await lease.release();
  }
}

/** As it was where the file comes from: removed, and there only for its forks. One that has gone on here stays. */
export async function hide(journal: Journal, stream: string, head: Head): Promise<void> {
  if ((await journal.row(stream)).state !== "live") return;
  await underLease(journal, stream, async (guards) => {
    if ((await journal.remove(stream, { guards, head })) === "held") throw inUse(stream);
  });
}

/** Its row, once what an import that was cut off may have left under that name is removed. */
export async function rowOf(journal: Journal, stream: string): Promise<StreamRow> {
  const row = await journal.row(stream);
  if (!(await isLeftOver(journal, row))) return row;
  const { store, namespace } = journal;
  await underLease(journal, stream, async (guards) => {
    const removal = await store.remove({ of: "stream", namespace, stream, expect: row.head, guards });
    if (removal.outcome !== "removed") throw inUse(stream);
  });
  return journal.row(stream);
}

async function isLeftOver({ store, namespace }: Journal, row: StreamRow): Promise<boolean> {
  if (row.state !== "live" || row.base > 0) return false;
  const { writes } = await store.read({ namespace, stream: row.stream, after: 0, limit: 2 });
  return writes.length === 1 && writes[0]?.batch.startsWith(STANDS_FOR_GONE) === true;
}

/** As many events as the places of its keys need: also this session can be read, whoever comes by. */
function standIn(journal: Journal, stream: string, keys: readonly KeyAt[]): Omit<Write, "expect"> {
  const at = journal.now();
  const why = "stands for a session that was removed, while a file is imported";
  const drafts: Draft[] = [
    { type: "session.opened", data: { ttlMs: null } },
    { type: "session.status", data: { status: "completed", why, by: "import" } },
  ];
  const seqs = keys.map(([, seq]) => seq);
  const count = seqs.reduce((most, seq) => Math.max(most, seq), drafts.length);
  while (drafts.length < count) drafts.push({ type: "session.described", data: {} });
  const { events, text } = writeEvents(sessionKind, drafts, at);
  const change = sessionKind.facets?.(sessionKind.initial(), events, 1) ?? {};
  const { events: _, ...encoded } = journal.payloads.encodeEvents(events, text, {
    namespace: journal.namespace,
    stream,
    seq: 1,
  });
  const claims = keys.map(([key, seq]) => ({ key, event: seq - 1 }));
  const releases = keys.map(([key]) => key);
  return { ...change, ...encoded, stream, count, at, claims, releases };
}

function inUse(stream: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `${stream} is in use in this store while it is imported`, {
    hint: "Stop whoever works on it, and import again: what has come already stays, and the rest follows.",
    data: { stream },
  });
}
