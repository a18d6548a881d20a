// LangGraph's long-term memory on every store, compared with LangGraph's own InMemoryStore.

import { Annotation, END, type LangGraphRunnableConfig, START, StateGraph } from "@langchain/langgraph";
import { type BaseStore, InMemoryStore } from "@langchain/langgraph-checkpoint";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import { HoldfastSaver, HoldfastStore } from "../../../src/integrations/langgraph/index.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { storeSubjects } from "../../subjects.ts";

/** Without the dates, which differ. */
const shown = (items: readonly ({ namespace: string[]; key: string; value: object } | null)[]) =>
  items.map((item) => item && { namespace: item.namespace, key: item.key, value: item.value });

/** What a store answers to a life of puts, deletes, searches and lists. */
async function life(store: BaseStore) {
  const answers: unknown[] = [];
  await store.put(["users", "ann"], "diet", { vegan: true, rank: 1 });
  await store.put(["users", "ann"], "city", { name: "Rome", rank: 2 });
  await store.put(["users", "bob", "v1"], "diet", { vegan: false, rank: 3 });
  await store.put(["docs", "v1"], "a", { rank: 4, tags: ["x"] });
  await store.put(["users", "ann"], "diet", { vegan: "mostly", rank: 1 });
  answers.push(shown([await store.get(["users", "ann"], "diet"), await store.get(["users"], "diet")]));
  answers.push(shown(await store.search(["users"])));
  answers.push(shown(await store.search([], { filter: { rank: { $gt: 1, $lte: 3 } } })));
  answers.push(shown(await store.search([], { filter: { rank: { $in: [1, 4] }, vegan: { $ne: 1 } } })));
  answers.push(shown(await store.search(["users"], { filter: { vegan: false } })));
  answers.push(shown(await store.search(["users"], { limit: 1, offset: 1, query: "ignored" })));
  const batch: unknown[] = await store.batch([
    { namespace: ["users", "ann"], key: "diet" },
    { namespace: ["users", "ann"], key: "city", value: { name: "Oslo" } },
    { namespace: ["users", "ann"], key: "city", value: { name: "Bern" } },
    { namespacePrefix: ["users", "ann"] },
    { matchConditions: [{ matchType: "prefix", path: ["users", "*"] }], limit: 9, offset: 0 },
  ]);
  answers.push(shown([batch[0] as never]), shown(batch[3] as never), batch[4]);
  await store.delete(["docs", "v1"], "none");
  await store.delete(["users", "ann"], "diet");
  answers.push(shown(await store.search(["users", "ann"])));
  answers.push(await store.batch([{ matchConditions: [], limit: 9, offset: 0 }]));
  answers.push(
    await store.batch([
      { matchConditions: [{ matchType: "suffix", path: ["v1"] }], limit: 9, offset: 0 },
      { matchConditions: [], maxDepth: 1, limit: 9, offset: 0 },
      { matchConditions: [], limit: 1, offset: 1 },
    ]),
  );
  return answers;
}

describe.each(storeSubjects())("on $name", (subject) => {
  let made: Opened;
  let holdfast: Holdfast;
  beforeEach(async () => {
    made = await subject.open();
    holdfast = await open(undefined, { store: made.store });
  });
  afterEach(() => made.dispose());
  afterAll(() => subject.dispose());

  /** The view of another process. */
  const elsewhere = async () => new HoldfastStore(await open(undefined, { store: await made.another() }));

  test("answers as LangGraph's own store", async () => {
    expect(await life(new HoldfastStore(holdfast))).toEqual(await life(new InMemoryStore()));
  });

  test("every process sees an item, its dates and its deletion", async () => {
    const [one, other] = [new HoldfastStore(holdfast), await elsewhere()];
    expect(await other.get(["users", "a.b|c"], "k")).toBeNull();
    await one.batch([{ namespace: ["users", "a.b|c"], key: "k", value: { due: new Date(0), "": -0 } }]);
    const first = await other.get(["users", "a.b|c"], "k");
    expect(first?.value).toEqual({ due: new Date(0), "": -0 });
    await other.batch([{ namespace: ["users", "a.b|c"], key: "k", value: { n: 2 } }]);
    const second = await one.get(["users", "a.b|c"], "k");
    expect([second?.createdAt, second?.value]).toEqual([first?.createdAt, { n: 2 }]);
    expect(Number(second?.updatedAt)).toBeGreaterThanOrEqual(Number(first?.updatedAt));
    await one.delete(["users", "a.b|c"], "k");
    expect([await other.get(["users", "a.b|c"], "k"), await other.listNamespaces()]).toEqual([null, []]);
  });

  test("parallel puts of two processes lose nothing", async () => {
    const stores = [new HoldfastStore(holdfast), await elsewhere()];
    const puts = Array.from({ length: 8 }, (_, n) => stores[n % 2]?.put(["all"], `${n}`, { n }));
    await Promise.all(puts);
    expect(await stores[0]?.search(["all"])).toHaveLength(8);
  });

  test("an erased namespace is gone with those below it, and begins anew", async () => {
    const [store, other] = [new HoldfastStore(holdfast), await elsewhere()];
    for (const namespace of [
      ["users", "ann"],
      ["users", "ann", "notes"],
      ["users", "anna"],
    ])
      await store.put(namespace, "k", { secret: 1 });
    await other.get(["users", "ann"], "k");
    await store.delete(["users", "ann", "notes"], "k");
    expect(await store.erase(["users", "ann"])).toBe(2);
    expect(await other.get(["users", "ann"], "k")).toBeNull();
    expect(await other.listNamespaces()).toEqual([["users", "anna"]]);
    await other.put(["users", "ann"], "k", { n: 2 });
    expect((await store.get(["users", "ann"], "k"))?.value).toEqual({ n: 2 });
  });

  test("a value that cannot be stored changes nothing of its batch", async () => {
    const store = new HoldfastStore(holdfast);
    const good = { namespace: ["a"], key: "k", value: { n: 1 } };
    for (const bad of [
      { namespace: ["b"], key: "k", value: { f: () => 1 } },
      { namespace: ["b"], key: "k", value: 42 },
      { namespace: [], key: "k", value: {} },
      { namespace: ["b"], key: 1, value: {} },
    ])
      await expect(store.batch([good, bad as never])).rejects.toMatchObject({
        code: expect.stringMatching(/INVALID|JSON/),
      });
    expect(await store.listNamespaces()).toEqual([]);
  });

  test("a node remembers over threads", async () => {
    const State = Annotation.Root({ seen: Annotation<number> });
    const graph = new StateGraph(State)
      .addNode("count", async (_state, { store }: LangGraphRunnableConfig) => {
        const seen = Number((await store?.get(["counts"], "seen"))?.value["n"] ?? 0) + 1;
        await store?.put(["counts"], "seen", { n: seen });
        return { seen };
      })
      .addEdge(START, "count")
      .addEdge("count", END)
      .compile({ checkpointer: new HoldfastSaver(holdfast), store: new HoldfastStore(holdfast) });
    await graph.invoke({ seen: 0 }, { configurable: { thread_id: "1" } });
    expect(await graph.invoke({ seen: 0 }, { configurable: { thread_id: "2" } })).toEqual({ seen: 2 });
  });
});
