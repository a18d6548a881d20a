/** Streams as rows, and what the port sees of them. */

import type { Head, StreamRow, StreamState } from "../../store.ts";
import { fromText, fromTextOrNull } from "./text.ts";

export interface StoredStream {
  readonly stream: string;
  readonly state: StreamState;
  readonly generation: number;
  readonly seq: number;
  readonly base: number;
  readonly parent: string | null;
  readonly parent_generation: number | null;
  readonly created_at: number;
  readonly updated_at: number;
  readonly open_calls: number;
  readonly expires_at: number | null;
  readonly status: string | null;
  readonly title: string | null;
  readonly goal: string | null;
  readonly budget: string | null;
}

/** The columns of a `StoredStream`, from a query that calls the table `s`. */
export const STREAM_COLUMNS = `s.stream, s.state, s.generation, s.seq, s.base, s.parent, s.parent_generation,
  s.created_at, s.updated_at, s.open_calls, s.expires_at, s.status, s.title, s.goal, s.budget`;

/** A tombstone keeps the generation of its last life; the port speaks of the next. */
function headOf({ state, generation, seq }: StoredStream): Head {
  return state === "gone" ? { generation: generation + 1, seq: 0 } : { generation, seq };
}

export function streamRow(stored: StoredStream): StreamRow {
  const { state, base, parent, parent_generation: generation } = stored;
  return {
    stream: fromText(stored.stream),
    state,
    head: headOf(stored),
    base,
    parent: parent === null || generation === null ? null : { stream: fromText(parent), generation },
    createdAt: stored.created_at,
    updatedAt: stored.updated_at,
    facets: {
      status: fromTextOrNull(stored.status),
      title: fromTextOrNull(stored.title),
      goal: fromTextOrNull(stored.goal),
      openCalls: stored.open_calls,
      expiresAt: stored.expires_at,
      budget: fromTextOrNull(stored.budget),
    },
  };
}

/** A name that no stream has ever had. */
export function neverRow(stream: string): StreamRow {
  return {
    stream,
    state: "gone",
    head: { generation: 1, seq: 0 },
    base: 0,
    parent: null,
    createdAt: 0,
    updatedAt: 0,
    facets: { status: null, title: null, goal: null, openCalls: 0, expiresAt: null, budget: null },
  };
}
