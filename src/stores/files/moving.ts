/**
 * This folder's end of a move. The seal is a record of the journal like any other: a process that takes the
 * lock has read it before its first act.
 *
 * Rows arrive as the lines of a compacted journal: a stream, then its writes, its items, keys. A page is one
 * flush. A stream that arrives again replaces the earlier one, so a move that broke off is run again.
 */

import { MOVED_PAGE_BYTES } from "../../model/stream/index.ts";
import type { MovedRow, Page, Seal } from "../../store.ts";
import { isSameSeal, requireEntering } from "../kit/index.ts";
import { dumpRows } from "../memory/index.ts";
import { putArtifact, refreshExpiries } from "./acts.ts";
import type { Flush } from "./append.ts";
import { readArtifact } from "./blobs.ts";
import { toSegment } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";
import type { JournalRecord, State } from "./state.ts";

const PAGE_ROWS = 500;

export function reseal(flush: Flush, expect: Seal | null, next: Seal | null): boolean {
  const { data } = flush.folder.state;
  if (!isSameSeal(data.seal, expect)) return false;
  flush.addLine({ do: "seal", seal: next });
  data.seal = next;
  return true;
}

type Kinds = readonly MovedRow["of"][];

/** Rows have no key by which a page could be found, so the generator is kept for the page that follows. */
export class Dump {
  #walk: { position: number; wanted: string; state: State; rows: Generator<MovedRow> } | null = null;

  page(folder: OpenFolder, cursor: string | null, only?: Kinds): Page<MovedRow> {
    const begin = Number(cursor ?? 0);
    const { state } = folder;
    const wanted = String(only);
    // After a compaction the state is another, in another order.
    const isNext =
      this.#walk?.position === begin && this.#walk.state === state && this.#walk.wanted === wanted;
    const rows = isNext && this.#walk ? this.#walk.rows : rowsFrom(folder, begin, only);
    this.#walk = null;
    const page: MovedRow[] = [];
    let bytes = 0;
    while (page.length < PAGE_ROWS && bytes < MOVED_PAGE_BYTES) {
      const next = rows.next();
      if (next.done) return { rows: page, cursor: null };
      page.push(next.value);
      bytes += sizeOf(next.value);
    }
    this.#walk = { position: begin + page.length, wanted, state, rows };
    return { rows: page, cursor: String(begin + page.length) };
  }
}

function sizeOf(row: MovedRow): number {
  return row.of === "write" ? row.payload.length : row.of === "artifact" ? row.bytes.length : 0;
}

function rowsFrom(folder: OpenFolder, begin: number, only: Kinds | undefined): Generator<MovedRow> {
  const { state, options } = folder;
  for (const [namespace, { leases }] of state.data.spaces)
    refreshExpiries(folder, namespace, [...leases.keys()]);
  const bytesOf = (namespace: string, hash: string) => readArtifact(folder, namespace, hash);
  const rows = dumpRows(state.data, options.clock.nowMs(), { bytesOf, only });
  for (let skipped = 0; skipped < begin; skipped++) rows.next();
  return rows;
}

export function restore(flush: Flush, move: string, rows: readonly MovedRow[]): void {
  const { seal } = flush.folder.state.data;
  requireEntering({ path: flush.folder.paths.folder }, move, seal);
  for (const row of rows) put(flush, row);
}

function put(flush: Flush, row: MovedRow): void {
  const { namespace } = row;
  switch (row.of) {
    case "lease":
      putLease(flush, row);
      break;
    case "artifact":
      putArtifact(flush, { ...row, at: row.putAt });
      break;
    case "stream": {
      const { of: _of, ...stream } = row;
      applyLine(flush, { do: "stream", ...stream, items: [] });
      break;
    }
    case "write":
      putWrite(flush, row);
      break;
    case "item": {
      const { of: _of, namespace: _namespace, ...item } = row;
      applyLine(flush, { do: "items", namespace, items: [item] });
      break;
    }
    case "key":
      applyLine(flush, { do: "keys", namespace, keys: [[row.key, row.stream, row.seq]] });
  }
}

function applyLine(flush: Flush, act: JournalRecord, segments: readonly Buffer[] = []): void {
  const { state, journal } = flush.folder;
  const from = journal.lines + 1;
  const line = flush.addLine(act, segments);
  state.apply({ ...line, n: journal.lines + flush.lines.length, from, act }, journal);
}

/** Stored as expired: no holder survives the move. The holder's name is kept for messages. */
function putLease(flush: Flush, row: Extract<MovedRow, { of: "lease" }>): void {
  const { namespace, name, token, holder, ttlMs } = row;
  const slot = flush.folder.state.slot(namespace, name);
  const never = { deadline: 0, boot: "moved" };
  applyLine(flush, { do: "lease", namespace, name, token, holder, ttlMs, ...never, slot });
}

function putWrite(flush: Flush, row: Extract<MovedRow, { of: "write" }>): void {
  const { of: _of, payload, ...write } = row;
  const { form, segment } = toSegment(payload);
  const act = { do: "write", ...write, bytes: segment.length } as const;
  applyLine(flush, form === "json" ? act : { ...act, form }, [segment]);
}
