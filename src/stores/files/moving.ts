/**
 * One end of a copy. The seal is a line of the journal like any other act: whoever takes the lock has read it before
 * its first act, so a process that had the folder open long before meets it at its next change.
 *
 * Rows come in as the lines of a rewritten journal would: a stream as it is, then its writes, its items, keys. A page is
 * one turn, and so one sync. A stream that comes again replaces what came of it before, so a copy that was broken off
 * is run again from its beginning.
 */

import { MOVED_PAGE_BYTES } from "../../model/stream/index.ts";
import type { MovedRow, Page, Seal } from "../../store.ts";
import { isSameSeal, requireEntering } from "../kit/index.ts";
import { putArtifact } from "./acts.ts";
import type { Turn } from "./append.ts";
import { readArtifact } from "./artifacts.ts";
import { movedRows } from "./foundations.ts";
import { refreshTimes } from "./leases.ts";
import { toSegment } from "./line.ts";
import type { OpenedFolder } from "./opened-folder.ts";
import type { State } from "./state.ts";

const PAGE_ROWS = 500;

export function reseal(turn: Turn, expect: Seal | null, next: Seal | null): boolean {
  const { data } = turn.folder.state;
  if (!isSameSeal(data.seal, expect)) return false;
  turn.log({ do: "seal", seal: next });
  data.seal = next;
  return true;
}

type Kinds = readonly MovedRow["of"][];

interface Walk {
  readonly place: number;
  readonly wanted: string;
  readonly state: State;
  readonly rows: Generator<MovedRow>;
}

/**
 * Pages of everything. The rows have no order of their own by which a page could be found, so the walk through them is
 * kept for whoever asks for the page after; any other page is walked to from the beginning.
 */
export class Dump {
  #walk: Walk | null = null;

  page(folder: OpenedFolder, cursor: string | null, only?: Kinds): Page<MovedRow> {
    const begin = Number(cursor ?? 0);
    const { state } = folder;
    const wanted = String(only);
    // A journal that was rewritten since has rows of its own.
    const isHere = this.#walk?.place === begin && this.#walk.state === state && this.#walk.wanted === wanted;
    const rows = isHere && this.#walk ? this.#walk.rows : walkTo(folder, begin, only);
    this.#walk = null;
    const page: MovedRow[] = [];
    let bytes = 0;
    while (page.length < PAGE_ROWS && bytes < MOVED_PAGE_BYTES) {
      const next = rows.next();
      if (next.done) return { rows: page, cursor: null };
      page.push(next.value);
      bytes += sizeOf(next.value);
    }
    this.#walk = { place: begin + page.length, wanted, state, rows };
    return { rows: page, cursor: String(begin + page.length) };
  }
}

function sizeOf(row: MovedRow): number {
  return row.of === "write" ? row.payload.length : row.of === "artifact" ? row.bytes.length : 0;
}

function walkTo(folder: OpenedFolder, begin: number, only: Kinds | undefined): Generator<MovedRow> {
  const { state, place } = folder;
  for (const [namespace, { leases }] of state.data.spaces)
    refreshTimes(folder, namespace, [...leases.keys()]);
  const bytesOf = (namespace: string, hash: string) => readArtifact(folder, namespace, hash);
  const rows = movedRows(state.data, place.clock.nowMs(), { bytesOf, only });
  for (let skipped = 0; skipped < begin; skipped++) rows.next();
  return rows;
}

export function restore(turn: Turn, move: string, rows: readonly MovedRow[]): void {
  const { seal } = turn.folder.state.data;
  requireEntering({ path: turn.folder.paths.folder }, move, seal);
  for (const row of rows) put(turn, row);
}

function put(turn: Turn, row: MovedRow): void {
  const { namespace } = row;
  switch (row.of) {
    case "lease":
      putLease(turn, row);
      break;
    case "artifact":
      putArtifact(turn, { ...row, at: row.putAt });
      break;
    case "stream": {
      const { of: _of, ...stream } = row;
      keep(turn, { do: "stream", ...stream, items: [] });
      break;
    }
    case "write":
      putWrite(turn, row);
      break;
    case "item": {
      const { of: _of, namespace: _namespace, ...item } = row;
      keep(turn, { do: "items", namespace, items: [item] });
      break;
    }
    case "key":
      keep(turn, { do: "keys", namespace, keys: [[row.key, row.stream, row.seq]] });
  }
}

/** A line, and at once what it comes to. */
function keep(turn: Turn, act: Parameters<Turn["log"]>[0], segments: readonly Buffer[] = []): void {
  const { state, journal } = turn.folder;
  const from = journal.lines + 1;
  const line = turn.log(act, segments);
  state.apply({ ...line, n: journal.lines + turn.lines.length, from, act }, journal);
}

/** Of a boot that never was: nobody who held it survives the move, and whoever it was can still be named. */
function putLease(turn: Turn, row: Extract<MovedRow, { of: "lease" }>): void {
  const { namespace, name, token, holder, ttlMs } = row;
  const slot = turn.folder.state.slot(namespace, name);
  const never = { deadline: 0, boot: "moved" };
  keep(turn, { do: "lease", namespace, name, token, holder, ttlMs, ...never, slot });
}

function putWrite(turn: Turn, row: Extract<MovedRow, { of: "write" }>): void {
  const { of: _of, payload, ...write } = row;
  const { form, segment } = toSegment(payload);
  const act = { do: "write", ...write, bytes: segment.length } as const;
  keep(turn, form === "json" ? act : { ...act, form }, [segment]);
}
