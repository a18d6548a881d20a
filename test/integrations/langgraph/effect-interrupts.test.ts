// A graph that stops at an effect: its model, its resume values, and effects that may not start.

import { AIMessage, HumanMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  END,
  interrupt,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { HoldfastError } from "../../../src/index.ts";
import {
  durableNode,
  durableTool,
  type Effects,
  type HoldfastSaver,
} from "../../../src/integrations/langgraph/index.ts";
import { freshSaver } from "./fresh-saver.ts";

const thread = { configurable: { thread_id: "t" } };

async function answer(saver: HoldfastSaver, result: string): Promise<void> {
  const [waiting] = (await saver.holdfast.calls.list()).calls;
  const landed = { outcome: "landed", result, by: "ann", why: "seen" } as const;
  await saver.holdfast.calls.resolve(waiting?.callId as string, landed);
}

/** An agent whose model calls `pay` again, under a new id, as long as it gets errors. */
function payingAgent(saver: HoldfastSaver, body: (effects: Effects) => Promise<string>) {
  const pay = durableTool(saver, (_args, effects) => body(effects), {
    name: "pay",
    description: "Pays an order",
    schema: z.object({ order: z.string() }),
  });
  let turns = 0;
  return new StateGraph(MessagesAnnotation)
    .addNode("model", ({ messages }) => {
      const last = messages.at(-1);
      const isDone = last?.getType() === "tool" && !/error/i.test(last.text);
      if (isDone || ++turns > 3) return { messages: [new AIMessage(`heard: ${last?.text}`)] };
      const call = { id: `call ${turns}`, name: "pay", args: { order: "1" } };
      return { messages: [new AIMessage({ content: "", tool_calls: [call] })] };
    })
    .addNode("tools", new ToolNode([pay]))
    .addEdge(START, "model")
    .addConditionalEdges("model", ({ messages }) =>
      (messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END,
    )
    .addEdge("tools", "model")
    .compile({ checkpointer: saver });
}

const begin = () => ({ messages: [new HumanMessage("pay 1")] });

describe("an error of the ledger in a tool call", () => {
  test("stops the graph and does not reach the model, which would pay again", async () => {
    const saver = await freshSaver();
    const { store } = saver.holdfast.journal;
    const append = store.append.bind(store);
    let paid = 0;
    const graph = payingAgent(saver, ({ effect }) =>
      effect("charge", () => {
        paid += 1;
        // From here on, writes to the record of effects fail.
        store.append = async (...batch) => {
          if (!JSON.stringify(batch).includes("session/langgraph")) return append(...batch);
          throw new HoldfastError("STORE_FULL", "the disk is full", { hint: "Make room." });
        };
        return `receipt ${paid}`;
      }),
    );
    const stopped = await graph.invoke(begin(), thread);
    expect(stopped).toMatchObject({
      __interrupt__: [{ value: { callId: expect.any(String), tool: "pay", code: "STORE_FULL" } }],
    });
    store.append = append;
    // The answer was kept in memory and is recorded now.
    const { messages } = await graph.invoke(null, thread);
    expect(messages.at(-1)?.text).toBe("heard: receipt 1");
    expect(paid).toBe(1);
  });

  test("stops it every time while the tool passes other arguments than recorded", async () => {
    const saver = await freshSaver();
    let time = 1;
    let paid = 0;
    const graph = payingAgent(saver, async ({ effect }) => {
      await effect("charge", () => ++paid, { args: { at: time } });
      interrupt("really?");
      return "paid";
    });
    await graph.invoke(begin(), thread);
    time = 2;
    const value = { code: "INPUT_INVALID", why: expect.stringContaining("other arguments") };
    const stopped = { __interrupt__: [{ value }] };
    expect(await graph.invoke(new Command({ resume: "yes" }), thread)).toMatchObject(stopped);
    expect(await graph.invoke(null, thread)).toMatchObject(stopped);
    expect(paid).toBe(1);
  });

  test("but a recorded failure, and an error of the tool itself, go to the model", async () => {
    const saver = await freshSaver();
    let tries = 0;
    const graph = payingAgent(saver, async ({ effect }) => {
      tries += 1;
      if (tries === 2) throw new Error("an error of mine");
      if (tries === 3) return "enough";
      return effect("charge", () => {
        throw Object.assign(new Error("card error"), { status: 402 });
      });
    });
    const { messages } = await graph.invoke(begin(), thread);
    const told = messages.filter((each) => each.getType() === "tool").map((each) => each.text);
    expect(told).toMatchObject([
      expect.stringContaining("card error"),
      expect.stringContaining("an error of mine"),
      "enough",
    ]);
  });
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});
type Log = typeof State.State;

function oneNode(saver: HoldfastSaver, body: (state: Log, effects: Effects) => Promise<Partial<Log>>) {
  return new StateGraph(State)
    .addNode("work", durableNode(saver, body))
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
}

function hangUp(): string {
  throw new Error("connection reset");
}

describe("a resume value for a graph that waits for an effect", () => {
  test("answers no question of its node, now or later", async () => {
    const saver = await freshSaver();
    const graph = oneNode(saver, async (_state, { effect }) => {
      const who: string = interrupt("who are you?");
      const mail = await effect("mail", hangUp);
      const answer: string = interrupt("really pay?");
      return { log: [who, mail, answer] };
    });
    const asks = (value: unknown) => ({ __interrupt__: [{ value }] });
    await graph.invoke({ log: [] }, thread);
    const waits = asks({ waiting: "effect", tool: "mail" });
    expect(await graph.invoke(new Command({ resume: "ann" }), thread)).toMatchObject(waits);
    expect(await graph.invoke(new Command({ resume: "ok, seen" }), thread)).toMatchObject(waits);
    await answer(saver, "sent");
    expect(await graph.invoke(new Command({ resume: true }), thread)).toMatchObject(asks("really pay?"));
    expect(await graph.invoke(null, thread)).toMatchObject(asks("really pay?"));
    const { log } = await graph.invoke(new Command({ resume: "no" }), thread);
    expect(log).toEqual(["ann", "sent", "no"]);
  });

  test("answers none in a subgraph either", async () => {
    const saver = await freshSaver();
    const inner = new StateGraph(State)
      .addNode(
        "pay",
        durableNode(saver, async (_state: Log, { effect }) => {
          const mail = await effect("mail", hangUp);
          return { log: [mail, interrupt<string, string>("really pay?")] };
        }),
      )
      .addEdge(START, "pay")
      .addEdge("pay", END)
      .compile();
    const graph = new StateGraph(State)
      .addNode("inner", inner)
      .addEdge(START, "inner")
      .addEdge("inner", END)
      .compile({ checkpointer: saver });
    await graph.invoke({ log: [] }, thread);
    await answer(saver, "sent");
    const asked = { __interrupt__: [{ value: "really pay?" }] };
    expect(await graph.invoke(new Command({ resume: "seen" }), thread)).toMatchObject(asked);
    expect(await graph.invoke(null, thread)).toMatchObject(asked);
    expect((await graph.invoke(new Command({ resume: "no" }), thread)).log).toEqual(["sent", "no"]);
  });
});

describe("while an effect has no outcome", () => {
  test("a node that catches the interrupt starts no other effect, and does not finish", async () => {
    const saver = await freshSaver();
    const world: string[] = [];
    const graph = oneNode(saver, async (_state, { effect }) => {
      try {
        return { log: [await effect("charge", hangUp)] };
      } catch {
        await effect("charge in another way", () => world.push("again")).catch(() => undefined);
        return { log: ["caught"] };
      }
    });
    expect(await graph.invoke({ log: [] }, thread)).toMatchObject({
      log: [],
      __interrupt__: [{ value: { waiting: "effect", tool: "charge" } }],
    });
    expect(world).toEqual([]);
    await answer(saver, "receipt");
    expect((await graph.invoke(null, thread)).log).toEqual(["receipt"]);
  });

  test("no effect starts in a later turn of the thread, which might repeat it", async () => {
    const saver = await freshSaver();
    let hangs = true;
    const world: string[] = [];
    const graph = oneNode(saver, async (_state, { effect }) => {
      return { log: [await effect("charge", () => (hangs ? hangUp() : `receipt ${world.push("charge")}`))] };
    });
    await graph.invoke({ log: [] }, thread);
    hangs = false;
    await expect(graph.invoke({ log: ["once more"] }, thread)).rejects.toMatchObject({
      code: "SESSION_HAS_OPEN_CALLS",
      data: { tool: "charge" },
    });
    expect(world).toEqual([]);
    await answer(saver, "receipt");
    expect((await graph.invoke(null, thread)).log.at(-1)).toBe("receipt 1");
  });

  test("parallel nodes continue", async () => {
    const saver = await freshSaver();
    let approved = false;
    const graph = new StateGraph(State)
      .addNode(
        "stuck",
        durableNode(saver, async (_state: Log, { effect }) => ({ log: [await effect("charge", hangUp)] })),
      )
      .addNode(
        "beside",
        durableNode(saver, async (_state: Log, { effect }) => {
          approved = interrupt("go on?") === "yes";
          return { log: [await effect("mail", () => "mailed")] };
        }),
      )
      .addEdge(START, "stuck")
      .addEdge(START, "beside")
      .compile({ checkpointer: saver });
    await graph.invoke({ log: [] }, thread);
    const { tasks } = await graph.getState(thread);
    const [question] = tasks.find(({ name }) => name === "beside")?.interrupts ?? [];
    await graph.invoke(new Command({ resume: { [question?.id as string]: "yes" } }), thread);
    expect(approved).toBe(true);
    await answer(saver, "receipt");
    expect((await graph.invoke(null, thread)).log.sort()).toEqual(["mailed", "receipt"]);
  });
});
