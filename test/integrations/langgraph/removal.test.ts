/** A thread is deleted during a run, or by a process that dies in the middle. */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { durableNode, HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { memoryData, openMemory } from "../../../src/stores/memory/index.ts";

const config = { configurable: { thread_id: "t" } };

function put(saver: HoldfastSaver, thread = "t") {
  const checkpoint = { ...emptyCheckpoint(), id: uuid6(0) };
  return saver.put(
    { configurable: { thread_id: thread } },
    checkpoint,
    { source: "input", step: -1, parents: {} },
    {},
  );
}

async function savers(options: { ttlMs?: number; now?: () => number } = {}) {
  const { ttlMs = null, now = Date.now } = options;
  const data = memoryData();
  const saver = async () =>
    new HoldfastSaver(await open(undefined, { store: openMemory({ data }), now }), { ttlMs });
  return [await saver(), await saver()] as const;
}

test("late writes of a task do not restore the thread", async () => {
  const [here, there] = await savers();
  const saved = await put(here);
  await there.deleteThread("t");
  await expect(here.putWrites(saved, [["secret", "4711"]], "task")).rejects.toMatchObject({
    code: "VERSION_NOT_FOUND",
  });
  expect((await there.holdfast.journal.row("langgraph/t")).state).toBe("gone");
});

test("a thread that cannot be deleted stays complete", async () => {
  const [here, there] = await savers();
  await put(here);
  const run = await here.holdfast.session("langgraph.t", { ttlMs: null });
  await expect(there.deleteThread("t")).rejects.toMatchObject({ code: "STREAM_BUSY" });
  expect(await there.getTuple(config)).toBeDefined();
  await run.close();
  await there.deleteThread("t");
  expect(await there.getTuple(config)).toBeUndefined();
});

test("a thread that expires during a run is not removed", async () => {
  let now = Date.UTC(2026, 0, 1);
  const [here, there] = await savers({ ttlMs: 1_000, now: () => now });
  await put(here);
  const run = await here.holdfast.session("langgraph.t", { ttlMs: null });
  now += 2_000;
  expect(await there.removeExpired()).toEqual([]);
  await run.close();
  expect(await there.removeExpired()).toEqual(["t"]);
});

describe("a process that dies after deleting the thread and before deleting its effects", () => {
  const State = Annotation.Root({ mail: Annotation<string> });

  /** A graph whose only effect runs once per thread. */
  function greeting(saver: HoldfastSaver, mail: string) {
    const node = durableNode(saver, async (_state: typeof State.State, { effect }) => ({
      mail: await effect("mail", () => mail, { id: "welcome" }),
    }));
    return new StateGraph(State)
      .addNode("greet", node)
      .addEdge(START, "greet")
      .addEdge("greet", END)
      .compile({ checkpointer: saver });
  }

  /** This process removes nothing more after it has removed a thread. */
  async function diesInTheMiddle() {
    let now = Date.UTC(2026, 0, 1);
    const data = memoryData();
    const dies = new Proxy(openMemory({ data }), {
      get: (store, name) => {
        const member: unknown = Reflect.get(store, name, store);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) => {
          const { stream = "" } = (args[0] ?? {}) as { stream?: string };
          if (name === "remove" && stream.startsWith("session/")) throw new Error("killed");
          return member.apply(store, args);
        };
      },
    });
    const here = new HoldfastSaver(await open(undefined, { store: dies, now: () => now }), { ttlMs: 1_000 });
    expect((await greeting(here, "first").invoke({}, config)).mail).toBe("first");
    const there = new HoldfastSaver(await open(undefined, { store: openMemory({ data }), now: () => now }));
    const left = async () => (await there.holdfast.sessions.list()).sessions.map(({ id }) => id);
    const expire = () => {
      now += 2_000;
    };
    return { here, there, left, expire };
  }

  test.each(["deleteThread", "removeExpired"] as const)(
    "in %s: a new thread of that name does not get the old effect's result",
    async (act) => {
      const { here, there, left, expire } = await diesInTheMiddle();
      expire();
      await expect(here[act]("t")).rejects.toThrow("killed");
      expect(await there.getTuple(config)).toBeUndefined();
      expect(await left()).toEqual(["langgraph.t"]);
      expect((await greeting(there, "second").invoke({}, config)).mail).toBe("second");
    },
  );

  test("is cleaned up by the next removeExpired, which spares other sessions", async () => {
    const { here, there, left, expire } = await diesInTheMiddle();
    const own = await there.holdfast.session("langgraph.own");
    await own.close();
    expire();
    await expect(here.removeExpired()).rejects.toThrow("killed");
    await put(there, "living");
    expect(await there.removeExpired()).toEqual([]);
    expect(await left()).toEqual(["langgraph.own"]);
  });
});
