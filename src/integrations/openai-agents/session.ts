/**
 * The SDK's session on any Holdfast store.
 *
 * The items are a stream, `openai-agents/<session>`, with one kind of event: drop some items at the end, add
 * others. Each is one conditional append, so a crash leaves the list before or after it, and two writers
 * never lose each other's items.
 *
 * The items belong to one incarnation of their session: a session that was removed and made again starts
 * without them. They are removed with it (`Sessions.erase`, `.prune`). If that is interrupted, the
 * incarnation stored with them tells.
 */

import type {
  AgentInputItem,
  SessionHistoryMutation,
  SessionHistoryTransaction,
  SessionHistoryTransactionArgs,
  SessionHistoryTransactionAwareSession,
} from "@openai/agents";
import { protocol } from "@openai/agents";
import * as z from "zod";
import type { Journal, Log } from "../../journal/index.ts";
import { sha256 } from "../../model/digest.ts";
import { isHoldfastError } from "../../model/errors.ts";
import { canonicalText, copyJson, type Json, sameJson } from "../../model/json.ts";
import { quoteValue, streamId, streamName } from "../../model/names.ts";
import { event, type StreamKind } from "../../model/stream/index.ts";
import type { Holdfast } from "../../open.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import { refusal } from "../refusal.ts";
import { forkWithoutHistory, historyChanged, historyInvalid } from "./errors.ts";

/**
 * A conversation of the SDK on any store: a durable `MemorySession`, for the option `session` of `run()`. To
 * resume a whole program after a crash, use `durable(session).session` instead.
 * @example
 * const session = new HoldfastSession(await open("state.db"), "support-42");
 * await run(agent, "Where is my order?", { session });
 */
export class HoldfastSession implements SessionHistoryTransactionAwareSession {
  private readonly journal: Journal;
  private readonly id: string;
  /** Set by `durable`: the open session, which knows its own incarnation. */
  private readonly owner: Session | null;
  private log: Promise<Log<ItemState>> | null = null;
  private run: CurrentRun | null = null;
  // biome-ignore lint/correctness/noUnusedPrivateClassMembers: `conversationRuns` reads it.
  private readonly runs = {
    /** Begins a run. `before`: the number of items before it; null if unknown. */
    begin: (name: string, before: number | null): void => {
      this.run = { name, before, hasAdded: false, added: null };
    },
    /** Continues a run that the SDK restores in the middle, from a state of its own. */
    resume: (name: string): void => {
      this.run = { name, before: null, hasAdded: true, added: null };
    },
    countItems: async (): Promise<number> => (await this.load()).items.length,
    itemsOf: async (name: string): Promise<Json[]> =>
      (await this.load()).items.filter(({ run }) => run === name).map(({ item }) => item),
    checkHistory: (): Promise<void> => this.checkHistory(),
  };

  constructor(holdfast: Pick<Holdfast, "journal">, id: string, owner?: Session) {
    this.journal = holdfast.journal;
    this.id = id;
    this.owner = owner ?? null;
  }

  /** Returns the id that was passed to the constructor. */
  async getSessionId(): Promise<string> {
    return this.id;
  }

  /** Returns all items, or the latest `limit` of them, oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    const { items } = await this.load();
    const { run } = this;
    const visible = run && !run.hasAdded ? itemsBefore(items, run) : items;
    const wanted = limit === undefined ? visible : limit <= 0 ? [] : visible.slice(-limit);
    return wanted.map(({ item }) => structuredClone(item) as unknown as AgentInputItem);
  }

  /** Adds items at the end. */
  async addItems(items: AgentInputItem[]): Promise<void> {
    const added = items.map(storedItem);
    const { run } = this;
    if (!run) return this.change(({ items: all }) => ({ keep: all.length, add: added }));
    run.hasAdded = true;
    let offset = 0;
    await this.change(({ items: all }) => {
      offset = run.added ?? offsetInRun(all, run, added);
      return addToRun(all, run, offset, added);
    });
    run.added = offset + added.length;
  }

  /** Removes and returns the last item. */
  async popItem(): Promise<AgentInputItem | undefined> {
    let popped: Json | undefined;
    await this.change(({ items }) => {
      popped = items.at(-1)?.item;
      return popped === undefined ? null : { keep: items.length - 1, add: [] };
    });
    return structuredClone(popped) as unknown as AgentInputItem | undefined;
  }

  /** Removes all items, and the ids of applied transactions: each may be used again. */
  async clearSession(): Promise<void> {
    await this.change(({ items, operations }) =>
      items.length === 0 && operations.size === 0 ? null : { keep: 0, add: [], cleared: true },
    );
  }

  /** Replaces all items by the compacted ones. */
  async replaceHistoryWithCompaction(items: AgentInputItem[]): Promise<void> {
    const added = items.map(storedItem);
    await this.change(() => ({ keep: 0, add: added }));
  }

  /** Replaces stored tool calls that were corrected before their approval. A duplicate of one is dropped. */
  async applyHistoryMutations({ mutations }: { mutations: SessionHistoryMutation[] }): Promise<void> {
    const replacements = mutations.map(checkedMutation);
    await this.change(({ items }) => {
      const before = items.map(({ item }) => item);
      const next = replacements.reduce(replaceCall, before);
      const changed = before.findIndex((item, index) => !sameJson(item, next[index]));
      return changed < 0 ? null : { keep: changed, add: next.slice(changed) };
    });
  }

  /** Applies a named operation once: the same id again does nothing, until the session is cleared. */
  async applyHistoryTransaction(args: SessionHistoryTransactionArgs): Promise<void> {
    const { operationId, transaction } = checkedTransaction(args);
    const operation = { id: operationId, digest: sha256(canonicalText(stored(transaction))) };
    await this.change(({ items, operations }) => {
      const done = operations.get(operationId);
      if (done === operation.digest) return null;
      if (done !== undefined)
        throw historyChanged(this.id, `operation ${operationId} was used with other content`);
      if (transaction.type === "append_items")
        return { keep: items.length, add: transaction.items.map(stored), operation };
      const expected = transaction.expectedSuffix.map(stored);
      const keep = items.length - expected.length;
      const isThere = keep >= 0 && expected.every((item, index) => sameJson(item, items[keep + index]?.item));
      if (!isThere)
        throw historyChanged(this.id, "the items to be replaced are not at the end of the history");
      return { keep, add: transaction.replacement.map(stored), operation };
    });
  }

  /** Refuses a fork without items whose parent has some: forks do not share items. */
  private async checkHistory(): Promise<void> {
    if (!this.owner || !sessionCore(this.owner).state.forked || (await this.load()).life > 0) return;
    let { parent } = await this.journal.row(streamName("session", this.id));
    while (parent) {
      const from = streamId(parent.stream);
      const { state } = await this.journal.load(itemKind, from);
      if (state.items.length > 0) throw forkWithoutHistory(this.id, from);
      ({ parent } = await this.journal.row(parent.stream));
    }
  }

  /** Decides on the cached state. A refusal, or a change of nothing, is decided again on the stored state. */
  private async change(decide: (state: ItemState) => Change | null): Promise<void> {
    const log = await this.open();
    const { seq } = log.head;
    try {
      if (await this.commit(log, decide)) return;
    } catch (error) {
      if (!isHoldfastError(error, "STATE_STALE")) throw error;
      await log.refresh();
      if (log.head.seq === seq) throw error;
    }
    await log.refresh();
    if (log.head.seq !== seq) await this.commit(log, decide);
  }

  private async commit(log: Log<ItemState>, decide: (state: ItemState) => Change | null): Promise<boolean> {
    const run = this.run?.name ?? null;
    const life = await this.incarnation();
    const outcome = await log.commit((state) => {
      const current = stateIn(state, life, this.id);
      const change = decide(current);
      const { keep, add, operation, cleared } = change ?? { keep: current.items.length, add: [] };
      if (add.length === 0 && keep === current.items.length && !operation && !cleared)
        return { events: [], result: undefined };
      const data = { ...change, run, ...(life > 1 && { life }) };
      return { events: [{ type: "items.changed", data }], result: undefined };
    });
    return outcome.outcome === "ok" && outcome.appended;
  }

  private async load(): Promise<ItemState> {
    const log = await this.open();
    const life = await this.incarnation();
    return stateIn(await log.refresh(), life, this.id);
  }

  /** The number of this session among those of its name. After a removal, that of the next one. */
  private async incarnation(): Promise<number> {
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

export type ConversationRuns = HoldfastSession["runs"];

/** For `durable`: the items of a run are added once, however often it is resumed. */
export function conversationRuns(session: HoldfastSession): ConversationRuns {
  return session["runs"];
}

function stored(value: unknown): Json {
  return copyJson(value, "session item");
}

/** Also refuses what is no object, such as `42`: the next run would send it to the model. */
function storedItem(value: unknown): Json {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw historyInvalid(`item ${quoteValue(value)} is not an object`);
  return stored(value);
}

/** The same call may be stored twice: a run saved it again after an approval. One correction is for both. */
function replaceCall(items: Json[], { callId, replacement }: CheckedMutation): Json[] {
  const isCall = (item: Json): boolean => {
    const { type, callId: id } = item as { type?: Json; callId?: Json };
    return type === "function_call" && id === callId;
  };
  const first = items.findIndex(isCall);
  return items.flatMap((item, index) => (isCall(item) ? (index === first ? [replacement] : []) : [item]));
}

type CheckedMutation = { readonly callId: string; readonly replacement: Json };

function checkedMutation({ type, callId, replacement }: SessionHistoryMutation): CheckedMutation {
  const parsed = protocol.FunctionCallItem.safeParse(replacement);
  if (type !== "replace_function_call" || typeof callId !== "string" || !parsed.success)
    throw historyInvalid(`mutation ${quoteValue(type)} needs a callId and a function_call as replacement`);
  return { callId, replacement: stored(replacement) };
}

const item = z.custom<AgentInputItem>((value) => protocol.ModelItem.safeParse(value).success);
const transaction = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("append_items"), items: z.array(item) }),
  z.strictObject({
    type: z.literal("replace_suffix"),
    expectedSuffix: z.array(item),
    replacement: z.array(item),
  }),
]);

/** Checked before anything is stored: an operation whose id is taken could never be applied again. */
function checkedTransaction(args: unknown): { operationId: string; transaction: SessionHistoryTransaction } {
  const { operationId, transaction: given } = (args ?? {}) as Partial<SessionHistoryTransactionArgs>;
  if (typeof operationId !== "string" || operationId.trim() === "")
    throw historyInvalid(`transaction: operationId is ${quoteValue(operationId)} (a text that is not blank)`);
  const parsed = transaction.safeParse(given);
  if (parsed.success) return { operationId, transaction: parsed.data };
  const [problem] = parsed.error.issues;
  const path = problem?.path.length ? problem.path.join(".") : "transaction";
  throw historyInvalid(`transaction ${operationId}: ${path} is not what the SDK declares`);
}

type Change = Omit<ItemsChanged, "run" | "life">;

/**
 * A resumed run adds items that are stored already. If others have added items since it was killed, its
 * remaining items come after theirs, and theirs are not part of its history.
 */
interface CurrentRun {
  readonly name: string;
  readonly before: number | null;
  /** Until the run adds its first items, `getItems` returns the history before it. */
  hasAdded: boolean;
  /** The number of items that the run has added, stored before or not. */
  added: number | null;
}

function itemsBefore(all: readonly StoredItem[], { name, before }: CurrentRun): readonly StoredItem[] {
  const first = all.findIndex(({ run }) => run === name);
  return all.slice(0, before ?? (first < 0 ? all.length : first));
}

/** Index among the run's stored items. A run begins with its input; a restored one continues at the end. */
function offsetInRun(all: readonly StoredItem[], { name }: CurrentRun, [first]: readonly Json[]): number {
  const mine = all.filter(({ run }) => run === name);
  const known = mine.findIndex(({ item }) => sameJson(item, first));
  if (known >= 0) return known;
  return (first as { role?: Json } | undefined)?.role === "user" ? 0 : mine.length;
}

/** New items win over stored ones that differ, unless others have added items since. */
function addToRun(
  all: readonly StoredItem[],
  { name }: CurrentRun,
  offset: number,
  added: readonly Json[],
): Change | null {
  const mine = all.flatMap(({ run, item }, at) => (run === name ? [{ item, at }] : []));
  let same = 0;
  while (same < added.length && sameJson(mine[offset + same]?.item, added[same])) same += 1;
  if (same === added.length) return null;
  const other = mine[offset + same];
  const add = added.slice(same);
  if (!other) return { keep: all.length, add };
  return all.slice(other.at).every(({ run }) => run === name) ? { keep: other.at, add } : null;
}

interface StoredItem {
  /** The run that added it; null without `durable`. */
  readonly run: string | null;
  readonly item: Json;
}

interface ItemState {
  /** The incarnation of the session that the items belong to. 0 before the first write. */
  life: number;
  readonly items: StoredItem[];
  readonly operations: Map<string, string>;
}

const itemsChanged = z.strictObject({
  /** The number of items that stay. */
  keep: z.int().check(z.nonnegative()),
  add: z.array(z.json() as unknown as z.ZodType<Json>),
  run: z.nullable(z.string()),
  operation: z.optional(z.strictObject({ id: z.string(), digest: z.string() })),
  /** The operations before it are forgotten. */
  cleared: z.optional(z.literal(true)),
  /** The incarnation; absent for the first. */
  life: z.optional(z.int().check(z.positive())),
});

type ItemsChanged = z.infer<typeof itemsChanged>;

function applyChanged(state: ItemState, data: ItemsChanged): void {
  const { keep, add, run, operation, cleared, life = 1 } = data;
  if (life !== state.life) {
    state.items.splice(0);
    state.operations.clear();
    state.life = life;
  }
  if (cleared) state.operations.clear();
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
    const { life, items, operations } = json as unknown as ItemState & { operations: [string, string][] };
    return { life, items: [...items], operations: new Map(operations) };
  },
  facets: (state) => (state.items.length === 0 ? { facets: { status: "active" } } : {}),
};

/** The state for one incarnation of the session. Throws if a later incarnation has written. */
function stateIn(state: ItemState, life: number, session: string): ItemState {
  if (state.life === life) return state;
  if (state.life < life) return itemKind.initial();
  throw refusal(
    "STATE_STALE",
    `session ${session} was removed, and another session has its name now`,
    "Open the session again: it starts empty. Nothing was changed.",
    { session },
  );
}
