// Threads on every store: concurrent runs lose nothing, a save stores only changes, a removal removes
// everything.

import { AIMessage, type BaseMessage, HumanMessage, RemoveMessage } from "@langchain/core/messages";
import {
  Annotation,
  DeltaValue,
  END,
  MessagesAnnotation,
  START,
  StateGraph,
  StateSchema,
} from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import { open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { sha256 } from "../../../src/model/digest.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { storeSubjects } from "../../subjects.ts";
import { readTogether } from "./read-together.ts";

const config = (thread = "t") => ({ configurable: { thread_id: thread } });

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});

/** A graph of one node that waits for permission and then says its name. */
function speaking(saver: HoldfastSaver, name: string, until: Promise<unknown> = Promise.resolve()) {
  return new StateGraph(Log)
    .addNode("speak", async () => {
      await until;
      return { log: [name] };
    })
    .addEdge(START, "speak")
    .addEdge("speak", END)
    .compile({ checkpointer: saver });
}

let number = 0;
function put(saver: HoldfastSaver, after: object, values: Record<string, unknown>, id = uuid6(0)) {
  number += 1;
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, number]));
  const checkpoint = { ...emptyCheckpoint(), id, channel_values: values, channel_versions: versions };
  return saver.put(after, checkpoint, { source: "loop", step: number, parents: {} }, versions);
}

async function listed(saver: HoldfastSaver, thread?: string) {
  const found = [];
  for await (const tuple of saver.list(thread === undefined ? {} : config(thread))) found.push(tuple);
  return found;
}

describe.each(storeSubjects())("on $name", (subject) => {
  let made: Opened;
  let saver: HoldfastSaver;
  let now = Date.UTC(2026, 0, 1);

  beforeEach(async () => {
    made = await subject.open();
    saver = new HoldfastSaver(await open(undefined, { store: made.store, now: () => now }));
  });
  afterEach(async () => {
    expect(await saver.check()).toEqual([]);
    await made.dispose();
  });
  afterAll(() => subject.dispose());

  /** Another process, as far as the store can tell. */
  async function elsewhere(): Promise<HoldfastSaver> {
    return new HoldfastSaver(await open(undefined, { store: await made.another(), now: () => now }));
  }

  describe("two runs on one thread at once", () => {
    test.each(["one saver", "two processes"])(
      "by %s: the second is rejected, and nothing is lost",
      async (how) => {
        const other = how === "one saver" ? saver : await elsewhere();
        await speaking(saver, "before").invoke({ log: ["start"] }, config());
        readTogether("t", saver, other);
        const [one, two] = await Promise.allSettled(
          [speaking(saver, "one"), speaking(other, "two")].map((graph) =>
            graph.invoke({ log: ["input"] }, { ...config(), durability: "sync" }),
          ),
        );
        const refused = [one, two].filter((each) => each?.status === "rejected");
        expect(refused).toHaveLength(1);
        expect(refused[0]).toMatchObject({ reason: { code: "STREAM_BUSY", retryable: true } });

        const winner = one?.status === "fulfilled" ? "one" : "two";
        const loser = winner === "one" ? "two" : "one";
        await speaking(other, loser).invoke({ log: ["again"] }, config());
        const state = await speaking(await elsewhere(), "").getState(config());
        expect(state.values).toEqual({ log: ["start", "before", "input", winner, "again", loser] });
      },
    );

    test("that both found it empty: the second is rejected", async () => {
      expect(await saver.getTuple(config())).toBeUndefined();
      await put(await elsewhere(), config(), { list: ["theirs"] });
      await expect(put(saver, config(), { list: ["ours"] })).rejects.toMatchObject({ code: "STREAM_BUSY" });
    });

    test("that save writes of one checkpoint keep all of them, and the first of each", async () => {
      const saved = await put(saver, config(), {});
      const other = await elsewhere();
      await Promise.all(
        Array.from({ length: 8 }, (_, n) =>
          (n % 2 ? saver : other).putWrites(saved, [["channel", n]], `task ${n}`),
        ),
      );
      await other.putWrites(saved, [["channel", "again"]], "task 0");
      const tuple = await saver.getTuple(saved);
      expect(tuple?.pendingWrites?.map(([task, , value]) => `${task}: ${value}`).sort()).toEqual(
        Array.from({ length: 8 }, (_, n) => `task ${n}: ${n}`),
      );
    });
  });

  test("deleteThread works on an empty store, and deletes a thread as a whole", async () => {
    await saver.deleteThread("never there");
    const first = await put(saver, config(), { list: [1] });
    await put(saver, config("other"), { list: [2] });
    await saver.deleteThread("t");
    expect(await saver.getTuple(config())).toBeUndefined();
    expect(await (await elsewhere()).getTuple(config())).toBeUndefined();
    expect(await saver.getTuple(config("other"))).toBeDefined();
    await expect(put(saver, first, { list: [3] })).rejects.toMatchObject({ code: "VERSION_NOT_FOUND" });
    await put(saver, config(), { list: [4] });
    expect((await saver.getTuple(config()))?.checkpoint.channel_values).toEqual({ list: [4] });
  });

  test("threads with hostile names stay separate", async () => {
    const spaced = "a b";
    const names = [
      spaced,
      `sha256.${sha256(JSON.stringify(spaced))}`,
      "../../etc/passwd",
      "__proto__",
      "constructor",
      "%2e%2e",
      "T",
      "t",
      "ü",
      "\ud800",
      "\ud801",
      "\0",
      "x".repeat(5_000),
      "x".repeat(5_001),
    ];
    for (const name of names) await put(saver, config(name), { name });
    for (const name of names) {
      expect((await saver.getTuple(config(name)))?.checkpoint.channel_values).toEqual({ name });
    }
    expect(await listed(await elsewhere())).toHaveLength(names.length);
  });

  test("a checkpoint saved by a process whose clock is behind is still the latest", async () => {
    const first = await put(saver, config(), { n: 1 });
    const old = "1ef00000-0000-6000-8000-000000000000";
    await put(saver, first, { n: 2 }, old);
    expect((await saver.getTuple(config()))?.checkpoint.id).toBe(old);
    expect((await listed(saver, "t")).map(({ checkpoint }) => checkpoint.channel_values)).toEqual([
      { n: 2 },
      { n: 1 },
    ]);
  });

  test("a growing list of messages costs its additions, also if its beginning is cut off", async () => {
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("answer", ({ messages }) => ({
        messages: [
          new AIMessage(`answer ${messages.length} ${"x".repeat(500)}`),
          ...(messages.length > 16 ? [new RemoveMessage({ id: messages[0]?.id as string })] : []),
        ],
      }))
      .addEdge(START, "answer")
      .addEdge("answer", END)
      .compile({ checkpointer: saver });
    const sizes: number[] = [];
    let seq = 0;
    let expected: BaseMessage[] = [];
    for (let turn = 0; turn < 20; turn++) {
      expected = (await graph.invoke({ messages: [new HumanMessage(`question ${turn}`)] }, config()))
        .messages;
      let size = 0;
      for await (const [at, event] of saver.holdfast.journal.events("langgraph/t", seq)) {
        size += JSON.stringify(event).length;
        seq = at;
      }
      sizes.push(size);
    }
    expect(Math.max(...sizes.slice(9))).toBeLessThan(1.3 * (sizes[5] as number));
    const loaded = await (await elsewhere()).getTuple(config());
    const texts = (messages: unknown) => (messages as BaseMessage[]).map(({ id, text }) => [id, text]);
    expect(texts(loaded?.checkpoint.channel_values["messages"])).toEqual(texts(expected));
  });

  test("branches keep their own values, and a copy has those of its original", async () => {
    const graph = speaking(saver, "main");
    await graph.invoke({ log: ["a"] }, config());
    const fork = (await graph.getState(config())).config;
    await graph.invoke({ log: ["b"] }, config());
    await speaking(saver, "branch").invoke({ log: ["c"] }, fork);
    const values = (await listed(await elsewhere(), "t")).map(
      ({ checkpoint }) => checkpoint.channel_values["log"],
    );
    expect(values).toContainEqual(["a", "main", "b", "main"]);
    expect(values).toContainEqual(["a", "main", "c", "branch"]);
    await graph.updateState(fork, null, "__copy__");
    expect((await graph.getState(config())).values).toEqual({ log: ["a", "main"] });
  });

  test("a run ends normally although another branches from an older checkpoint meanwhile", async () => {
    await speaking(saver, "first").invoke({ log: ["a"] }, config());
    const fork = (await speaking(saver, "").getState(config())).config;
    let branch: Promise<typeof Log.State> | undefined;
    // It branches while the node of the other run is running.
    const other = await elsewhere();
    const main = new StateGraph(Log)
      .addNode("speak", async () => {
        branch = speaking(other, "branch").invoke({ log: ["c"] }, fork);
        await branch;
        return { log: ["main"] };
      })
      .addNode("end", () => ({ log: ["end"] }))
      .addEdge(START, "speak")
      .addEdge("speak", "end")
      .addEdge("end", END)
      .compile({ checkpointer: saver });
    const ended = await main.invoke({ log: ["b"] }, config());
    expect(ended.log).toEqual(["a", "first", "b", "main", "end"]);
    expect((await branch)?.log).toEqual(["a", "first", "c", "branch"]);
    expect((await main.getState(config())).values).toEqual(ended);
  });

  test("a copy has the values of its original, although another branch has the same versions", async () => {
    const graph = speaking(saver, "main");
    await graph.invoke({ log: ["a"] }, config());
    const fork = (await graph.getState(config())).config;
    await graph.invoke({ log: ["b"] }, fork);
    const original = (await graph.getState(config())).config;
    await speaking(saver, "branch").invoke({ log: ["c"] }, fork);
    const copy = await graph.updateState(original, null, "__copy__");
    const kept = { log: ["a", "main", "b", "main"] };
    expect((await graph.getState(copy)).values).toEqual(kept);
    expect((await speaking(await elsewhere(), "").getState(config())).values).toEqual(kept);
    // The same holds whether or not its thread is cached.
    const later = await speaking(await elsewhere(), "").updateState(original, null, "__copy__");
    expect((await graph.getState(later)).values).toEqual(kept);
  });

  test("a graph with a stateful subgraph can be run again from an earlier checkpoint", async () => {
    const subgraph = new StateGraph(Log)
      .addNode("inner", ({ log }) => ({ log: [`inner ${log.length}`] }))
      .addEdge(START, "inner")
      .addEdge("inner", END)
      .compile({ checkpointer: true });
    const graph = new StateGraph(Log)
      .addNode("sub", async (state, runConfig) => ({
        log: (await subgraph.invoke({ log: state.log.slice(-1) }, runConfig)).log.slice(-1),
      }))
      .addEdge(START, "sub")
      .addEdge("sub", END)
      .compile({ checkpointer: saver });
    const inputs = [];
    for (const input of ["a", "b"]) {
      await graph.invoke({ log: [input] }, config());
      const { value } = await graph.getStateHistory(config(), { filter: { source: "input" } }).next();
      inputs.push(value?.config ?? {});
    }
    const before = (await graph.getState(config())).values;
    for (const input of inputs) await graph.invoke(null, input);
    expect(before.log).toHaveLength(4);
    expect((await graph.getState(config())).values.log).toHaveLength(4);
    await graph.invoke({ log: ["c"] }, config());
    expect((await graph.getState(config())).values.log).toHaveLength(6);
  });

  test("threads expire after their TTL without a write, and not before", async () => {
    const mortal = new HoldfastSaver(saver.holdfast, { ttlMs: 1_000 });
    const first = await put(mortal, config("mortal"), { n: 1 });
    await put(saver, config("immortal"), { n: 1 });
    now += 900;
    await put(mortal, first, { n: 2 });
    now += 900;
    expect(await mortal.removeExpired()).toEqual([]);
    now += 200;
    expect(await mortal.removeExpired()).toEqual(["mortal"]);
    expect(await mortal.getTuple(config("mortal"))).toBeUndefined();
    expect(await saver.getTuple(config("immortal"))).toBeDefined();
  });

  test("old checkpoints can be dropped, but none that a delta channel still needs", async () => {
    let after: object = config();
    for (let n = 1; n <= 6; n++) after = await put(saver, after, { list: Array(n).fill("x".repeat(20_000)) });
    expect(await saver.pruneThread("t", { keepLast: 2 })).toBe(4);
    const kept = await listed(await elsewhere(), "t");
    expect(kept.map(({ checkpoint }) => (checkpoint.channel_values["list"] as []).length)).toEqual([6, 5]);
    expect(await saver.pruneThread("t", { keepLast: 2 })).toBe(0);

    const delta = { source: "loop" as const, step: 0, parents: {}, counters_since_delta_snapshot: {} };
    after = await put(saver, config("delta"), { messages: [0] });
    for (let n = 1; n <= 4; n++) {
      await saver.putWrites(after, [["messages", [n]]], `task ${n}`);
      const checkpoint = { ...emptyCheckpoint(), id: uuid6(0) };
      const metadata = { ...delta, counters_since_delta_snapshot: { messages: [n, n] as [number, number] } };
      after = await saver.put(after, checkpoint, metadata, {});
    }
    expect(await saver.pruneThread("delta", { keepLast: 1 })).toBe(0);
    const history = await saver.getDeltaChannelHistory({ config: after, channels: ["messages"] });
    expect(history["messages"]?.seed).toEqual([0]);
    expect(history["messages"]?.writes.map(([, , value]) => value)).toEqual([[1], [2], [3], [4]]);
  });

  test("delta channels grow over runs that save only at their end", async () => {
    const Delta = new StateSchema({
      items: new DeltaValue(
        z.array(z.string()).default(() => []),
        {
          inputSchema: z.array(z.string()),
          reducer: (items: string[], added: string[][]) => [...items, ...added.flat()],
        },
      ),
    });
    const graph = new StateGraph(Delta)
      .addNode("speak", () => ({ items: ["answer"] }))
      .addEdge(START, "speak")
      .addEdge("speak", END)
      .compile({ checkpointer: saver });
    for (const turn of ["1", "2", "3"])
      await graph.invoke({ items: [turn] }, { ...config(), durability: "exit" });
    const { values } = await graph.getState(config());
    expect(values).toEqual({ items: ["1", "answer", "2", "answer", "3", "answer"] });
  });

  test("a save without new versions saves every channel", async () => {
    const first = await put(saver, config(), { kept: "a", changed: "b" });
    const channel_values = { kept: "a", changed: "c", added: "d" };
    const channel_versions = { kept: 1, changed: 2, added: 2 };
    const next = { ...emptyCheckpoint(), id: uuid6(0), channel_values, channel_versions };
    await saver.put(first, next, { source: "loop", step: 1, parents: {} });
    const loaded = await (await elsewhere()).getTuple(config());
    expect(loaded?.checkpoint.channel_values).toEqual(channel_values);
  });

  test("repeating a save changes nothing", async () => {
    const first = await put(saver, config(), { list: ["a"], object: { b: 1 } });
    const tuple = await saver.getTuple(first);
    if (!tuple?.metadata) throw new Error("it was saved");
    await saver.put(config(), tuple.checkpoint, tuple.metadata, tuple.checkpoint.channel_versions);
    expect(await saver.getTuple(first)).toEqual(tuple);
    expect(await listed(saver, "t")).toHaveLength(1);
  });
});

test("payloads pass through the store's codec", async () => {
  const { openMemory } = await import("../../../src/testing/index.ts");
  const store = openMemory();
  const turned = {
    name: "turned",
    encode: (text: string) => [...text].reverse().join(""),
    decode: (payload: string | Uint8Array) => [...(payload as string)].reverse().join(""),
  };
  const saver = new HoldfastSaver(await open(undefined, { store, codecs: [turned] }));
  const messages = [new HumanMessage({ id: "1", content: "one" })];
  const first = await put(saver, config(), { messages });
  await put(saver, first, { messages: [...messages, new AIMessage({ id: "2", content: "two" })] });
  const page = await store.read({ namespace: "default", stream: "langgraph/t", after: 0 });
  expect(page.writes.every(({ codec }) => codec === "turned")).toBe(true);
  expect(String(page.writes[1]?.payload)).not.toContain(turned.encode("one"));
  const tuple = await new HoldfastSaver(saver.holdfast).getTuple(config());
  const texts = (tuple?.checkpoint.channel_values["messages"] as BaseMessage[] | undefined)?.map(
    ({ text }) => text,
  );
  expect(texts).toEqual(["one", "two"]);
});

describe.concurrent("a run that is rejected while its nodes run", () => {
  test.each(["async", "sync"] as const)(
    "with durability %s: its caller gets the error, and no rejection is unhandled",
    async (durability) => {
      const holdfast = await open("memory:");
      const saver = new HoldfastSaver(holdfast);
      const unhandled: unknown[] = [];
      const listener = (reason: unknown) => unhandled.push(reason);
      process.on("unhandledRejection", listener);
      try {
        await speaking(saver, "before").invoke({ log: ["start"] }, config());
        readTogether("t", saver);
        // Much longer than Node takes to report an unhandled rejection.
        const slow = new Promise((resolve) => setTimeout(resolve, 400));
        const graphs = [speaking(saver, "one", slow), speaking(saver, "two", slow)];
        const runs = graphs.map((graph) => graph.invoke({ log: ["input"] }, { ...config(), durability }));
        const [one, two] = await Promise.allSettled(runs);
        expect([one?.status, two?.status].sort()).toEqual(["fulfilled", "rejected"]);
        const refused = one?.status === "rejected" ? one : two;
        expect(refused).toMatchObject({ reason: { code: "STREAM_BUSY" } });
        await slow;
        expect(unhandled).toEqual([]);
      } finally {
        process.off("unhandledRejection", listener);
        await holdfast.close();
      }
    },
  );

  test("an aborted run ends at once", async () => {
    const holdfast = await open("memory:");
    const saver = new HoldfastSaver(holdfast);
    await speaking(saver, "before").invoke({ log: ["start"] }, config());
    readTogether("t", saver);
    const never = new Promise(() => undefined);
    const running = speaking(saver, "one", new Promise((resolve) => setTimeout(resolve, 200)));
    const aborting = new AbortController();
    const refused = speaking(saver, "two", never).invoke(
      { log: ["input"] },
      { ...config(), signal: aborting.signal },
    );
    const first = running.invoke({ log: ["input"] }, config());
    setTimeout(() => aborting.abort(new Error("enough")), 300);
    const ends = await Promise.allSettled([first, refused]);
    expect(ends.map(({ status }) => status)).toContain("rejected");
    await holdfast.close();
  }, 20_000);
});

test("a value that cannot be saved fails the run that made it, at its step", async () => {
  const holdfast = await open("memory:");
  const saver = new HoldfastSaver(holdfast);
  const State = Annotation.Root({ value: Annotation<unknown>() });
  const later: string[] = [];
  const graph = new StateGraph(State)
    .addNode("make", () => ({ value: () => "a function" }))
    .addNode("after", () => {
      later.push("after");
      return {};
    })
    .addEdge(START, "make")
    .addEdge("make", "after")
    .addEdge("after", END)
    .compile({ checkpointer: saver });
  await expect(graph.invoke({ value: 1 }, config())).rejects.toMatchObject({ code: "VALUE_NOT_JSON" });
  expect(later).toEqual([]);
  await holdfast.close();
});
