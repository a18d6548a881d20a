/** The three records of a case as data, and how the store's part is read. */

import { Journal } from "../../src/journal/index.ts";
import { HoldfastError } from "../../src/model/errors.ts";
import { streamId } from "../../src/model/names.ts";
import { type Call, sessionKind } from "../../src/model/session/index.ts";
import type { Event } from "../../src/model/stream/index.ts";
import type { Problem, Store } from "../../src/store.ts";
import { type Ack, readAcks } from "../acks.ts";
import type { Scenario } from "../scenario.ts";
import { openStore } from "../store-under-test.ts";
import { readEntries, type WorldEntry } from "../world/log.ts";

/** An event with its position. Events of one `batch` became durable together. */
export interface Logged {
  readonly seq: number;
  readonly type: string;
  readonly at: number;
  readonly batch: string;
  // The checker reads events of every type, including those that a planted bug invented.
  readonly data: { readonly [field: string]: unknown };
}

export interface StoredWrite {
  readonly stream: string;
  readonly first: number;
  readonly last: number;
  readonly batch: string;
  readonly sum: number;
}

export interface SessionLog {
  readonly id: string;
  readonly events: readonly Logged[];
  /** Calls as the fold sees them; null if the log cannot be folded. */
  readonly calls: readonly Call[] | null;
  readonly foldError: string | null;
}

export interface Evidence {
  readonly scenario: Scenario;
  readonly sessions: readonly SessionLog[];
  readonly writes: readonly StoredWrite[];
  readonly problems: readonly Problem[];
  readonly world: readonly WorldEntry[];
  readonly acks: readonly Ack[];
  /** The exit code of the program's last run, or null if it never ended. */
  readonly ended: number | null;
}

/** A broken invariant, with its evidence. */
export interface Violation {
  readonly invariant: string;
  readonly what: string;
}

export type Rule = (evidence: Evidence) => Violation[];

export async function gather(dir: string, scenario: Scenario, ended: number | null): Promise<Evidence> {
  const store = await openStore(dir);
  try {
    return await gatherFrom(store, dir, scenario, ended);
  } finally {
    await store.close();
  }
}

/** The same for an open store, which need not be in the folder of the case. */
export async function gatherFrom(
  store: Store,
  dir: string,
  scenario: Scenario,
  ended: number | null,
): Promise<Evidence> {
  // Acknowledgements first: everything acknowledged by now must be in the store that is read next, even if
  // a process still writes.
  const acks = readAcks(dir);
  const problems = await store.check();
  const streams = await store.list<"streams">({ of: "streams", namespace: "default", limit: 1_000 });
  const sessions: SessionLog[] = [];
  const writes: StoredWrite[] = [];
  for (const { stream } of streams.rows) {
    const { events, stored } = await readLog(store, stream);
    writes.push(...stored);
    sessions.push({ id: streamId(stream), events, ...(await fold(store, stream)) });
  }
  return { scenario, sessions, writes, problems, world: readEntries(dir), acks, ended };
}

async function readLog(store: Store, stream: string): Promise<{ events: Logged[]; stored: StoredWrite[] }> {
  const events: Logged[] = [];
  const stored: StoredWrite[] = [];
  for (let after = 0, more = true; more; ) {
    const page = await store.read({ namespace: "default", stream, after, limit: 500 });
    for (const { first, last, batch, sum, payload } of page.writes) {
      stored.push({ stream, first, last, batch, sum });
      const parsed = JSON.parse(payload as string) as Event<string, Logged["data"]>[];
      events.push(
        ...parsed.map(({ type, at, data }, index) => ({ seq: first + index, type, at, batch, data })),
      );
      after = last;
    }
    more = page.more;
  }
  return { events, stored };
}

async function fold(store: Store, stream: string): Promise<Pick<SessionLog, "calls" | "foldError">> {
  try {
    const { state } = await new Journal({ store }).load(sessionKind, streamId(stream));
    return { calls: [...state.calls.values()], foldError: null };
  } catch (error) {
    if (error instanceof HoldfastError) return { calls: null, foldError: error.message };
    throw error;
  }
}

export function field<Value>(event: Logged, name: string): Value {
  return event.data[name] as Value;
}

/** The events of one call in order. */
export function historyOf(session: SessionLog): Map<string, Logged[]> {
  const histories = new Map<string, Logged[]>();
  for (const event of session.events) {
    if (!event.type.startsWith("call.")) continue;
    const id = field<string>(event, "callId");
    histories.set(id, [...(histories.get(id) ?? []), event]);
  }
  return histories;
}
