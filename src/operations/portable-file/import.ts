/**
 * Imports a portable file into a store: checks the file to its end, plans, and only then writes.
 *
 * The plan compares the file with the store. A stream that cannot be imported is refused before anything is
 * written, so that no half of a file is left behind. For each stream of the file:
 *
 *     not in the store           its writes are appended, in the generation that the file gives
 *     a part is in the store     the rest is appended
 *     all of it is, and more     nothing to do
 *     another one is             refused
 *     removed from the store     it returns as a generation of its own; refused if it has open calls, because
 *                                these would get new keys and could not be matched with what they began
 *
 * Keys that the store holds for the stream's own name belong to it. Keys of earlier generations stay claimed.
 *
 * Keys of earlier generations, and the generation of a stream that is gone, need a stand-in. This is a short
 * session in the last of those generations that claims the keys; the import removes it at once. A crash
 * leaves a stand-in, recognized by the id of its only write; the next import removes it.
 */

import { type Journal, Lease } from "../../journal/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import { ERASED, streamKind } from "../../model/names.ts";
import { sessionKind } from "../../model/session/index.ts";
import { type Draft, writeEvents } from "../../model/stream/index.ts";
import type { Guard, Head, KeyRow, ReadPage, StoredWrite, StreamRow, Write } from "../../store.ts";
import type { EndsLine, GoneLine, KeyAt, PortableReport, StreamLine } from "./format.ts";
import { checkEvents, checkFile, entriesOf, Fold, requireKind } from "./format.ts";

type ImportReport = PortableReport & { readonly added: number; readonly claims: ClaimedKey[] };

/** A key that the store did not hold: calls that need it count as made from now on. */
interface ClaimedKey {
  readonly namespace: string;
  readonly stream: string;
  readonly key: string;
  /** False for a key of a removed session: the file has no call that shows what it was for. */
  readonly hasCall: boolean;
}

/** Removed sessions are created this many at a time: the store syncs them together. */
const AT_ONCE = 32;

/** The journal of each namespace of a file, or null for a namespace that is not imported. */
class Targets {
  private readonly journal: Journal;
  private readonly only: string | null;
  private readonly known = new Map<string, Journal>();

  constructor(journal: Journal, only: string | null) {
    this.journal = journal;
    this.only = only;
  }

  of(namespace: string): Journal | null {
    if (this.only !== null && namespace !== this.only) return null;
    const known = this.known.get(namespace) ?? this.journal.inNamespace(namespace);
    this.known.set(namespace, known);
    return known;
  }

  get namespaces(): string[] {
    return [...this.known.keys()];
  }
}

/**
 * Imports every namespace of the file under its own name, or `only` that one. Calls `into`, which may create
 * the store, only after the file has proven good.
 */
export async function importFrom(
  into: () => Promise<Journal>,
  file: string,
  only: string | null = null,
): Promise<ImportReport> {
  await checkFile(file);
  const targets = new Targets(await into(), only);
  const claims: ClaimedKey[] = [];
  const plan = await planImport(targets, file, claims);
  if (only !== null && targets.namespaces.length === 0) throw lacksNamespace(file, only);
  const counts = { streams: 0, writes: 0, added: 0, artifacts: 0 };
  let journal: Journal | null = null;
  let current: StreamImport | null = null;
  const hidden: [journal: Journal, stream: StreamImport][] = [];
  const gone: [journal: Journal, stream: string, gap: GenerationGap][] = [];
  for await (const { line, content } of entriesOf(file)) {
    if ("namespace" in line) journal = targets.of(line.namespace);
    if (!journal) continue;
    if ("artifact" in line) {
      counts.artifacts += 1;
      await journal.putStoredArtifact(content as Uint8Array);
    } else if ("stream" in line) {
      counts.streams += 1;
      current = await beginStream(journal, file, line, plan.get(placeOf(journal, line.stream)));
      if (line.hidden) hidden.push([journal, current]);
    } else if ("write" in line && current) {
      counts.writes += 1;
      if (await current.append({ ...line.write, payload: content ?? "" })) counts.added += 1;
    } else if ("gone" in line) {
      const gap = plan.get(placeOf(journal, line.gone))?.gap;
      if (gap) gone.push([journal, line.gone, gap]);
    }
  }
  // From then on unused names begin after the erased streams of the file: so these come last.
  const erased = gone.filter(([, stream]) => stream === ERASED);
  const named = gone.filter(([, stream]) => stream !== ERASED);
  for (let at = 0; at < named.length; at += AT_ONCE) {
    const some = named.slice(at, at + AT_ONCE);
    await Promise.all(some.map(([where, stream, gap]) => fillGap(where, stream, gap)));
  }
  for (const [where, stream, gap] of erased) await fillGap(where, stream, gap);
  for (const [where, { stream, head }] of hidden.reverse()) await hide(where, stream, head());
  return { file, namespaces: targets.namespaces, ...counts, left: [], claims };
}

function placeOf({ namespace }: Journal, stream: string): string {
  return `${namespace} ${stream}`;
}

function lacksNamespace(file: string, namespace: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file}: nothing of namespace ${namespace} is in it`, {
    hint: "Nothing was written. Leave out --namespace to import all that the file has.",
    data: { file, namespace },
  });
}

type StreamImport = Awaited<ReturnType<typeof beginStream>>;

async function beginStream(
  journal: Journal,
  file: string,
  { stream, parent, base, generation: wanted }: StreamLine,
  plan: StreamPlan | undefined,
) {
  const { namespace } = journal;
  if (plan?.gap) await fillGap(journal, stream, plan.gap);
  const { state, head } = await journal.row(stream);
  const generation = state === "gone" ? Math.max(head.generation, wanted) : head.generation;
  const fold = await Fold.at(journal, requireKind(stream), parent, base);
  const from = parent === null ? null : (await journal.row(parent)).head;
  // For the first write of a fork.
  let fork: Write["fork"] =
    from && parent !== null ? { stream: parent, generation: from.generation, seq: base } : undefined;
  let seq = base;
  /** False if the store had that very write already. */
  const append = async (stored: StoredWrite): Promise<boolean> => {
    const change = fold.add(journal, stream, stored);
    const write: Write = {
      ...change,
      ...keysOf(change, plan),
      stream,
      expect: { generation, seq: stored.first - 1 },
      count: stored.last - stored.first + 1,
      payload: stored.payload,
      codec: stored.codec,
      sum: stored.sum,
      at: stored.at,
      ...(fork && { fork }),
    };
    fork = undefined;
    seq = stored.last;
    const outcome = await journal.store.append({ id: stored.batch, namespace, writes: [write] });
    if (outcome.outcome === "ok") return !outcome.resent;
    throw new HoldfastError(
      "STREAM_BUSY",
      `${stream} of ${file}: another process changed the store during the import (${outcome.outcome})`,
      { hint: RETRY, data: { stream, outcome: outcome.outcome } },
    );
  };
  return { stream, head: (): Head => ({ generation, seq }), append };
}

/**
 * Streams are not in the order in which they were written, so a key that one stream released may be
 * another's by now. And a key that an earlier generation of this stream holds is its own.
 */
function keysOf(
  { claims = [], releases = [] }: Pick<Write, "claims" | "releases">,
  plan: StreamPlan | undefined,
): Required<Pick<Write, "claims" | "releases">> {
  const claimed = claims.filter(({ key }) => !plan?.freed.has(key));
  const released = releases.filter((key) => !plan?.kept.has(key));
  return { claims: claimed, releases: [...released, ...claimed.map(({ key }) => key)] };
}

interface StreamPlan {
  readonly gap: GenerationGap | null;
  /** Keys that the stream has released by the end of the file: the import does not claim them … */
  readonly freed: ReadonlySet<string>;
  /** … and does not release those that another generation of the stream holds in the store. */
  readonly kept: ReadonlySet<string>;
}

/** Generations that the store must live through before the stream's own. */
type GenerationGap = { readonly from: number; readonly to: number; readonly keys: readonly KeyAt[] };

const PAGE = 200;
/** The seq of keys from other generations: no stream has a call there that could seem to own them. */
const NO_CALL = 1;

async function planImport(
  targets: Targets,
  file: string,
  claims: ClaimedKey[],
): Promise<ReadonlyMap<string, StreamPlan>> {
  const plan = new Map<string, StreamPlan>();
  let journal: Journal | null = null;
  let current: StreamComparison | null = null;
  for await (const { line, content } of entriesOf(file)) {
    if ("namespace" in line) journal = targets.of(line.namespace);
    if (!journal) continue;
    if ("stream" in line) current = await StreamComparison.begin(journal, file, line);
    else if ("write" in line && current) {
      checkEvents(journal, current.stream, { ...line.write, payload: content ?? "" });
      await current.compare(line.write);
    } else if ("ends" in line && current) {
      const found = await current.plan(line);
      claims.push(...(await newClaims(journal, current.stream, line)));
      if (found.gap || found.freed.size > 0) plan.set(placeOf(journal, current.stream), found);
    } else if ("gone" in line) {
      const gap = await gapOfGone(journal, file, line);
      claims.push(...(await newClaims(journal, line.gone, { held: [], before: line.before })));
      if (gap) plan.set(placeOf(journal, line.gone), { gap, freed: new Set(), kept: new Set() });
    }
  }
  return plan;
}

async function newClaims(
  journal: Journal,
  stream: string,
  { held, before }: Pick<EndsLine, "held" | "before">,
): Promise<ClaimedKey[]> {
  const holders = await holdersOf(journal, [...held, ...before]);
  const { namespace } = journal;
  const claimed = (keys: readonly KeyAt[], hasCall: boolean): ClaimedKey[] =>
    unheld(keys, holders).map(([key]) => ({ namespace, stream, key, hasCall }));
  return [...claimed(before, false), ...claimed(held, true)];
}

class StreamComparison {
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

  static async begin(journal: Journal, file: string, line: StreamLine): Promise<StreamComparison> {
    await cleanRow(journal, line.stream);
    return new StreamComparison(journal, file, line, await readFrom(journal, line.stream, 0));
  }

  get stream(): string {
    return this.line.stream;
  }

  async compare(write: Omit<StoredWrite, "payload">): Promise<void> {
    const here = await this.next();
    if (!here) {
      this.hasNew = true;
      if (this.row.state === "hidden") throw refused(this.file, this.stream, "this store has removed it");
      return;
    }
    if (here.batch === write.batch && here.first === write.first && here.last === write.last) return;
    throw refused(this.file, this.stream, "this store has a different stream of that name");
  }

  async plan({ openCalls, held, freed, before }: EndsLine): Promise<StreamPlan> {
    const { stream, file } = this;
    const holders = await holdersOf(this.journal, [...held, ...freed, ...before]);
    const other =
      this.hasNew && held.map(([key]) => holders.get(key)).find((by) => by && by.stream !== stream);
    if (other) throw refused(file, stream, `in this store, ${other.stream} holds a key that it has claimed`);
    const kept = new Set(
      freed.map(([key]) => key).filter((key) => this.isOfOtherGeneration(holders.get(key), freed)),
    );
    const moved = [...kept].filter((key) => holders.get(key)?.seq !== NO_CALL);
    const keys = [...unheld(before, holders), ...moved.map((key) => [key, NO_CALL] as const)];
    const gap = this.gapBefore(keys, openCalls);
    return { gap, freed: new Set(freed.map(([key]) => key)), kept };
  }

  private isOfOtherGeneration(by: KeyRow | undefined, freed: readonly KeyAt[]): boolean {
    if (by?.stream !== this.stream) return false;
    return this.row.state === "gone" || !freed.some(([key, seq]) => key === by.key && seq === by.seq);
  }

  private gapBefore(keys: readonly KeyAt[], openCalls: number): GenerationGap | null {
    const { row, file, stream, line } = this;
    if (streamKind(stream) !== "session") return null;
    if (row.state !== "gone") {
      if (keys.length > 0)
        throw refused(file, stream, "this store lacks the keys of its earlier generations");
      return null;
    }
    const from = row.head.generation;
    const to = Math.max(from + Number(keys.length > 0), line.generation);
    if (to !== line.generation && openCalls > 0) {
      throw refused(file, stream, "this store has removed or erased it, and it has open calls in that file");
    }
    return keys.length > 0 ? { from, to, keys } : null;
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

async function gapOfGone(
  journal: Journal,
  file: string,
  { gone: stream, generation, before }: GoneLine,
): Promise<GenerationGap | null> {
  const row = await cleanRow(journal, stream);
  const keys = unheld(before, await holdersOf(journal, before));
  const here = row.head.generation;
  if (row.state !== "gone") {
    // Removing it here as well would give its name the generation after this one.
    if (keys.length === 0 && here + 1 >= generation) return null;
    throw refused(file, stream, "the file says that it was removed, but this store has it");
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

const STAND_IN = "import-of-a-removed-session-";

async function fillGap(journal: Journal, stream: string, { from, to, keys }: GenerationGap): Promise<void> {
  if (from >= to) return;
  const { store, namespace } = journal;
  await underLease(journal, stream, async (guards) => {
    const generation = to - 1;
    const write = { ...standIn(journal, stream, keys), guards };
    const id = `${STAND_IN}${journal.newId()}`;
    const expect = { generation, seq: 0 };
    const outcome = await store.append({ id, namespace, writes: [{ ...write, expect }] });
    if (outcome.outcome !== "ok") throw inUse(stream);
    const head = { generation, seq: write.count };
    const removal = await store.remove({ of: "stream", namespace, stream, expect: head, guards });
    if (removal.outcome !== "removed") throw inUse(stream);
  });
}

/** Waits as long as an import that was killed may still hold the lease. */
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

/** Removes a stream that exists only for its forks, as in the file. A stream with later writes stays. */
async function hide(journal: Journal, stream: string, head: Head): Promise<void> {
  if ((await journal.row(stream)).state !== "live") return;
  await underLease(journal, stream, async (guards) => {
    if ((await journal.remove(stream, { guards, head })) === "held") throw inUse(stream);
  });
}

/** The stream's row, after removing a stand-in that a killed import left. */
async function cleanRow(journal: Journal, stream: string): Promise<StreamRow> {
  const row = await journal.row(stream);
  if (!(await isStandIn(journal, row))) return row;
  const { store, namespace } = journal;
  await underLease(journal, stream, async (guards) => {
    const removal = await store.remove({ of: "stream", namespace, stream, expect: row.head, guards });
    if (removal.outcome !== "removed") throw inUse(stream);
  });
  return journal.row(stream);
}

async function isStandIn({ store, namespace }: Journal, row: StreamRow): Promise<boolean> {
  if (row.state !== "live" || row.base > 0) return false;
  const { writes } = await store.read({ namespace, stream: row.stream, after: 0, limit: 2 });
  return writes.length === 1 && writes[0]?.batch.startsWith(STAND_IN) === true;
}

/** A complete session that others can read, with enough events for the places of its keys. */
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

const RETRY = "Stop the processes that use it, then import again: the import continues where it stopped.";

function refused(file: string, stream: string, why: string): HoldfastError {
  return new HoldfastError("STREAM_EXISTS", `${stream} of ${file} cannot be imported: ${why}`, {
    hint: "Nothing was written. Import into a store of its own: --store ./other.db",
    data: { stream, why },
  });
}

function inUse(stream: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `${stream}: in use in this store while it is imported`, {
    hint: RETRY,
    data: { stream },
  });
}
