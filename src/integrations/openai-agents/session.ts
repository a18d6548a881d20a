/**
 * The memory of an OpenAI Agents conversation on any Holdfast store: a `Session` of the SDK, with everything that its
 * interface has since 0.20: compaction, corrected calls, and changes that are named so that a retry does nothing.
 */

import type {
  AgentInputItem,
  SessionHistoryMutation,
  SessionHistoryTransactionArgs,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents";
import * as z from "zod";
import type { Journal, Log } from "../../journal/index.ts";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import { canonicalText, copyJson, type Json, sameJson } from "../../model/json.ts";
import { streamId, streamName } from "../../model/names.ts";
import { event, type StreamKind } from "../../model/stream/index.ts";
import type { Holdfast } from "../../open.ts";
import { type Session, sessionCore } from "../../session/index.ts";

/**
 * Where the items of a run stand among those of the conversation. A run that is resumed adds what it added before, and that is
 * there. It may have been killed, and others may have spoken since: what it did not come to add comes after theirs, and
 * theirs are not its past.
 */

/**
 * The items of an OpenAI Agents session as a stream, `openai-agents/<session>`. There is one event: some items at the end go,
 * others come. Adding keeps all, `popItem` keeps all but the last, clearing keeps none. Each is one conditional append,
 * so a crash leaves the list before or the list after, and two writers never lose an item of the other.
 *
 * The items belong to one life of their session: a session that was removed and made again has none of those before it. They
 * are removed with it (`Sessions.erase`, `.prune`), and should that be cut off, the life that stands with them tells.
 */

interface StoredItem {
  /** The run that added it, of those that are resumed as one; null if nobody said. */
  readonly run: string | null;
  readonly item: Json;
}

interface ItemState {
  /** Of the session whose items these are: which of that name. 0 where nothing was written yet. */
  life: number;
  readonly items: StoredItem[];
  /** What each named operation did, so that it is not done twice. */
  readonly operations: Map<string, string>;
}

interface ItemsChanged {
  /** How many of the items that are there stay. */
  readonly keep: number;
  readonly add: readonly Json[];
  readonly run: string | null;
  readonly operation?: { readonly id: string; readonly digest: string };
  /** Absent for the first. */
  readonly life?: number;
}

const itemsChanged = z.strictObject({
  keep: z.int().check(z.nonnegative()),
  add: z.array(z.json()),
  run: z.nullable(z.string()),
  operation: z.optional(z.strictObject({ id: z.string(), digest: z.string() })),
  life: z.optional(z.int().check(z.positive())),
}) as unknown as z.ZodType<ItemsChanged>;

function applyChanged(state: ItemState, { keep, add, run, operation, life = 1 }: ItemsChanged): void {
  if (life !== state.life) {
    state.items.splice(0);
    state.operations.clear();
    state.life = life;
  }
  state.items.splice(keep);
  for (const item of add) state.items.push({ run, item });
  if (operation) state.operations.set(operation.id, operation.digest);
}

const itemKind: StreamKind<ItemState> = {
  kind: "openai-agents",
  foldVersion: 2,
  events: { "items.changed": event(1, itemsChanged, applyChanged) },
  initial: () => ({ life: 0, items: [], operations: new Map() }),
  encode: ({ life, items, operations }) => ({ life, items, operations: [...operations] }) as unknown as Json,
  decode: (json) => {
    const { life, items, operations } = json as unknown as {
      life: number;
      items: StoredItem[];
      operations: [string, string][];
    };
    return { life, items: [...items], operations: new Map(operations) };
  },
  facets: (state) => (state.items.length === 0 ? { facets: { status: "active" } } : {}),
};

/** What is there for one life of the session. One that was removed, and has a successor, is told. */
function stateIn(state: ItemState, life: number, session: string): ItemState {
  if (state.life === life) return state;
  if (state.life < life) return itemKind.initial();
  throw new HoldfastError("STATE_STALE", `session ${session} was removed, and another has its name now`, {
    hint: "Nothing was changed. Open the session again: it begins anew.",
    data: { session },
  });
}

type Change = Omit<ItemsChanged, "run" | "life">;

/** A run that is resumed as one: what it added before it was killed is not its own past. */
interface RunUnderWay {
  readonly name: string;
  /** How many items there were when it first began; null where nobody has noted that. */
  readonly before: number | null;
  /** Until it adds something, it asks for what was there before it. */
  isBeginning: boolean;
  /** How many items it has added, of those that are stored perhaps; null before it has added any. */
  added: number | null;
}

function pastOf(all: readonly StoredItem[], { name, before }: RunUnderWay): readonly StoredItem[] {
  const first = all.findIndex(({ run }) => run === name);
  return all.slice(0, before ?? (first < 0 ? all.length : first));
}

/**
 * Which of the run's items the first of these is. A run begins with its input; one that the SDK goes on with from its own
 * state begins behind what it had added by then.
 */
function beginningOf(all: readonly StoredItem[], { name }: RunUnderWay, [first]: readonly Json[]): number {
  const mine = all.filter(({ run }) => run === name);
  const known = mine.findIndex(({ item }) => sameJson(item, first));
  if (known >= 0) return known;
  return (first as { role?: Json } | undefined)?.role === "user" ? 0 : mine.length;
}

/** Where what is stored differs, what the run says now counts, unless others have spoken since. */
function changeOfRun(
  all: readonly StoredItem[],
  { name }: RunUnderWay,
  from: number,
  added: readonly Json[],
): Change | null {
  const mine = all.flatMap(({ run, item }, at) => (run === name ? [{ item, at }] : []));
  let same = 0;
  while (same < added.length && sameJson(mine[from + same]?.item, added[same])) same += 1;
  if (same === added.length) return null;
  const other = mine[from + same];
  const add = added.slice(same);
  if (!other) return { keep: all.length, add };
  return all.slice(other.at).every(({ run }) => run === name) ? { keep: other.at, add } : null;
}

/**
 * A conversation of the SDK on any store: a durable `MemorySession`, for `run()`'s option `session`. Of a program that should be
 * resumed as a whole, take `durable(session).session` instead.
 */
export class HoldfastSession implements SessionHistoryTransactionAwareSession {
  private readonly journal: Journal;
  private readonly id: string;
  /** For `durable`: the session that is held, and so in the life that it is. */
  private readonly owner: Session | null;
  private log: Promise<Log<ItemState>> | null = null;
  private run: RunUnderWay | null = null;

  constructor(holdfast: Pick<Holdfast, "journal">, id: string, owner?: Session) {
    this.journal = holdfast.journal;
    this.id = id;
    this.owner = owner ?? null;
  }

  async getSessionId(): Promise<string> {
    return this.id;
  }

  /** All items, or the latest `limit` of them, the oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    const { items } = await this.now();
    const { run } = this;
    const seen = run?.isBeginning ? pastOf(items, run) : items;
    const wanted = limit === undefined ? seen : limit <= 0 ? [] : seen.slice(-limit);
    return wanted.map(({ item }) => structuredClone(item) as unknown as AgentInputItem);
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    const added = items.map(stored);
    const { run } = this;
    if (!run) return this.change(({ items: all }) => ({ keep: all.length, add: added }));
    run.isBeginning = false;
    let from = 0;
    await this.change(({ items: all }) => {
      from = run.added ?? beginningOf(all, run, added);
      return changeOfRun(all, run, from, added);
    });
    run.added = from + added.length;
  }

  async popItem(): Promise<AgentInputItem | undefined> {
    let popped: Json | undefined;
    await this.change(({ items }) => {
      popped = items.at(-1)?.item;
      return popped === undefined ? null : { keep: items.length - 1, add: [] };
    });
    return structuredClone(popped) as unknown as AgentInputItem | undefined;
  }

  async clearSession(): Promise<void> {
    await this.change(({ items }) => (items.length === 0 ? null : { keep: 0, add: [] }));
  }

  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const added = items.map(stored);
    await this.change(() => ({ keep: 0, add: added }));
  }

  /** A tool call that was corrected before it was approved replaces the one that is stored. */
  async applyHistoryMutations({ mutations }: { mutations: SessionHistoryMutation[] }): Promise<void> {
    await this.change(({ items }) => {
      const next = items.map(({ item }) => corrected(item, mutations));
      const first = next.findIndex((item, index) => item !== items[index]?.item);
      return first < 0 ? null : { keep: first, add: next.slice(first) };
    });
  }

  async applyHistoryTransaction({ operationId, transaction }: SessionHistoryTransactionArgs): Promise<void> {
    const digest = sha256(canonicalText(stored(transaction)));
    const operation = { id: operationId, digest };
    await this.change(({ items, operations }) => {
      const done = operations.get(operationId);
      if (done === digest) return null;
      if (done !== undefined) throw refused(this.id, `operation ${operationId} was another one before`);
      if (transaction.type === "append_items")
        return { keep: items.length, add: transaction.items.map(stored), operation };
      const expected = transaction.expectedSuffix.map(stored);
      const keep = items.length - expected.length;
      const isThere = keep >= 0 && expected.every((item, index) => sameJson(item, items[keep + index]?.item));
      if (!isThere)
        throw refused(this.id, "the items that were to be replaced are not at the end of the history");
      return { keep, add: transaction.replacement.map(stored), operation };
    });
  }

  /** For `durable`: what the run has added before, in this process or one that was killed, is not added again. */
  beginRun(name: string, before: number | null): void {
    this.run = { name, before, isBeginning: true, added: null };
  }

  /** For `durable`: the same for a run that the SDK takes up in the middle, from a state of its own. */
  goOnWith(name: string): void {
    this.run = { name, before: null, isBeginning: false, added: null };
  }

  /** For `durable`: how many items there are. */
  async count(): Promise<number> {
    return (await this.now()).items.length;
  }

  /** For `durable`: what a run has added. */
  async addedBy(name: string): Promise<Json[]> {
    return (await this.now()).items.filter(({ run }) => run === name).map(({ item }) => item);
  }

  /** For `durable`: items are not shared with forks, and a fork that forgets what was said must not go on unnoticed. */
  async mustHavePast(): Promise<void> {
    if (!this.owner || !sessionCore(this.owner).state.forked || (await this.now()).life > 0) return;
    let { parent } = await this.journal.row(streamName("session", this.id));
    while (parent) {
      const from = streamId(parent.stream);
      const { state } = await this.journal.load(itemKind, from);
      if (state.items.length > 0) throw hasNoPast(this.id, from);
      ({ parent } = await this.journal.row(parent.stream));
    }
  }

  /** What is refused, or is nothing to do, is so by what is stored now and not by what this handle last saw. */
  private async change(decide: (state: ItemState) => Change | null): Promise<void> {
    const log = await this.open();
    const { seq } = log.head;
    try {
      if (await this.changed(log, decide)) return;
    } catch (error) {
      if (!isHoldfastError(error, "STATE_STALE")) throw error;
      await log.refresh();
      if (log.head.seq === seq) throw error;
    }
    await log.refresh();
    if (log.head.seq !== seq) await this.changed(log, decide);
  }

  /** Whether anything was written. */
  private async changed(log: Log<ItemState>, decide: (state: ItemState) => Change | null): Promise<boolean> {
    const run = this.run?.name ?? null;
    const life = await this.life();
    const outcome = await log.commit((state) => {
      const now = stateIn(state, life, this.id);
      const change = decide(now);
      const changesNothing =
        change === null || (change.add.length === 0 && change.keep === now.items.length && !change.operation);
      if (changesNothing) return { events: [], result: undefined };
      const data = { ...change, run, ...(life > 1 && { life }) };
      return { events: [{ type: "items.changed", data }], result: undefined };
    });
    return outcome.outcome === "ok" && outcome.appended;
  }

  private async now(): Promise<ItemState> {
    const log = await this.open();
    const life = await this.life();
    return stateIn(await log.refresh(), life, this.id);
  }

  /** Which session of this name it is; of one that was removed, and is not there again yet: the next. */
  private async life(): Promise<number> {
    if (this.owner) return sessionCore(this.owner).own.log.head.generation;
    return (await this.journal.row(streamName("session", this.id))).head.generation;
  }

  private open(): Promise<Log<ItemState>> {
    this.log ??= this.journal.open(itemKind, this.id);
    this.log.catch(() => {
      this.log = null;
    });
    return this.log;
  }
}

function stored(value: unknown): Json {
  return copyJson(value, "session item");
}

function corrected(item: Json, mutations: readonly SessionHistoryMutation[]): Json {
  const { type, callId } = item as { type?: Json; callId?: Json };
  if (type !== "function_call") return item;
  const mutation = mutations.findLast((each) => each.callId === callId);
  return mutation ? stored(mutation.replacement) : item;
}

function refused(id: string, problem: string): HoldfastError {
  return new HoldfastError("STATE_STALE", `session ${id}: ${problem}; nothing was changed`, {
    hint: "Read the items again and decide again.",
    data: { session: id },
  });
}

function hasNoPast(id: string, from: string): HoldfastError {
  return new HoldfastError(
    "INPUT_INVALID",
    `session ${id} is a fork of ${from}, whose conversation (d.session) it does not have: nothing was asked`,
    {
      hint: `Give it what it should have, once, before d.input: d.session.addItems(await new HoldfastSession(holdfast, ${JSON.stringify(from)}).getItems()), up to where it should go on.`,
      data: { session: id, from },
    },
  );
}
