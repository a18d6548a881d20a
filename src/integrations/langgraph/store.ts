/**
 * LangGraph's long-term memory (`BaseStore`) on any Holdfast store.
 *
 * A namespace, such as `["users", "ann"]`, is one stream, `langgraph-store/sha256.<hash>`. All puts and
 * deletes of a batch that touch it are one conditional append: after a crash all of them are there, or none.
 * A batch over several namespaces is not atomic, like those of LangGraph's own stores.
 *
 * The title of the stream is the namespace as JSON while it has items, and null after its last item was
 * deleted. Thus namespaces are listed, and a search finds its streams, without reading any items.
 */

import type {
  Item,
  ListNamespacesOperation,
  MatchCondition,
  Operation,
  OperationResults,
  PutOperation,
  SearchItem,
  SearchOperation,
} from "@langchain/langgraph-checkpoint";
import { BaseStore } from "@langchain/langgraph-checkpoint";
import * as z from "zod";
import { everyStream, type Journal, type Log } from "../../journal/index.ts";
import { sha256 } from "../../model/digest.ts";
import type { Json } from "../../model/json.ts";
import { quoteValue, streamName } from "../../model/names.ts";
import {
  type Draft,
  type Event,
  event,
  type FacetChange,
  type StreamKind,
} from "../../model/stream/index.ts";
import type { Holdfast } from "../../open.ts";
import { refusal } from "../refusal.ts";
import { ExactSerializer } from "./serializer.ts";
import { storedPart } from "./thread-state.ts";
import { type Part, ValueCodec } from "./values.ts";

const LOGS_IN_MEMORY = 100;
const SEARCH_LIMIT = 10;

/**
 * LangGraph's long-term memory on a Holdfast store: durable when `put` resolves, shared by all threads and
 * processes. Values come back exactly as they were. There is no vector search: `query` is ignored, as by an
 * `InMemoryStore` without `index`.
 * @example
 * const holdfast = await open("state.db");
 * const graph = builder.compile({
 *   checkpointer: new HoldfastSaver(holdfast),
 *   store: new HoldfastStore(holdfast),
 * });
 */
export class HoldfastStore extends BaseStore {
  private readonly journal: Journal;
  private readonly codec = new ValueCodec(new ExactSerializer());
  /** The namespaces used last. Another one is read from the store again. */
  private readonly logs = new Map<string, Promise<Log<Memory>>>();

  constructor(holdfast: Pick<Holdfast, "journal">) {
    super();
    this.journal = holdfast.journal;
  }

  /** Reads see the state before the batch; of two puts to one key the last wins. Like LangGraph's own. */
  async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const puts = operations.filter((operation) => "value" in operation);
    const drafts = await this.draftPuts(puts);
    const results: unknown[] = [];
    for (const operation of operations) {
      if ("value" in operation) results.push(undefined);
      else if ("namespacePrefix" in operation) results.push(await this.find(operation));
      else if ("key" in operation) results.push(await this.read(operation.namespace, operation.key));
      else results.push(await this.list(operation));
    }
    await Promise.all([...drafts].map(([id, changes]) => this.commit(id, changes)));
    return results as OperationResults<Op>;
  }

  /**
   * Removes the items of a namespace, and of all below it, with their history. `delete` leaves old values in
   * the log. Returns how many namespaces were removed.
   * @example await store.erase(["users", "ann"]);
   */
  async erase(namespacePrefix: string[]): Promise<number> {
    let erased = 0;
    const request = { kind: memoryKind.kind };
    for await (const { stream, facets } of everyStream(this.journal, request)) {
      const { state } = await this.journal.load(memoryKind, idOfStream(stream));
      const namespace = state.namespace ?? namespaceOf(facets.title);
      if (!namespace || !startsWith(namespace, namespacePrefix)) continue;
      await this.journal.remove(stream);
      this.logs.delete(idOfStream(stream));
      erased += 1;
    }
    return erased;
  }

  /** Encodes before the first write, so that a value which cannot be stored changes nothing. */
  private async draftPuts(puts: readonly PutOperation[]): Promise<Map<string, Change[]>> {
    const drafts = new Map<string, Map<string, Change>>();
    for (const { namespace, key, value } of puts) {
      checkPlace(namespace, key);
      const isObject = typeof value === "object" && !Array.isArray(value);
      if (!isObject) throw invalid(`value of ${JSON.stringify(key)} is ${quoteValue(value)}, not an object`);
      const part = value === null ? null : await this.codec.encode(value, `value of ${key}`);
      const id = idOf(namespace);
      const changes = drafts.get(id) ?? new Map<string, Change>();
      // The last put to a key is also the last in order.
      changes.delete(key);
      drafts.set(id, changes.set(key, { namespace: [...namespace], key, part }));
    }
    return new Map([...drafts].map(([id, changes]) => [id, [...changes.values()]]));
  }

  private async commit(id: string, changes: readonly Change[]): Promise<void> {
    const log = await this.log(id);
    const decide = (state: Memory) => {
      const events = changes.flatMap((change) => draftOf(state, change));
      return { events, result: undefined };
    };
    const isDelete = changes.every(({ part }) => part === null);
    // A cached state may lack what another process has put: a delete would then do nothing.
    if (isDelete) await log.refresh();
    await log.commit(decide);
  }

  private async read(namespace: string[], key: string): Promise<Item | null> {
    checkPlace(namespace, key);
    const log = await this.log(idOf(namespace));
    const state = await log.refresh();
    const stored = state.items.get(key);
    return stored ? this.itemOf(namespace, key, stored) : null;
  }

  private async find({ namespacePrefix, filter, limit, offset }: SearchOperation): Promise<SearchItem[]> {
    const found: [createdAt: number, SearchItem][] = [];
    const conditions = Object.entries(filter ?? {});
    for (const namespace of await this.namespaces()) {
      if (!startsWith(namespace, namespacePrefix)) continue;
      const { state } = await this.journal.load(memoryKind, idOf(namespace));
      for (const [key, stored] of state.items) {
        const item = await this.itemOf(namespace, key, stored);
        if (conditions.every(([name, wanted]) => matches(item.value[name], wanted)))
          found.push([stored.createdAt, item]);
      }
    }
    const first = offset ?? 0;
    const inOrder = found.sort(([one], [other]) => one - other).map(([, item]) => item);
    return inOrder.slice(first, first + (limit ?? SEARCH_LIMIT));
  }

  private async list(operation: ListNamespacesOperation): Promise<string[][]> {
    const { matchConditions = [], maxDepth, limit, offset = 0 } = operation;
    const wanted = (await this.namespaces()).filter((namespace) =>
      matchConditions.every((condition) => doesMatch(namespace, condition)),
    );
    const cut = wanted.map((namespace) => JSON.stringify(namespace.slice(0, maxDepth)));
    const unique = [...new Set(cut)].map((text) => JSON.parse(text) as string[]).sort(byLabels);
    return unique.slice(offset, limit === undefined ? undefined : offset + limit);
  }

  /** Namespaces that have items, sorted. */
  private async namespaces(): Promise<string[][]> {
    const found: string[][] = [];
    for await (const { facets } of everyStream(this.journal, { kind: memoryKind.kind })) {
      const namespace = namespaceOf(facets.title);
      if (namespace) found.push(namespace);
    }
    return found.sort(byLabels);
  }

  private async itemOf(namespace: readonly string[], key: string, stored: StoredItem): Promise<Item> {
    const value = (await this.codec.decode(stored.part)) as Item["value"];
    const { createdAt, updatedAt } = stored;
    const dates = { createdAt: new Date(createdAt), updatedAt: new Date(updatedAt) };
    return { value, key, namespace: [...namespace], ...dates };
  }

  private log(id: string): Promise<Log<Memory>> {
    const log = this.logs.get(id) ?? this.journal.open(memoryKind, id);
    this.logs.delete(id);
    this.logs.set(id, log);
    log.catch(() => this.logs.delete(id));
    for (const [oldest] of this.logs) {
      if (this.logs.size <= LOGS_IN_MEMORY) break;
      this.logs.delete(oldest);
    }
    return log;
  }
}

// The stream of a namespace.

interface StoredItem {
  readonly part: Part;
  readonly createdAt: number;
  readonly updatedAt: number;
}

interface Memory {
  namespace: readonly string[] | null;
  readonly items: Map<string, StoredItem>;
}

interface Change {
  readonly namespace: readonly string[];
  readonly key: string;
  /** Null deletes the item. */
  readonly part: Part | null;
}

const itemPut = z.strictObject({ namespace: z.array(z.string()), key: z.string(), part: storedPart });
const itemDeleted = z.strictObject({ key: z.string() });

const memoryKind: StreamKind<Memory> = {
  kind: "langgraph-store",
  foldVersion: 1,
  events: {
    "item.put": event(1, itemPut, (state: Memory, { namespace, key, part }, { at }) => {
      state.namespace = namespace;
      state.items.set(key, { part, createdAt: state.items.get(key)?.createdAt ?? at, updatedAt: at });
    }),
    "item.deleted": event(1, itemDeleted, (state: Memory, { key }) => void state.items.delete(key)),
  },
  initial: () => ({ namespace: null, items: new Map() }),
  encode: ({ namespace, items }) => ({ namespace, items: [...items] }) as unknown as Json,
  decode: (json) => {
    const { namespace, items } = json as unknown as Memory & { items: [string, StoredItem][] };
    return { namespace, items: new Map(items) };
  },
  shrinking: ["item.deleted"],
  facets,
};

function facets(state: Memory, events: readonly Event[]): FacetChange {
  const keys = new Set(state.items.keys());
  let { namespace } = state;
  for (const { type, data } of events) {
    const { key, namespace: named } = data as unknown as { key: string; namespace?: string[] };
    if (type === "item.put") keys.add(key);
    else keys.delete(key);
    namespace = named ?? namespace;
  }
  return { facets: { title: keys.size > 0 ? JSON.stringify(namespace) : null, status: "active" } };
}

function draftOf(state: Memory, { namespace, key, part }: Change): Draft[] {
  if (part !== null) return [{ type: "item.put", data: { namespace, key, part } as unknown as Json }];
  return state.items.has(key) ? [{ type: "item.deleted", data: { key } }] : [];
}

/** Labels may be any text, so the id is a hash of the JSON text. */
function idOf(namespace: readonly string[]): string {
  return `sha256.${sha256(JSON.stringify(namespace))}`;
}

function idOfStream(stream: string): string {
  return stream.slice(streamName(memoryKind.kind, "x").length - 1);
}

function namespaceOf(title: string | null): string[] | null {
  return title === null ? null : (JSON.parse(title) as string[]);
}

// LangGraph's rules.

function checkPlace(namespace: unknown, key: unknown): void {
  const isLabels = Array.isArray(namespace) && namespace.every((label) => typeof label === "string" && label);
  if (!isLabels || namespace.length === 0)
    throw invalid(`namespace is ${quoteValue(namespace)}, not a list of labels`);
  if (typeof key !== "string") throw invalid(`key is ${quoteValue(key)}, not a text`);
}

function invalid(problem: string): Error {
  const hint = 'Pass them like store.put(["users", "ann"], "diet", { vegan: true }). Nothing was changed.';
  return refusal("INPUT_INVALID", `memory: ${problem}`, hint);
}

function startsWith(namespace: readonly string[], prefix: readonly string[]): boolean {
  return prefix.every((label, index) => namespace[index] === label);
}

function doesMatch(namespace: readonly string[], { matchType, path }: MatchCondition): boolean {
  const from = matchType === "prefix" ? 0 : namespace.length - path.length;
  if (path.length > namespace.length) return false;
  return path.every((label, index) => label === "*" || namespace[from + index] === label);
}

function byLabels(one: readonly string[], other: readonly string[]): number {
  for (let index = 0; index < Math.max(one.length, other.length); index++) {
    const [left, right] = [one[index] ?? "", other[index] ?? ""];
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

const OPERATORS: { readonly [name: string]: (value: unknown, wanted: unknown) => boolean } = {
  $eq: (value, wanted) => value === wanted,
  $ne: (value, wanted) => value !== wanted,
  $gt: (value, wanted) => Number(value) > Number(wanted),
  $gte: (value, wanted) => Number(value) >= Number(wanted),
  $lt: (value, wanted) => Number(value) < Number(wanted),
  $lte: (value, wanted) => Number(value) <= Number(wanted),
  $in: (value, wanted) => Array.isArray(wanted) && wanted.includes(value),
  $nin: (value, wanted) => !Array.isArray(wanted) || !wanted.includes(value),
};

/** `{ score: { $gte: 3 } }`, or the very value. */
function matches(value: unknown, wanted: unknown): boolean {
  const names = typeof wanted === "object" && wanted !== null ? Object.keys(wanted) : [];
  const isOperators = typeof wanted === "object" && names.every((name) => Object.hasOwn(OPERATORS, name));
  if (!isOperators || wanted === null) return value === wanted;
  return names.every((name) => OPERATORS[name]?.(value, wanted[name as never]));
}
