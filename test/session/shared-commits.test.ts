/** Calls that share a commit with their message or with the call before (decision 029): nothing is lost. */

import { afterAll, describe, expect, test } from "vitest";
import type { Block, Tool } from "../../src/index.ts";
import { callBlock, counting, openBench, type World } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((each) => each.dispose())));

const answer = (id: string, ...blocks: Block[]) => ({ id, role: "assistant", blocks }) as const;
const statuses = (calls: Iterable<{ callId: string; status: string }>): Record<string, string> =>
  Object.fromEntries([...calls].map(({ callId, status }) => [callId, status]));

describe.each(subjects)('with settle: "with-next" on $name', (subject) => {
  const put = (pay: Tool, session: { call: (direct: never) => unknown }, callId: string) =>
    session.call({ tool: pay, args: { callId }, callId, settle: "with-next" } as never) as Promise<{
      status: string;
      recorded: boolean;
      replayed: boolean;
      value: unknown;
    }>;

  test("an outcome is kept until the next intent, and every other act makes it durable first", async () => {
    const bench = await openBench(subject);
    const other = await bench.another();
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const session = await bench.first.session();
    const log = async () => statuses((await other.holdfast.sessions.get("alpha")).calls);
    expect(await put(pay, session, "c1")).toMatchObject({ status: "completed", recorded: false });
    expect(await log()).toEqual({ c1: "issued" });
    await put(pay, session, "c2");
    expect(await log()).toEqual({ c1: "completed", c2: "issued" });
    const acts: readonly (() => Promise<unknown>)[] = [
      () => session.append({ role: "user", text: "Go on." }),
      () => session.checkpoint(),
      () => session.setPlan(null),
      () => session.fork("beta"),
      () => session.call({ tool: pay, args: { last: true }, callId: "last" }),
    ];
    for (const [index, act] of acts.entries()) {
      const callId = `act-${index}`;
      await put(pay, session, callId);
      expect((await log())[callId]).toBe("issued");
      await act();
      expect((await log())[callId]).toBe("completed");
    }
    await put(pay, session, "c9");
    await session.close();
    expect(await log()).toMatchObject({ c9: "completed" });
    expect(world.effects).toHaveLength(2 + acts.length + 2);
    await bench.dispose();
  });

  test("a kept outcome of a killed process is unknown, and is settled like any interrupted call", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const keyed = counting(world, "pay", { idempotent: true });
    const plain = counting(world, "mail");
    const session = await bench.first.session();
    await put(keyed, session, "c1");
    await put(plain, session, "c2");
    const next = await (await bench.afterCrash()).session();
    expect(statuses(next.openCalls)).toEqual({ c2: "unknown" });
    expect(await put(keyed, next, "c1")).toMatchObject({ status: "completed", replayed: true });
    expect(await put(plain, next, "c2")).toMatchObject({ status: "waiting" });
    expect(world.effects).toEqual(['pay {"callId":"c1"}', 'mail {"callId":"c2"}']);
    await bench.dispose();
  });

  test("a kept call that is asked for again gives its result, and does not run again", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const session = await bench.first.session();
    await put(pay, session, "c1");
    expect(await put(pay, session, "c1")).toMatchObject({ replayed: true, recorded: true });
    const same = { tool: pay, args: { callId: "c1" }, callId: "c2", settle: "with-next" } as const;
    await put(pay, session, "c3");
    expect(await session.call({ ...same, args: { callId: "c3" } })).toMatchObject({
      status: "completed",
      replayed: true,
    });
    expect(world.effects).toHaveLength(2);
    await session.close();
    await bench.dispose();
  });

  test("a tool that changes its result afterwards does not change its record", async () => {
    const bench = await openBench(subject);
    const shared = { rows: ["a"] };
    const read = counting({ effects: [] }, "list", { execute: () => shared });
    const session = await bench.first.session();
    await put(read, session, "c1");
    shared.rows.push("b");
    await session.checkpoint();
    expect(await put(read, session, "c1")).toMatchObject({ value: { rows: ["a"] } });
    await bench.dispose();
  });

  test("a failure and an unknown outcome are recorded at once", async () => {
    const bench = await openBench(subject);
    const other = await bench.another();
    const broken = counting({ effects: [] }, "pay", { execute: () => Promise.reject(new Error("reset")) });
    const refused = counting({ effects: [] }, "mail", {
      execute: () => Promise.reject(new Error("no")),
      definite: () => true,
    });
    const session = await bench.first.session();
    await put(broken, session, "c1");
    await put(refused, session, "c2");
    const { calls } = await other.holdfast.sessions.get("alpha");
    expect(statuses(calls)).toEqual({ c1: "waiting", c2: "failed" });
    await bench.dispose();
  });

  test("an owner that lost the session records its kept answers as late ones", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const session = await bench.first.session();
    await put(pay, session, "c1");
    const next = await (await bench.afterCrash()).session();
    expect(statuses(next.openCalls)).toEqual({ c1: "unknown" });
    await expect(put(pay, session, "c2")).rejects.toMatchObject({ code: "LEASE_LOST" });
    await next.refresh();
    expect(statuses(next.openCalls)).toEqual({});
    expect(await put(pay, next, "c1")).toMatchObject({ status: "completed", replayed: true });
    expect(world.effects).toHaveLength(1);
    await bench.dispose();
  });

  test("a cancelled session still gets the outcomes that it is owed", async () => {
    const bench = await openBench(subject);
    const other = await bench.another();
    const pay = counting({ effects: [] }, "pay");
    const session = await bench.first.session();
    await put(pay, session, "c1");
    await other.holdfast.sessions.cancel("alpha", { by: "ann" });
    await expect(put(pay, session, "c2")).rejects.toMatchObject({ code: "SESSION_ENDED" });
    await session.close();
    const { calls } = await other.holdfast.sessions.get("alpha");
    expect(statuses(calls)).toEqual({ c1: "completed" });
    await bench.dispose();
  });
});

describe.each(subjects)("with calls issued by append on $name", (subject) => {
  test("the calls run once, with results in the transcript, also if others are deferred", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const look = counting(world, "look", { effect: "read" });
    const session = await bench.first.session();
    const blocks = [
      callBlock("c1", "pay", { n: 1 }),
      callBlock("c2", "pay", { n: 1 }),
      callBlock("c3", "look"),
      callBlock("c4", "pay", { n: 2 }),
      callBlock("c5", "none"),
    ];
    const tools = [pay, look];
    const message = await session.append(answer("m1", ...blocks), { issue: tools, parallel: 3 });
    expect(world.effects).toEqual([]);
    expect(statuses(session.openCalls)).toEqual({ c1: "issued" });
    const outcome = await session.calls(message, tools, { parallel: 1 });
    expect(outcome).toMatchObject({ done: true, count: 5 });
    expect([...world.effects].sort()).toEqual(["look {}", 'pay {"n":1}', 'pay {"n":2}']);
    expect(session.messages.at(-1)?.blocks).toHaveLength(5);
    await bench.dispose();
  });

  test("an append that is repeated issues nothing again", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const tools = [counting(world, "pay")];
    const session = await bench.first.session();
    const input = answer("m1", callBlock("c1", "pay"));
    await session.append(input, { issue: tools });
    const message = await session.append(input, { issue: tools });
    await session.calls(message, tools);
    expect(await session.append(input, { issue: tools })).toMatchObject({ id: "m1" });
    expect(world.effects).toHaveLength(1);
    await bench.dispose();
  });

  test("run, calls and settle start issued calls that were left, each once", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const tools = [counting(world, "pay")];
    const session = await bench.first.session();
    await session.append(answer("m1", callBlock("c1", "pay", { n: 1 })), { issue: tools });
    const model = async () => ({ message: { text: "done" } });
    expect(await session.run({ model, tools })).toMatchObject({ status: "done" });
    await session.append({ role: "user", text: "More." });
    const second = await session.append(answer("m2", callBlock("c2", "pay", { n: 2 })), { issue: tools });
    await session.settle(tools);
    await session.calls(second, tools);
    expect(world.effects).toEqual(['pay {"n":1}', 'pay {"n":2}']);
    await bench.dispose();
  });

  test("a session that is closed records them as not started, and the next owner starts them", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const tools = [counting(world, "pay")];
    const session = await bench.first.session();
    await session.append(answer("m1", callBlock("c1", "pay")), { issue: tools });
    await session.close();
    const next = await (await bench.another()).session();
    expect(next.openCalls).toMatchObject([{ callId: "c1", status: "unknown", doubt: null }]);
    expect(await next.calls(next.unfinished as never, tools)).toMatchObject({ done: true });
    expect(world.effects).toHaveLength(1);
    await bench.dispose();
  });

  test("a killed process leaves calls that may have started: a person decides", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const tools = [counting(world, "pay")];
    const session = await bench.first.session();
    await session.append(answer("m1", callBlock("c1", "pay")), { issue: tools });
    const next = await (await bench.afterCrash()).session();
    expect(await next.calls(next.unfinished as never, tools)).toMatchObject({ done: false, waiting: ["c1"] });
    expect(world.effects).toEqual([]);
    await bench.dispose();
  });

  test("a cancellation that comes before the calls keeps them from starting", async () => {
    const bench = await openBench(subject);
    const other = await bench.another();
    const world: World = { effects: [] };
    const tools = [counting(world, "pay")];
    const session = await bench.first.session();
    const message = await session.append(answer("m1", callBlock("c1", "pay")), { issue: tools });
    await other.holdfast.sessions.cancel("alpha", { by: "ann" });
    await session.refresh();
    await expect(session.calls(message, tools)).rejects.toMatchObject({ code: "SESSION_ENDED" });
    expect(world.effects).toEqual([]);
    await session.close();
    await bench.dispose();
  });

  test("a message whose schema has to be awaited is appended alone", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const tools = [counting(world, "pay", { needsApproval: async () => false })];
    const session = await bench.first.session();
    const message = await session.append(answer("m1", callBlock("c1", "pay")), { issue: tools });
    expect(session.openCalls).toEqual([]);
    expect(await session.calls(message, tools)).toMatchObject({ done: true });
    expect(world.effects).toHaveLength(1);
    await bench.dispose();
  });
});
