// Time travel: a branch repeats nodes that ran after its checkpoint, and their effects need permission.

import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { afterEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import { durableNode, HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

const State = Annotation.Root({ order: Annotation<string>, receipt: Annotation<string> });
const thread = { configurable: { thread_id: "t" } };

async function paying({ asks = false } = {}) {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  const saver = new HoldfastSaver(holdfast);
  const world: string[] = [];
  const graph = new StateGraph(State)
    .addNode(
      "pay",
      durableNode(saver, async ({ order }: typeof State.State, { effect }) => {
        await effect("greet", () => world.push("greet"), { id: "greeting" });
        const receipt = await effect("charge", () => `receipt ${world.push(`charge ${order}`)}`);
        if (asks) interrupt("ship?");
        return { receipt };
      }),
    )
    .addNode("ship", () => ({}))
    .addEdge(START, "pay")
    .addEdge("pay", "ship")
    .addEdge("ship", END)
    .compile({ checkpointer: saver });
  const beforePay = async () => {
    for await (const each of graph.getStateHistory(thread)) if (each.next[0] === "pay") return each.config;
    throw new Error("no such checkpoint");
  };
  return { graph, world, beforePay };
}

const live = { holdfast_effects: "live" };
const refused = { code: "STATE_STALE", hint: expect.stringContaining("holdfast_effects") };

test("invoking a checkpoint again starts no effect unless it is allowed", async () => {
  const { graph, world, beforePay } = await paying();
  await graph.invoke({ order: "1" }, thread);
  const past = await beforePay();
  await expect(graph.invoke(null, past)).rejects.toMatchObject(refused);
  // Neither does the thread, whose latest checkpoint is now that of the rejected branch.
  await expect(graph.invoke(null, thread)).rejects.toMatchObject(refused);
  expect(world).toEqual(["greet", "charge 1"]);
  await graph.invoke(null, { configurable: { ...thread.configurable, ...live } });
  expect(world).toEqual(["greet", "charge 1", "charge 1"]);
  // A new input is a new order.
  await graph.invoke({ order: "2" }, thread);
  expect(world.at(-1)).toBe("charge 2");
});

test("nor does an updated checkpoint", async () => {
  const { graph, world, beforePay } = await paying();
  await graph.invoke({ order: "1" }, thread);
  const updated = await graph.updateState(await beforePay(), { order: "2" });
  await expect(graph.invoke(null, updated)).rejects.toMatchObject(refused);
  await graph.invoke(null, { configurable: { ...updated.configurable, ...live } });
  expect(world).toEqual(["greet", "charge 1", "charge 2"]);
});

test("nor does one updated while a node with effects waited for an answer", async () => {
  const { graph, world } = await paying({ asks: true });
  await graph.invoke({ order: "1" }, thread);
  await graph.updateState(thread, { order: "2" });
  await expect(graph.invoke(null, thread)).rejects.toMatchObject(refused);
  expect(world).toEqual(["greet", "charge 1"]);
});

test.each([
  ["an update", { update: { order: "2" } }],
  ["a goto to itself", { goto: "pay" }],
  ["a goto to another node", { goto: "ship" }],
])("nor does a Command with %s and no resume, while such a node waits", async (_what, command) => {
  const { graph, world } = await paying({ asks: true });
  await graph.invoke({ order: "1" }, thread);
  await expect(graph.invoke(new Command(command) as never, thread)).rejects.toMatchObject(refused);
  // Neither does the checkpoint that it left, with or without another Command.
  await expect(graph.invoke(null, thread)).rejects.toMatchObject(refused);
  await expect(graph.invoke(new Command(command) as never, thread)).rejects.toMatchObject(refused);
  expect(world).toEqual(["greet", "charge 1"]);
  await graph.invoke(null, { configurable: { ...thread.configurable, ...live } });
  expect(world).toHaveLength(3);
  // A new input is a new order, also after Commands.
  await graph.invoke({ order: "3" }, thread);
  expect(world.at(-1)).toBe("charge 3");
});

test("but a Command with a resume continues them, and on a finished thread it starts new ones", async () => {
  const { graph, world } = await paying({ asks: true });
  await graph.invoke({ order: "1" }, thread);
  const resumed = await graph.invoke(new Command({ resume: "yes", update: { order: "2" } }), thread);
  expect(resumed).toMatchObject({ order: "2", receipt: "receipt 2" });
  expect(world).toEqual(["greet", "charge 1"]);
  await graph.invoke(new Command({ goto: "pay" }), thread);
  expect(world).toEqual(["greet", "charge 1", "charge 2"]);
});

test("but a new input on an older checkpoint does, and so does an update before any effect", async () => {
  const { graph, world, beforePay } = await paying();
  const paused = { ...thread, interruptBefore: ["pay" as const] };
  await graph.invoke({ order: "1" }, paused);
  await graph.updateState(thread, { order: "2" });
  await graph.invoke(null, thread);
  expect(world).toEqual(["greet", "charge 2"]);
  await graph.invoke({ order: "3" }, await beforePay());
  expect(world.at(-1)).toBe("charge 3");
});

test("an interrupted node continues and keeps its effects", async () => {
  const { graph, world } = await paying({ asks: true });
  await graph.invoke({ order: "1" }, thread);
  const latest = (await graph.getState(thread)).config;
  await graph.invoke(new Command({ resume: "yes" }), latest);
  expect(world).toEqual(["greet", "charge 1"]);
});

test("a copy of a thread's first checkpoint is a branch from its start", async () => {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  const Name = Annotation.Root({ name: Annotation<string> });
  const graph = new StateGraph(Name)
    .addNode("one", ({ name }) => ({ name: `${name} > one` }))
    .addEdge(START, "one")
    .addEdge("one", END)
    .compile({ checkpointer: new HoldfastSaver(holdfast) });
  await graph.invoke({ name: "start" }, thread);
  const history = [];
  for await (const each of graph.getStateHistory(thread)) history.push(each);
  const copy = await graph.updateState(
    history.at(-1)?.config ?? {},
    [[{ name: "start*" }, "__start__"]] as never,
    "__copy__",
  );
  expect(await graph.invoke(null, copy)).toEqual({ name: "start* > one" });
  expect((await graph.getState(thread)).values).toEqual({ name: "start* > one" });
});
