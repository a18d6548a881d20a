/** A person approves or denies a call that has not run, perhaps with other arguments or only for a while. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import type { Tool, ToolSpec } from "../../src/index.ts";
import { RecordedTurns } from "../../src/integrations/recorded-turns/index.ts";
import { type Bench, callBlock, counting, openBench, type Program } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((subject) => subject.dispose())));

describe.each(subjects)("a call that waits for approval on '$name'", (subject) => {
  let bench: Bench;
  const world = { effects: [] as string[] };
  beforeEach(async () => {
    bench = await openBench(subject);
    world.effects.length = 0;
  });
  afterEach(() => bench.dispose());

  const pay = (spec: Partial<ToolSpec<Record<string, unknown>, unknown>> = {}): Tool =>
    counting(world, "pay", { input: z.looseObject({ eur: z.number() }) as never, ...spec });

  /** A program that asks the model again and runs its calls. Each call of `pay` needs approval. */
  async function start(program: Program, amounts: readonly number[], tool = pay()) {
    const turns = new RecordedTurns(await program.session());
    const blocks = amounts.map((eur, at) => callBlock(`c${at + 1}`, "pay", { eur }));
    const question = { prompt: [{ role: "user", content: "go" }] as never };
    await turns.ask(question, async () => ({ blocks }));
    const run = (at: number) =>
      turns.call({ tool, callId: `c${at}`, args: { eur: amounts[at - 1] ?? 0 }, needsApproval: true });
    return { run, session: turns.session };
  }

  const callsOf = async ({ holdfast }: Program) => (await holdfast.sessions.get("alpha")).calls;

  test.each([
    [() => "over the limit", "pay needs approval: over the limit"],
    [async () => "over the limit", "pay needs approval: over the limit"],
    [() => "", "pay needs approval"],
  ])("shows the reason that its tool gives", async (needsApproval, why) => {
    const session = await bench.first.session();
    const args = { eur: 70 };
    const outcome = await session.call({ tool: pay({ needsApproval }), args, callId: "c1" });
    expect(outcome).toMatchObject({ status: "waiting", why });
    expect(world.effects).toEqual([]);
  });

  test("runs once after it is approved, also by another process", async () => {
    const first = await start(bench.first, [70]);
    expect(await first.run(1)).toMatchObject({ status: "waiting" });
    const next = await bench.afterCrash();
    await next.holdfast.calls.approve("c1", { by: "ann" });
    const again = await start(next, [70]);
    expect(await again.run(1)).toMatchObject({ status: "completed" });
    expect(await again.run(1)).toMatchObject({ status: "completed", replayed: true });
    expect(world.effects).toEqual(['pay {"eur":70}']);
  });

  test("fails once denied, and the model reads why", async () => {
    const { run } = await start(bench.first, [70]);
    await run(1);
    await bench.first.holdfast.calls.deny("c1", { by: "ann", why: "too much" });
    expect(await run(1)).toMatchObject({ status: "failed", error: { message: "ann denied it: too much" } });
    expect(world.effects).toEqual([]);
  });

  test("runs with the arguments that the person chose, under their key, and says so", async () => {
    const { run, session } = await start(bench.first, [70, 70]);
    await run(1);
    await bench.first.holdfast.calls.approve("c1", { by: "ann", args: { eur: 50 } });
    const next = await bench.afterCrash();
    const again = await start(next, [70, 70]);
    expect(await again.run(1)).toMatchObject({ status: "completed" });
    expect(world.effects).toEqual(['pay {"eur":50}']);
    const [call] = await callsOf(next);
    expect(call).toMatchObject({ args: { eur: 50 }, asked: { args: { eur: 70 }, changedBy: "ann" } });
    // The key of the old arguments is free: nothing was done under it.
    expect(await again.run(2)).toMatchObject({ status: "waiting" });
    await next.holdfast.calls.deny("c2", { by: "ann", why: "no" });
    await again.run(2);
    const told = JSON.stringify(again.session.messages.at(-1)?.blocks);
    expect(told).toContain("ann changed the arguments to");
    expect(session.id).toBe("alpha");
  });

  test("is not made twice by an approval that turns it into an earlier call", async () => {
    const { run } = await start(bench.first, [50, 70]);
    const { calls } = bench.first.holdfast;
    await run(1);
    await calls.approve("c1", { by: "ann" });
    await run(1);
    await run(2);
    await calls.approve("c2", { by: "ann", args: { eur: 50 } });
    expect(await run(2)).toMatchObject({ status: "waiting", why: expect.stringContaining("call c1") });
    expect(world.effects).toEqual(['pay {"eur":50}']);
    await calls.approve("c2", { by: "ann", args: { eur: 60 } });
    expect(await run(2)).toMatchObject({ status: "completed" });
    expect(world.effects).toEqual(['pay {"eur":50}', 'pay {"eur":60}']);
  });

  test("keeps a once-ever key apart from the one of the changed arguments", async () => {
    const global = pay({ dedupe: "global" });
    const { run } = await start(bench.first, [70], global);
    await run(1);
    await bench.first.holdfast.calls.approve("c1", { by: "ann", args: { eur: 50 } });
    expect(await run(1)).toMatchObject({ status: "completed" });
    const other = await bench.first.session("other");
    const direct = (eur: number) => other.call({ tool: global, args: { eur } });
    expect(await direct(50)).toMatchObject({ status: "completed", replayed: true });
    expect(await direct(70)).toMatchObject({ status: "completed", replayed: false });
    expect(world.effects).toEqual(['pay {"eur":50}', 'pay {"eur":70}']);
  });

  test("waits again if the tool refuses the arguments that the person chose", async () => {
    const { run } = await start(bench.first, [70]);
    await run(1);
    await bench.first.holdfast.calls.approve("c1", { by: "ann", args: { eur: "much" } });
    expect(await run(1)).toMatchObject({ status: "waiting", why: expect.stringContaining("refuses") });
    await bench.first.holdfast.calls.approve("c1", { by: "ann", args: { eur: 5 } });
    expect(await run(1)).toMatchObject({ status: "completed" });
    expect(world.effects).toEqual(['pay {"eur":5}']);
  });

  test("waits again once its approval has expired", async () => {
    const { run } = await start(bench.first, [70]);
    await run(1);
    const { calls } = bench.first.holdfast;
    await calls.approve("c1", { by: "ann", expiresInMs: 60_000 });
    bench.passMs(60_000);
    expect(await run(1)).toMatchObject({ status: "waiting", why: expect.stringContaining("expired") });
    expect(world.effects).toEqual([]);
    await calls.approve("c1", { by: "ann", expiresInMs: 60_000 });
    expect(await run(1)).toMatchObject({ status: "completed" });
    expect(world.effects).toHaveLength(1);
  });

  test("is not resolved, and a call that may have run is not approved", async () => {
    const { run } = await start(bench.first, [70]);
    await run(1);
    const { calls } = bench.first.holdfast;
    const said = { by: "ann", why: "so" };
    for (const outcome of ["landed", "retry", "failed"] as const) {
      const answer = calls.resolve("c1", { outcome, ...said });
      await expect(answer).rejects.toMatchObject({
        code: "CALL_TRANSITION",
        hint: expect.stringMatching(/approve.*deny/),
      });
    }
    const dying = pay({ execute: () => Promise.reject(new Error("timeout")) });
    const session = await bench.first.session("other");
    expect(await session.call({ tool: dying, args: { eur: 1 }, callId: "d1" })).toMatchObject({
      status: "waiting",
    });
    for (const answer of ["approve", "deny"] as const) {
      const refused = calls[answer]("d1", said);
      await expect(refused).rejects.toMatchObject({
        code: "CALL_TRANSITION",
        hint: expect.stringMatching(/resolve d1/),
      });
    }
  });
});
