// A call that waits for a person may have happened. Until the person answers, its key stays taken.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Block, Model, Session, Tool } from "../../src/index.ts";
import { storeSubjects } from "../subjects.ts";
import { type Bench, callBlock, counting, openBench, script, type World } from "./bench.ts";

const ORDER = { order: 17 };
const CHARGE = `charge ${JSON.stringify(ORDER)}`;

describe.each(storeSubjects())("while a call waits for a person on $name", (subject) => {
  let bench: Bench;
  let world: World;
  let session: Session;
  let charge: Tool;
  let log: Tool;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
    session = await bench.first.session();
    // Every charge lands. The first answer is lost.
    charge = counting(world, "charge", {
      execute: (args) => {
        world.effects.push(`charge ${JSON.stringify(args)}`);
        if (world.effects.length === 1) throw new Error("socket hang up");
        return "charged";
      },
    });
    log = counting(world, "log");
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const callDirectly = (id: string) => session.call({ tool: charge, args: ORDER, callId: id });

  async function leaveWaiting(): Promise<void> {
    expect(await callDirectly("c1")).toMatchObject({ status: "waiting" });
    expect(world.effects).toEqual([CHARGE]);
  }

  async function personSaysLanded(): Promise<void> {
    const said = { by: "ann", why: "in the vendor's books" };
    await bench.first.holdfast.calls.resolve("c1", { outcome: "landed", result: "charged", ...said });
  }

  const callsOnRecord = async () => {
    const { calls } = await bench.first.holdfast.sessions.get("alpha");
    return calls.map(({ callId: id, status }) => `${id} ${status}`);
  };

  test("session.call with its key does not run, and repeats its result after the person's answer", async () => {
    await leaveWaiting();
    const second = await callDirectly("c2");
    expect(world.effects).toEqual([CHARGE]);
    expect(second).toMatchObject({ status: "waiting" });
    expect(await callsOnRecord()).toEqual(["c1 waiting"]);
    await personSaysLanded();
    expect(await callDirectly("c2")).toMatchObject({ status: "completed", value: "charged" });
    expect(world.effects).toEqual([CHARGE]);
  });

  /** A run starts no turn while a call is open, so the direct call goes out while the model thinks. */
  function runWithCalls(parallel: number, ...blocks: Block[]): () => ReturnType<Session["run"]> {
    const answers = script(blocks);
    const model: Model = async (request) => {
      if (answers.asked === 0) await leaveWaiting();
      return answers(request);
    };
    return () => session.run({ model, tools: [charge, log], parallel, prompt: { id: "p1", text: "go" } });
  }

  test("a message's call with its key does not run, and repeats its result after the person's answer", async () => {
    const run = runWithCalls(1, callBlock("c2", "charge", ORDER));
    const result = await run();
    expect(world.effects).toEqual([CHARGE]);
    expect(result).toMatchObject({ status: "waiting" });
    expect(await callsOnRecord()).toEqual(["c1 waiting"]);
    await personSaysLanded();
    expect(await run()).toMatchObject({ status: "done" });
    expect(await callsOnRecord()).toEqual(["c1 completed", "c2 repeated"]);
    expect(world.effects).toEqual([CHARGE]);
  });

  test("a wave runs its other calls, but not the one with that key", async () => {
    const run = runWithCalls(2, callBlock("c2", "charge", ORDER), callBlock("c3", "log"));
    const result = await run();
    expect(world.effects).toEqual([CHARGE, "log {}"]);
    expect(result).toMatchObject({ status: "waiting" });
    expect(await callsOnRecord()).toEqual(["c1 waiting", "c3 completed"]);
    await personSaysLanded();
    expect(await run()).toMatchObject({ status: "done" });
    expect(await callsOnRecord()).toEqual(["c1 completed", "c3 completed", "c2 repeated"]);
    expect(world.effects).toEqual([CHARGE, "log {}"]);
  });

  test.each([1, 2])(
    "the same call later in its own message does not run (parallel: %i)",
    async (parallel) => {
      const model = script([callBlock("c1", "charge", ORDER), callBlock("c2", "charge", ORDER)]);
      const run = () => session.run({ model, tools: [charge], parallel, prompt: { id: "p1", text: "go" } });
      const result = await run();
      expect(world.effects).toEqual([CHARGE]);
      expect(result).toMatchObject({ status: "waiting" });
      expect(await callsOnRecord()).toEqual(["c1 waiting"]);
      await personSaysLanded();
      expect(await run()).toMatchObject({ status: "done" });
      expect(await callsOnRecord()).toEqual(["c1 completed", "c2 repeated"]);
      expect(world.effects).toEqual([CHARGE]);
    },
  );
});
