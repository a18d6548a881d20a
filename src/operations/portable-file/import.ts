/** A file into a store: read to its end and checked, compared with what is there, and only then written. */

import { type Journal, Lease } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { streamKind } from "../../model/names.ts";
import { sessionKind } from "../../model/session/index.ts";
import { type Draft, writeEvents } from "../../model/stream/index.ts";
import type { Guard, Head, KeyRow, ReadPage, StoredWrite, StreamRow, Write } from "../../store.ts";
import {
  checkFile,
  type EndsLine,
  entriesOf,
  Fold,
  type GoneLine,
  type KeyAt,
  linesOf,
  mustKnow,
  type PortableReport,
  type StreamLine,
} from "./format.ts";

/**
 * What taking in a file comes to in one store, found out before anything is written: whatever cannot be taken in is
 * refused here, so that nothing is left half there. For each stream of the file:
 *
 *     not here            its writes are appended, in the life that it has in the file
 *     here, a part of it  the rest is appended
 *     here, and more      nothing is to be done
 *     here, another one   refused
 *     removed here since  it comes back as a life of its own; with open calls it would not be known again by what these
 *                         have begun elsewhere, and is refused
 *
 * Keys that are held here by the stream's own name are its own. What an earlier life claimed stays claimed.
 */

/**
 * Brings a name to a later life. A store counts lives by those that were lived, so each that is missing is lived here: a
 * session that says what it stands for, and is removed at once, under its lease. The keys of earlier lives are claimed by
 * the first of them, and stay claimed.
 *
 * A crash in between leaves that session, told by the id of its only write; the next import removes it and goes on.
 */

const STANDS_FOR_GONE = "import-of-a-removed-session-";

interface Lives {
  /** The life that comes next in this store … */
  readonly from: number;
  /** … and the one that has to. */
  readonly to: number;
  readonly keys: readonly KeyAt[];
}

async function liveThrough(journal: Journal, stream: string, { from, to, keys }: Lives): Promise<void> {
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
async function hide(journal: Journal, stream: string, head: Head): Promise<void> {
  if ((await journal.row(stream)).state !== "live") return;
  await underLease(journal, stream, async (guards) => {
    if ((await journal.remove(stream, { guards, head })) === "held") throw inUse(stream);
  });
}

/** Its row, once what an import that was cut off may have left under that name is removed. */
async function rowOf(journal: Journal, stream: string): Promise<StreamRow> {
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

interface StreamPlan {
  readonly lives: Lives | null;
  /** Keys that the stream has let go of by the end of the file: it does not claim them … */
  readonly freed: ReadonlySet<string>;
  /** … nor let go of those that another life of it holds here. */
  readonly kept: ReadonlySet<string>;
}

/** Streams of which there is nothing to say are left out. */
type Plan = ReadonlyMap<string, StreamPlan>;

const PAGE = 200;
/** Where no stream has a call: a key of another life that is put here is not taken for that of a call in this one. */
const NO_CALL = 1;

async function planImport(journal: Journal, file: string): Promise<Plan> {
  const plan = new Map<string, StreamPlan>();
  let current: Present | null = null;
  for await (const line of linesOf(file)) {
    if ("stream" in line) current = await Present.find(journal, file, line);
    else if ("write" in line) await current?.meet(line.write);
    else if ("ends" in line && current) {
      const found = await current.plan(line);
      if (found.lives || found.freed.size > 0) plan.set(current.stream, found);
    } else if ("gone" in line) {
      const lives = await livesOfGone(journal, file, line);
      if (lives) plan.set(line.gone, { lives, freed: new Set(), kept: new Set() });
    }
  }
  return plan;
}

/** What is here of a stream of the file, read along with it. */
class Present {
  private readonly journal: Journal;
  private readonly file: string;
  private readonly line: StreamLine;
  private readonly row: StreamRow;
  private page: ReadPage;
  private place = 0;
  private hasNew = false;

  private constructor(journal: Journal, file: string, line: StreamLine, page: ReadPage) {
    this.journal = journal;
    this.file = file;
    this.line = line;
    this.row = page.stream;
    this.page = page;
  }

  static async find(journal: Journal, file: string, line: StreamLine): Promise<Present> {
    await rowOf(journal, line.stream);
    return new Present(journal, file, line, await readFrom(journal, line.stream, 0));
  }

  get stream(): string {
    return this.line.stream;
  }

  async meet(write: Omit<StoredWrite, "payload">): Promise<void> {
    const here = await this.next();
    if (!here) {
      this.hasNew = true;
      if (this.row.state === "hidden") throw refused(this.file, this.stream, "it was removed here");
      return;
    }
    if (here.batch === write.batch && here.first === write.first && here.last === write.last) return;
    throw refused(this.file, this.stream, "this store has something else under that name");
  }

  async plan({ openCalls, held, freed, before }: EndsLine): Promise<StreamPlan> {
    const { stream, file } = this;
    const holders = await holdersOf(this.journal, [...held, ...freed, ...before]);
    const other =
      this.hasNew && held.map(([key]) => holders.get(key)).find((by) => by && by.stream !== stream);
    if (other) throw refused(file, stream, `a key that it has claimed is held by ${other.stream} here`);
    const kept = new Set(
      freed.map(([key]) => key).filter((key) => this.isOfOtherLife(holders.get(key), freed)),
    );
    const parted = [...kept].filter((key) => holders.get(key)?.seq !== NO_CALL);
    const keys = [...unheld(before, holders), ...parted.map((key) => [key, NO_CALL] as const)];
    const lives = this.livesBefore(keys, openCalls);
    return { lives, freed: new Set(freed.map(([key]) => key)), kept };
  }

  private isOfOtherLife(by: KeyRow | undefined, freed: readonly KeyAt[]): boolean {
    if (by?.stream !== this.stream) return false;
    return this.row.state === "gone" || !freed.some(([key, seq]) => key === by.key && seq === by.seq);
  }

  private livesBefore(keys: readonly KeyAt[], openCalls: number): Lives | null {
    const { row, file, stream, line } = this;
    if (streamKind(stream) !== "session") return null;
    if (row.state !== "gone") {
      if (keys.length > 0) throw refused(file, stream, "it is here without the keys of its earlier lives");
      return null;
    }
    const from = row.head.generation;
    const to = Math.max(from + Number(keys.length > 0), line.generation);
    if (to !== line.generation && openCalls > 0) {
      throw refused(file, stream, "it was removed here since, and has calls without an outcome in that file");
    }
    return from < to ? { from, to, keys } : null;
  }

  private async next(): Promise<StoredWrite | null> {
    const here = this.page.writes[this.place];
    if (here) {
      this.place += 1;
      return here;
    }
    const last = this.page.writes.at(-1);
    if (!this.page.more || !last) return null;
    this.page = await readFrom(this.journal, this.stream, last.last);
    this.place = 0;
    return this.next();
  }
}

function readFrom({ store, namespace }: Journal, stream: string, after: number): Promise<ReadPage> {
  return store.read({ namespace, stream, after, limit: PAGE });
}

async function livesOfGone(
  journal: Journal,
  file: string,
  { gone: stream, generation, before }: GoneLine,
): Promise<Lives | null> {
  const row = await rowOf(journal, stream);
  const keys = unheld(before, await holdersOf(journal, before));
  const here = row.head.generation;
  if (row.state !== "gone") {
    // Removed here, too, it gets the life after this one.
    if (keys.length === 0 && here + 1 >= generation) return null;
    throw refused(file, stream, "it was removed where the file comes from, and is still here");
  }
  const to = Math.max(here + Number(keys.length > 0), generation);
  return here < to ? { from: here, to, keys } : null;
}

type Holders = ReadonlyMap<string, KeyRow>;

async function holdersOf(journal: Journal, keys: readonly KeyAt[]): Promise<Holders> {
  const holders = new Map<string, KeyRow>();
  for (let at = 0; at < keys.length; at += PAGE) {
    const asked = keys.slice(at, at + PAGE).map(([key]) => key);
    for (const row of (await journal.list<"keys">({ of: "keys", keys: asked })).rows)
      holders.set(row.key, row);
  }
  return holders;
}

function unheld(keys: readonly KeyAt[], holders: Holders): readonly KeyAt[] {
  return keys.filter(([key]) => !holders.has(key));
}

function refused(file: string, stream: string, why: string): HoldfastError {
  return new HoldfastError("STREAM_EXISTS", `${stream} of ${file} cannot be taken in: ${why}`, {
    hint: "Nothing was written. Import into a store of its own: --store ./other.db",
    data: { stream, why },
  });
}

/** So many sessions that are gone are made at once: a store syncs them together. */
const AT_ONCE = 32;

export interface ImportReport extends PortableReport {
  /** How many of its writes were not there before. */
  readonly added: number;
}

/** What takes it in is opened, and made if need be, only once the file has proven good. */
export async function importFrom(into: () => Promise<Journal>, file: string): Promise<ImportReport> {
  const { streams, writes } = await checkFile(file);
  const journal = await into();
  const plan = await planImport(journal, file);
  let artifacts = 0;
  let added = 0;
  let current: Arriving | null = null;
  const hidden: Arriving[] = [];
  const gone: [stream: string, lives: Lives][] = [];
  for await (const { line, content } of entriesOf(file)) {
    if ("artifact" in line) {
      artifacts += 1;
      await journal.putArtifact(content as Uint8Array);
    } else if ("stream" in line) {
      current = await Arriving.begin(journal, file, line, plan.get(line.stream));
      if (line.hidden) hidden.push(current);
    } else if ("write" in line && current) {
      if (await current.take({ ...line.write, payload: content ?? "" })) added += 1;
    } else if ("gone" in line) {
      const lives = plan.get(line.gone)?.lives;
      if (lives) gone.push([line.gone, lives]);
    }
  }
  for (let at = 0; at < gone.length; at += AT_ONCE) {
    const some = gone.slice(at, at + AT_ONCE);
    await Promise.all(some.map(([stream, lives]) => liveThrough(journal, stream, lives)));
  }
  for (const { stream, head } of hidden.reverse()) await hide(journal, stream, head);
  return { file, streams, writes, added, artifacts, left: [] };
}

/** One stream on its way in. */
class Arriving {
  readonly stream: string;
  private readonly journal: Journal;
  private readonly file: string;
  private readonly plan: StreamPlan | undefined;
  private readonly fold: Fold;
  private readonly generation: number;
  private seq: number;
  /** Of the stream that it shares its past with, for its first write. */
  private fork: Write["fork"];

  private constructor(
    journal: Journal,
    file: string,
    { stream, base }: StreamLine,
    plan: StreamPlan | undefined,
    past: { readonly fold: Fold; readonly generation: number; readonly fork: Write["fork"] },
  ) {
    this.journal = journal;
    this.file = file;
    this.stream = stream;
    this.seq = base;
    this.plan = plan;
    this.fold = past.fold;
    this.generation = past.generation;
    this.fork = past.fork;
  }

  static async begin(
    journal: Journal,
    file: string,
    line: StreamLine,
    plan: StreamPlan | undefined,
  ): Promise<Arriving> {
    const { stream, parent, base } = line;
    if (plan?.lives) await liveThrough(journal, stream, plan.lives);
    const { generation } = (await journal.row(stream)).head;
    const fold = await Fold.at(journal, mustKnow(stream), parent, base);
    const from = parent === null ? null : (await journal.row(parent)).head;
    const fork =
      from && parent !== null ? { stream: parent, generation: from.generation, seq: base } : undefined;
    return new Arriving(journal, file, line, plan, { fold, generation, fork });
  }

  get head(): Head {
    return { generation: this.generation, seq: this.seq };
  }

  /** False where that very write was there already. */
  async take(stored: StoredWrite): Promise<boolean> {
    const { journal, stream, fork } = this;
    const { namespace } = journal;
    const change = this.fold.add(journal, stream, stored);
    const write: Write = {
      ...change,
      ...this.keysOf(change),
      stream,
      expect: { generation: this.generation, seq: stored.first - 1 },
      count: stored.last - stored.first + 1,
      payload: stored.payload,
      codec: stored.codec,
      sum: stored.sum,
      at: stored.at,
      ...(fork && { fork }),
    };
    this.fork = undefined;
    this.seq = stored.last;
    const outcome = await journal.store.append({ id: stored.batch, namespace, writes: [write] });
    if (outcome.outcome === "ok") return !outcome.resent;
    throw new HoldfastError(
      "STREAM_BUSY",
      `${stream} of ${this.file} cannot be taken in: this store was changed meanwhile (${outcome.outcome})`,
      {
        hint: "Stop whoever works on it, and import again: what has come already stays, and the rest follows.",
        data: { stream, outcome: outcome.outcome },
      },
    );
  }

  /**
   * Streams do not come in the order in which they were written, so a key that one let go of may be another's already. And
   * one that an earlier life of the stream holds here is its own.
   */
  private keysOf({
    claims = [],
    releases = [],
  }: Pick<Write, "claims" | "releases">): Required<Pick<Write, "claims" | "releases">> {
    const claimed = claims.filter(({ key }) => !this.plan?.freed.has(key));
    const released = releases.filter((key) => !this.plan?.kept.has(key));
    return { claims: claimed, releases: [...released, ...claimed.map(({ key }) => key)] };
  }
}
