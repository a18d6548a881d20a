/** A person resolves a sub-agent's call as failed: none of its effects may happen afterwards. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, landed, type Tool, tool } from "../../src/index.ts";
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

const ann = { by: "ann", why: "the books show nothing" };
const same = { idempotent: true } as const;

/** A sub-agent that makes one call: of a tool, or of a sub-agent below it. */
function asking(name: string, id: string, below: Tool): Tool {
  const run = { model: script([callBlock(id, below.name)], "paid"), tools: [below], prompt: "go" };
  const spec = { name, description: name, input: z.looseObject({}) };
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

  /** All processes die with the charge of the innermost sub-agent under way. */
  async function killInside(wrap: (charge: Tool) => Tool): Promise<void> {
    const dying = fatal(world, "charge", same);
    const session = await bench.first.session();
    const model = script([callBlock("p1", "pay")]);
    session.run({ model, tools: [wrap(dying.tool)], prompt: "go" }).catch(() => undefined);
    await dying.reached;
    next = await bench.afterCrash();
  }
  const pay = (charge: Tool): Tool => asking("pay", "c1", charge);
  const fail = (callId: string) => next.holdfast.calls.resolve(callId, { outcome: "failed", ...ann });
  const sweep = () => next.holdfast.superviseOnce({ tools: [counting(world, "charge", same)] });
  const open = async () =>
    (await next.holdfast.calls.list()).calls.map(({ callId, status }) => [callId, status]).sort();

  test("is rejected while a call of the sub-agent is in doubt, with the commands to run first", async () => {
    await killInside(pay);
    await expect(fail("p1")).rejects.toMatchObject({
      code: "SESSION_HAS_OPEN_CALLS",
      message: expect.stringMatching(/sub-agent sub-\w+ nobody knows .*: charge c1 \(issued\)/),
      hint: expect.stringMatching(/holdfast resolve c1 landed\|failed --session sub-\w+/),
    });
    expect((await open()).map(([id]) => id)).toEqual(["c1", "p1"]);
  });

  test("works once that call is resolved, and nothing is charged afterwards", async () => {
    await killInside(pay);
    await fail("c1");
    await fail("p1");
    expect(await open()).toEqual([]);
    const { sessions } = await next.holdfast.sessions.list({ status: "cancelled" });
    expect(sessions.map(({ id }) => id)).toEqual([expect.stringMatching(/^sub-/)]);
    await sweep();
    expect(world.effects, "the charge of the process that died").toHaveLength(1);
  });

  test("a granted retry below it does not start any more", async () => {
    await killInside(pay);
    await next.holdfast.calls.resolve("c1", { outcome: "retry", ...ann });
    await fail("p1");
    await sweep();
    expect(world.effects).toHaveLength(1);
    expect(await open()).toEqual([["c1", "waiting"]]);
  });

  test("stops sub-agents of sub-agents, innermost first", async () => {
    await killInside((charge) => asking("pay", "m1", asking("hand-on", "c1", charge)));
    await expect(fail("p1")).rejects.toMatchObject({ message: expect.stringContaining("hand-on m1") });
    await expect(fail("m1")).rejects.toMatchObject({ message: expect.stringContaining("charge c1") });
    for (const id of ["c1", "m1", "p1"]) await fail(id);
    expect(await open()).toEqual([]);
    await sweep();
    expect(world.effects).toHaveLength(1);
  });

  test("is rejected while a process holds the sub-agent", async () => {
    await killInside(pay);
    const [held] = (await next.holdfast.calls.list()).calls.filter(({ callId }) => callId === "c1");
    await fail("c1");
    const other = await (await bench.another()).session(held?.session);
    await expect(fail("p1")).rejects.toMatchObject({ code: "SESSION_HELD" });
    await other.close();
    await fail("p1");
  });

  test("a supervisor starts nothing for a settled call: it verifies, or a person decides", async () => {
    await killInside(pay);
    // A program in which that tool is no longer a sub-agent and can verify.
    const session = await next.session();
    await session.settle([counting(world, "pay", { verify: () => landed("paid") })]);
    await session.close();
    await sweep();
    expect(world.effects).toHaveLength(1);
    expect(await open()).toEqual([["c1", "waiting"]]);
  });

  test("a supervisor settles the sub-agent's calls while the parent's call is open", async () => {
    await killInside(pay);
    expect((await sweep()).settled.map(({ callId }) => callId)).toContain("c1");
    expect(world.effects, "the same key once more").toHaveLength(2);
  });
});
