/** A person resolves a sub-agent's call as landed or retry: nothing below it is lost or happens twice. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { type Amounts, agentTool, type Session, type Tool, tool } from "../../src/index.ts";
import {
  type Bench,
  callBlock,
  counting,
  fatal,
  openBench,
  type Program,
  script,
  type World,
} from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const ann = { by: "ann", why: "the books show it" };

/**
 * A sub-agent that makes one call: of a tool, or of a sub-agent below it. Each question to its model costs
 * 0.01.
 */
function asking(name: string, id: string, below: Tool, budget: Amounts): Tool {
  const model = async ({ messages }: { messages: readonly { role: string }[] }) => ({
    message: messages.at(-1)?.role === "tool" ? { text: "paid" } : { blocks: [callBlock(id, below.name)] },
    usage: { usd: 0.01 },
  });
  const run = { model, tools: [below], prompt: "go" };
  const spec = { name, description: name, input: z.looseObject({}), budget };
  return tool(agentTool({ ...spec, run: (_args, child) => child.run(run) }));
}

describe.each(storeSubjects())("on $name", (subject) => {
  let bench: Bench;
  let world: World;
  let next: Program;

  beforeEach(async () => {
    bench = await openBench(subject);
    world = { effects: [] };
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  const pay = (charge: Tool): Tool => asking("pay", "c1", charge, { usd: 0.5 });
  const payDeep = (charge: Tool): Tool => {
    return asking("pay", "m1", asking("hand-on", "c1", charge, { usd: 0.3 }), { usd: 0.5 });
  };
  /** All processes die with the charge of the innermost sub-agent under way. */
  async function killInside(wrap: (charge: Tool) => Tool, budget?: Amounts): Promise<void> {
    const dying = fatal(world, "charge");
    const session = await bench.first.session();
    const tools = [wrap(dying.tool)];
    const options = { model: script([callBlock("p1", "pay")]), tools, prompt: "go" };
    session.run({ ...options, ...(budget && { budget }) }).catch(() => undefined);
    await dying.reached;
    next = await bench.afterCrash();
  }
  const say = (callId: string, outcome: "landed" | "failed" | "retry") =>
    next.holdfast.calls.resolve(callId, { outcome, ...ann });
  const goOn = async (session: Session) =>
    session.run({ model: script("done"), tools: [pay(counting(world, "charge"))], patienceMs: 0 });
  const budget = async () => (await next.holdfast.sessions.get("alpha")).budget;
  const statuses = async () =>
    Object.fromEntries(
      (await next.holdfast.sessions.list()).sessions.map(({ id, status }) => [id.slice(0, 4), status]),
    );

  test("landed is rejected while a sub-agent's call is in doubt, with the commands to run", async () => {
    await killInside(pay, { usd: 2 });
    await expect(say("p1", "landed")).rejects.toMatchObject({
      code: "SESSION_HAS_OPEN_CALLS",
      message: expect.stringMatching(
        /p1 cannot be said to have landed: .* sub-\w+ nobody knows .*: charge c1/,
      ),
      hint: expect.stringMatching(/holdfast resolve c1 landed\|failed --session sub-\w+/),
    });
    expect(await statuses()).toEqual({ alph: "active", "sub-": "active" });
    expect((await budget()).reserved).toEqual({ "child:p1": { usd: 0.5 } });
  });

  test.each(["landed", "failed"] as const)(
    "without calls in doubt, %s ends the sub-agent and costs what it spent",
    async (outcome) => {
      await killInside(pay, { usd: 2 });
      await say("c1", "landed");
      await say("p1", outcome);
      expect(await statuses()).toEqual({ alph: "active", "sub-": "cancelled" });
      expect(await budget()).toMatchObject({ spent: { usd: 0.02 }, reserved: {} });
      const session = await next.session();
      expect(await goOn(session)).toMatchObject({ status: "done", waiting: [] });
      expect(world.effects).toHaveLength(1);
    },
  );

  test("the same without limits, when nothing was reserved", async () => {
    await killInside(pay);
    await say("c1", "landed");
    await say("p1", "landed");
    expect(await budget()).toMatchObject({ spent: { usd: 0.02 }, reserved: {} });
  });

  test("reservations for sub-agents of a sub-agent do not count as spent", async () => {
    await killInside(payDeep, { usd: 2 });
    await expect(say("p1", "landed")).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
    await say("c1", "landed");
    // After a person's retry the call is no longer in doubt, but its sub-agent has still spent money.
    await say("m1", "retry");
    await say("p1", "landed");
    expect(await budget()).toMatchObject({ spent: { usd: 0.03 }, reserved: {} });
    const { sessions } = await next.holdfast.sessions.list({ status: "cancelled" });
    expect(sessions, "both sub-agents").toHaveLength(2);
  });

  test("a finished sub-agent keeps its answer and stays completed", async () => {
    const before = await bench.first.session();
    await before.limit({ usd: 2 });
    // The process dies between the end of the sub-agent and the record of it.
    let reach = (): void => undefined;
    const reached = new Promise<void>((resolve) => {
      reach = resolve;
    });
    const research = agentTool({
      name: "pay",
      description: "pay",
      input: z.looseObject({}),
      budget: { usd: 0.5 },
      run: async (_args, child) => {
        await child.run({ model: script("found"), prompt: "go" });
        await child.complete();
        reach();
        return new Promise(() => undefined);
      },
    });
    before.call({ tool: tool(research), args: {}, callId: "p1" }).catch(() => undefined);
    await reached;
    next = await bench.afterCrash();
    await say("p1", "landed");
    expect(await statuses()).toEqual({ alph: "active", "sub-": "completed" });
    expect(await budget()).toMatchObject({ spent: { usd: 0.01 }, reserved: {} });
  });

  test("retry continues the sub-agent: its calls in doubt wait for a person", async () => {
    await killInside(pay, { usd: 2 });
    await say("p1", "retry");
    const session = await next.session();
    const waiting = await goOn(session);
    expect(waiting).toMatchObject({ status: "waiting", waiting: [{ callId: "p1", person: true }] });
    expect(world.effects, "the charge of the process that died").toHaveLength(1);
    await expect(say("p1", "failed")).rejects.toThrow();
    await say("c1", "landed");
    expect(await goOn(session)).toMatchObject({ status: "done", waiting: [] });
    expect(world.effects).toHaveLength(1);
    // Two questions of its own, two of the sub-agent, and nothing of the reservation.
    expect(session.budget).toMatchObject({ spent: { usd: 0.04 }, reserved: {} });
    const [call] = (await next.holdfast.sessions.get("alpha")).calls;
    expect(call).toMatchObject({ callId: "p1", status: "completed", result: { value: { text: "paid" } } });
  });
});
