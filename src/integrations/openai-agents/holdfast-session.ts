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
import type { Journal, Log } from "../../journal/index.ts";
import {
  canonicalText,
  copyJson,
  HoldfastError,
  isHoldfastError,
  type Json,
  sameJson,
  sha256,
} from "../../model/index.ts";
import type { Holdfast } from "../../open.ts";
import { type ItemState, type ItemsChanged, itemKind, type StoredItem } from "./item-log.ts";

type Change = Omit<ItemsChanged, "run">;

/** A run that is resumed as one: what it added before it was killed is not its own past. */
interface RunUnderWay {
  readonly name: string;
  /** Until it adds something, it asks for what was there before it. */
  isBeginning: boolean;
  /** How many items it has added, of those that are stored perhaps. */
  added: number;
}

/**
 * A conversation of the SDK on any store: a durable `MemorySession`, for `run()`'s option `session`. Of a program that should be
 * resumed as a whole, take `durable(session).session` instead.
 */
export class HoldfastSession implements SessionHistoryTransactionAwareSession {
  private readonly journal: Journal;
  private readonly id: string;
  private log: Promise<Log<ItemState>> | null = null;
  private run: RunUnderWay | null = null;

  constructor(holdfast: Pick<Holdfast, "journal">, id: string) {
    this.journal = holdfast.journal;
    this.id = id;
  }

  async getSessionId(): Promise<string> {
    return this.id;
  }

  /** All items, or the latest `limit` of them, the oldest first. */
  async getItems(limit?: number): Promise<AgentInputItem[]> {
    const { items } = await (await this.open()).refresh();
    const { run } = this;
    const begun = run?.isBeginning ? items.findIndex((each) => each.run === run.name) : -1;
    const seen = begun < 0 ? items : items.slice(0, begun);
    const wanted = limit === undefined ? seen : limit <= 0 ? [] : seen.slice(-limit);
    return wanted.map(({ item }) => structuredClone(item) as unknown as AgentInputItem);
  }

  async addItems(items: AgentInputItem[]): Promise<void> {
    const added = items.map(stored);
    const { run } = this;
    if (!run) return this.change(({ items: all }) => ({ keep: all.length, add: added }));
    run.isBeginning = false;
    await this.change(({ items: all }) => changeOfRun(all, run, added));
    run.added += added.length;
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
  beginRun(name: string): void {
    this.run = { name, isBeginning: true, added: 0 };
  }

  /** For `durable`: whether the run has added more than what the user said, which the SDK does at its end. */
  async hasAdded(name: string, more: number): Promise<boolean> {
    const { items } = await (await this.open()).refresh();
    return items.filter((each) => each.run === name).length > more;
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
    const outcome = await log.commit((state) => {
      const change = decide(state);
      const changesNothing =
        change === null ||
        (change.add.length === 0 && change.keep === state.items.length && !change.operation);
      if (changesNothing) return { events: [], result: undefined };
      return { events: [{ type: "items.changed", data: { ...change, run } }], result: undefined };
    });
    return outcome.outcome === "ok" && outcome.appended;
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

/** A resumed run adds what it added before: that is there. Where it differs, what it says now counts. */
function changeOfRun(all: readonly StoredItem[], run: RunUnderWay, added: readonly Json[]): Change | null {
  const first = all.findIndex((each) => each.run === run.name);
  if (first < 0) return { keep: all.length, add: [...added] };
  const last = all.findLastIndex((each) => each.run === run.name);
  // Others have spoken since: this run was finished, and is only told again.
  if (last !== all.length - 1) return null;
  const from = first + run.added;
  let same = 0;
  while (same < added.length && sameJson(all[from + same]?.item, added[same])) same += 1;
  if (same === added.length) return null;
  return { keep: from + same, add: added.slice(same) };
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
