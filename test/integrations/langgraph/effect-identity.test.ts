// The identity of an effect when its node runs again, and the properties that separate two effects.

import { AIMessage, HumanMessage, type ToolMessage } from "@langchain/core/messages";
import type { RunnableConfig } from "@langchain/core/runnables";
import { tool } from "@langchain/core/tools";
import {
  Annotation,
  Command,
  END,
  entrypoint,
  interrupt,
  MessagesAnnotation,
  START,
  StateGraph,
  task,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  durableNode,
  durableTool,
  type EffectOptions,
  type HoldfastSaver,
} from "../../../src/integrations/langgraph/index.ts";
import { freshSaver } from "./fresh-saver.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});
type Log = typeof State.State;
type Node = (state: Log, config: RunnableConfig) => Promise<Partial<Log>>;

function oneNode(saver: HoldfastSaver, node: Node, options: object = {}) {
  return new StateGraph(State)
    .addNode("work", node, options)
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
}

const thread = { configurable: { thread_id: "t" } };

/** A tool that books an order, and the log of its bookings. */
function bookingTool(saver: HoldfastSaver) {
  const world: string[] = [];
  const ship = durableTool(
    saver,
    async ({ order }, { effect }) => effect("book", () => `booking ${world.push(order)} of ${order}`),
    { name: "ship", description: "Ships an order", schema: z.object({ order: z.string() }) },
  );
  return { ship, world };
}

describe("a node that calls a durable tool itself", () => {
  test("has one effect per call, and the same effects when it runs again", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    const graph = oneNode(saver, async (_state, config) => {
      const log: string[] = [];
      for (const order of ["L1", "L2", "L3"]) log.push(String(await ship.invoke({ order }, config)));
      const two = await Promise.all(["P1", "P2"].map((order) => ship.invoke({ order }, config)));
      interrupt("go on?");
      return { log: [...log, ...two.map(String)] };
    });
    await graph.invoke({ log: [] }, thread);
    expect(world).toEqual(["L1", "L2", "L3", "P1", "P2"]);
    const state = await graph.invoke(new Command({ resume: "yes" }), thread);
    expect(state.log).toEqual(world.map((order, index) => `booking ${index + 1} of ${order}`));
    expect(world).toHaveLength(5);
  });

  test("is rejected if it calls with other arguments than recorded", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    let order = "first";
    const graph = oneNode(saver, async (_state, config) => {
      await ship.invoke({ order }, config);
      interrupt("go on?");
      return {};
    });
    await graph.invoke({ log: [] }, thread);
    order = "second";
    const again = graph.invoke(new Command({ resume: "yes" }), thread);
    await expect(again).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining("other arguments"),
    });
    expect(world).toEqual(["first"]);
  });

  test("may also have an inline effect of the same name", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    const node = durableNode(saver, async (_state: Log, { effect }, config) => {
      const own = await effect("book", () => `own ${world.push("own")}`);
      return { log: [own, String(await ship.invoke({ order: "D1" }, config))] };
    });
    const state = await oneNode(saver, node).invoke({ log: [] }, thread);
    expect(state.log).toEqual(["own 1", "booking 2 of D1"]);
  });

  test("runs each effect once although a retry policy runs the node again", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    let tries = 0;
    const node: Node = async (_state, config) => {
      const log: string[] = [];
      for (const order of ["1", "2"]) log.push(String(await ship.invoke({ order }, config)));
      if (++tries < 3) throw new Error("flaky");
      return { log };
    };
    const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false };
    const state = await oneNode(saver, node, { retryPolicy }).invoke({ log: [] }, thread);
    expect(tries).toBe(3);
    expect(state.log).toEqual(["booking 1 of 1", "booking 2 of 2"]);
    expect(world).toEqual(["1", "2"]);
  });

  test("whose config lacks the attempt number may call a tool once, not twice", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    // Without a config LangChain passes on its own, which lacks the attempt.
    const outer = tool(
      async ({ orders }) => {
        for (const order of orders) await ship.invoke({ order });
      },
      { name: "outer", description: "Ships orders", schema: z.object({ orders: z.array(z.string()) }) },
    );
    const graph = oneNode(saver, async (_state, config) => {
      await outer.invoke({ orders: ["1", "2"] }, config);
      return {};
    });
    await expect(graph.invoke({ log: [] }, thread)).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(world).toEqual(["1"]);
  });
});

test("a subgraph restarted by a retry policy repeats no effects, also when resumed", async () => {
  const saver = await freshSaver();
  const world: string[] = [];
  let isFlaky = true;
  const inner = new StateGraph(State)
    .addNode(
      "pay",
      durableNode(saver, async (_state: Log, { effect }) => ({
        log: [await effect("charge", () => `receipt ${world.push("charge")}`)],
      })),
    )
    .addNode("check", () => {
      if (isFlaky) throw new Error("flaky");
      return {};
    })
    .addEdge(START, "pay")
    .addEdge("pay", "check")
    .addEdge("check", END)
    .compile();
  const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false };
  const graph = oneNode(saver, inner as never, { retryPolicy });
  await expect(graph.invoke({ log: [] }, thread)).rejects.toMatchObject({ code: "STATE_STALE" });
  expect(world).toEqual(["charge"]);
  isFlaky = false;
  expect((await graph.invoke(null, thread)).log).toEqual(["receipt 1"]);
  expect(world).toEqual(["charge"]);
});

test.each([
  ["the same id", "c1", "c1"],
  ["no id", undefined, undefined],
  ["an empty id", "", ""],
])("two tool calls of one message with %s are two calls", async (_what, first, second) => {
  const saver = await freshSaver();
  const { ship, world } = bookingTool(saver);
  const calls = [first, second].map((id, index) => ({ id, name: "ship", args: { order: `O${index + 1}` } }));
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("ask", () => ({ messages: [new AIMessage({ content: "", tool_calls: calls as never })] }))
    .addNode("tools", new ToolNode([ship]))
    .addEdge(START, "ask")
    .addEdge("ask", "tools")
    .addEdge("tools", END)
    .compile({ checkpointer: saver });
  const { messages } = await graph.invoke({ messages: [new HumanMessage("ship")] }, thread);
  expect(messages.slice(2).map((each) => (each as ToolMessage).content)).toEqual([
    "booking 1 of O1",
    "booking 2 of O2",
  ]);
  expect(world).toEqual(["O1", "O2"]);
});

describe("two inline effects of one name", () => {
  /** The lookups before them end in random order, so that each run has another one first. */
  function charging(saver: HoldfastSaver, of: (order: string) => EffectOptions<string>) {
    const world: string[] = [];
    const first = { order: "B", crashes: true };
    const node = durableNode(saver, async (_state: Log, { effect }) => {
      let lookedUp = (): void => undefined;
      const other = new Promise<void>((resolve) => {
        lookedUp = resolve;
      });
      const charge = async (order: string): Promise<string> => {
        if (order !== first.order) await other;
        const receipt = await effect("charge", () => `${order}: ${world.push(order)}`, of(order));
        if (first.crashes) throw new Error("crash");
        lookedUp();
        return receipt;
      };
      return { log: await Promise.all(["A", "B"].map(charge)) };
    });
    return { graph: oneNode(saver, node), world, first };
  }

  test("are rejected without args or ids", async () => {
    const saver = await freshSaver();
    const { graph, world, first } = charging(saver, () => ({}));
    await expect(graph.invoke({ log: [] }, thread)).rejects.toThrow("crash");
    Object.assign(first, { order: "A", crashes: false });
    await expect(graph.invoke(null, thread)).rejects.toMatchObject({
      code: "INPUT_INVALID",
      hint: expect.stringContaining("`id`"),
    });
    expect(world).toEqual(["B"]);
  });

  test("keep their identity in any order if they have ids", async () => {
    const saver = await freshSaver();
    const { graph, world, first } = charging(saver, (order) => ({ id: `charge ${order}` }));
    await expect(graph.invoke({ log: [] }, thread)).rejects.toThrow("crash");
    Object.assign(first, { order: "A", crashes: false });
    expect((await graph.invoke(null, thread)).log).toEqual(["A: 2", "B: 1"]);
    expect(world).toEqual(["B", "A"]);
  });

  test("are not confused if they have arguments", async () => {
    const saver = await freshSaver();
    const { graph, world, first } = charging(saver, (order) => ({ args: { order } }));
    await expect(graph.invoke({ log: [] }, thread)).rejects.toThrow("crash");
    Object.assign(first, { order: "A", crashes: false });
    await expect(graph.invoke(null, thread)).rejects.toThrow(/other arguments/);
    expect(world).toEqual(["B"]);
  });
});

test("effects whose ids differ in a lone surrogate are two effects", async () => {
  const saver = await freshSaver();
  const world: string[] = [];
  const node = durableNode(saver, async (_state: Log, { effect }) => ({
    log: [
      await effect("mail", () => `mail ${world.push("first")}`, { id: "order-\ud83d" }),
      await effect("mail", () => `mail ${world.push("second")}`, { id: "order-\ud83e" }),
    ],
  }));
  const state = await oneNode(saver, node).invoke({ log: [] }, thread);
  expect(state.log).toEqual(["mail 1", "mail 2"]);
});

describe("the functional API", () => {
  test("has one effect per call in an entrypoint, and the same effects after an interrupt", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    const flow = entrypoint({ name: "flow", checkpointer: saver }, async (_input: string, config) => {
      const first = await ship.invoke({ order: "E1" }, config);
      interrupt("go on?");
      return [first, await ship.invoke({ order: "E2" }, config)];
    });
    await flow.invoke("go", thread);
    expect(await flow.invoke(new Command({ resume: "yes" }), thread)).toEqual([
      "booking 1 of E1",
      "booking 2 of E2",
    ]);
    expect(world).toEqual(["E1", "E2"]);
  });

  test("has one effect per task, and the same effects when the tasks run again", async () => {
    const saver = await freshSaver();
    const { ship, world } = bookingTool(saver);
    let tries = 0;
    const one = task("one", async (order: string) => {
      const booked = await ship.invoke({ order });
      if (++tries === 2) throw new Error("crash");
      return booked;
    });
    const flow = entrypoint({ name: "flow", checkpointer: saver }, async (_input: string) => [
      await one("X1"),
      await one("X2"),
    ]);
    await expect(flow.invoke("go", thread)).rejects.toThrow("crash");
    expect(await flow.invoke(null as never, thread)).toEqual(["booking 1 of X1", "booking 2 of X2"]);
    expect(world).toEqual(["X1", "X2"]);
  });
});
