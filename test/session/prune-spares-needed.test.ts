import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Model, tool } from "../../src/index.ts";
import { durableNode, HoldfastSaver } from "../../src/integrations/langgraph/index.ts";
import { type Bench, callBlock, openBench, type Program, script, type World } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const DAY_MS = 86_400_000;

describe.each(storeSubjects())("prune spares, on $name", (subject) => {
  let bench: Bench;
  let world: World;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const charge = () =>
    tool({
      name: "charge",
      description: "charges",
      input: z.object({ order: z.number() }),
      effect: "mutate",
      execute: (_, { key }) => {
        world.effects.push(key);
        return "charged";
      },
    });

  /** A sub-agent that charges, then pauses until its parent resumes. */
  const sub = (maxTurns: number) =>
    agentTool({
      name: "sub",
      description: "charges an order",
      input: z.object({}),
      run: (_, child) => {
        const model: Model = script([callBlock("pay", "charge", { order: 4711 })], "paid");
        return child.run({ model, tools: [charge()], prompt: "charge it", maxTurns });
      },
    });

  const ask = async (program: Program, maxTurns: number) => {
    const session = await program.session("parent");
    const model: Model = script([callBlock("ask", "sub")], "done");
    const result = await session.run({ model, tools: [sub(maxTurns)], prompt: "go" });
    await session.close();
    return result;
  };

  test("the session of a sub-agent whose call is open, so its effects are not repeated", async () => {
    expect(await ask(bench.first, 1)).toMatchObject({ status: "waiting" });
    expect(world.effects).toHaveLength(1);
    bench.passMs(DAY_MS);
    const { sessions } = bench.first.holdfast;
    const id = (await sessions.list()).sessions.map((each) => each.id).find((each) => each !== "parent");
    const spared = expect.arrayContaining([{ id, why: "needed" }]);
    const old = { olderThanMs: 1000 };
    expect(await sessions.prune({ ...old, dryRun: true })).toMatchObject({ removed: [], spared });
    expect(await sessions.prune(old)).toMatchObject({ removed: [], spared });
    expect(await sessions.prune({ keep: 0 })).toMatchObject({ removed: [], spared });
    await expect(sessions.erase(id as string)).rejects.toMatchObject({
      code: "STREAM_BUSY",
      message: expect.stringContaining("what it works for is not finished"),
    });

    expect(await ask(bench.first, 5)).toMatchObject({ status: "done", text: "done" });
    expect(world.effects).toHaveLength(1);
    bench.passMs(DAY_MS);
    const { removed } = await sessions.prune(old);
    expect([...removed].sort()).toEqual([id, "parent"].sort());
  });

  test("the effects of a LangGraph thread while the thread exists", async () => {
    const { holdfast } = bench.first;
    const saver = new HoldfastSaver(holdfast);
    const State = Annotation.Root({ shipped: Annotation<string> });
    const pay = durableNode(saver, async (_: typeof State.State, { effect }) => {
      await effect("charge", () => void world.effects.push("charge"));
      return { shipped: interrupt("ship it?") as string };
    });
    const graph = new StateGraph(State)
      .addNode("pay", pay)
      .addEdge(START, "pay")
      .addEdge("pay", END)
      .compile({ checkpointer: saver });
    const config = { configurable: { thread_id: "order-1" } };
    await graph.invoke({}, config);
    bench.passMs(DAY_MS);
    const spared = [{ id: "langgraph.order-1", why: "needed" }];
    const old = { olderThanMs: 1000 };
    expect(await holdfast.sessions.prune(old)).toMatchObject({ removed: [], spared });
    expect(await graph.invoke(new Command({ resume: "yes" }), config)).toEqual({ shipped: "yes" });
    expect(world.effects).toEqual(["charge"]);
    await saver.deleteThread("order-1");
    expect((await holdfast.sessions.list()).sessions).toEqual([]);
  });

  test("a session that was changed after it was chosen", async () => {
    const { holdfast } = bench.first;
    for (const id of ["a", "b"]) await (await bench.first.session(id)).close();
    bench.passMs(DAY_MS);
    const other = await bench.another();
    const { store } = holdfast.journal;
    const remove = store.remove.bind(store);
    const late: string[] = [];
    store.remove = async (request) => {
      // While the first is being removed, another process continues the second.
      if (late.length === 0 && request.of === "stream") {
        const id = request.stream === "session/a" ? "b" : "a";
        late.push(id);
        const session = await other.session(id);
        await session.append({ role: "user", text: "one more thing" });
        await session.close();
      }
      return remove(request);
    };
    const report = await holdfast.sessions.prune({ olderThanMs: 1000 });
    expect(report.spared).toEqual([{ id: late[0], why: "changed" }]);
    expect((await other.holdfast.sessions.get(late[0] as string)).messages).toHaveLength(1);
  });
});
