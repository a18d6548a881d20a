/** The cost of a turn and of a request in commits, counted by the store (decision 029). */

import { afterAll, describe, expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import { countCommits } from "../count-commits.ts";
import { callBlock, counting, script, type World } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((each) => each.dispose())));

const five = ["c1", "c2", "c3", "c4", "c5"];

describe.each(subjects)("on $name", (subject) => {
  test.each([
    { what: "one call", ids: ["c1"], options: {} },
    { what: "a wave of five", ids: five, options: {} },
    { what: "one call and a budget", ids: ["c1"], options: { budget: { usd: 1 } } },
    { what: "a wave of five and a budget", ids: five, options: { budget: { usd: 1 } } },
  ])("a turn with $what takes two commits, and a plain answer one", async ({ ids, options }) => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const blocks = ids.map((id) => callBlock(id, "pay", { id }));
    const session = await holdfast.session("alpha");
    const seen: number[] = [];
    const answers = script(blocks, "paid");
    const model = (request: Parameters<typeof answers>[0]) => {
      seen.push(count());
      return answers(request);
    };
    const before = count();
    await session.run({ model, tools: [pay], prompt: "Pay.", ...options });
    const [first = 0, second = 0] = seen;
    expect({ prompt: first - before, turn: second - first, answer: count() - second }).toEqual({
      prompt: 1,
      turn: 2,
      answer: 1,
    });
    expect(world.effects).toHaveLength(ids.length);
    await holdfast.close();
    await opened.dispose();
  });

  test.each([
    { what: "a new session", options: {}, before: 0 },
    { what: "a session that was left", options: {}, before: 2 },
    { what: "a budget", options: { budget: { usd: 1 } }, before: 1 },
  ])("a request takes two commits: $what", async ({ options, before }) => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    for (let index = 0; index < before; index++) {
      await holdfast.run("chat", { model: script(`earlier ${index}`), prompt: `Question ${index}` });
    }
    const start = count();
    let asked = 0;
    const answers = script("Tomorrow.");
    const model = (request: Parameters<typeof answers>[0]) => {
      asked = count();
      return answers(request);
    };
    const result = await holdfast.run("chat", { model, prompt: "When?", ...options });
    expect(result).toMatchObject({ status: "done", text: "Tomorrow." });
    expect({ prompt: asked - start, answer: count() - asked }).toEqual({ prompt: 1, answer: 1 });
    const [lease] = (await holdfast.journal.list<"leases">({ of: "leases", limit: 1 })).rows;
    expect(lease).toMatchObject({ holder: null, token: before + 1 });
    await holdfast.close();
    await opened.dispose();
  });

  test.each([
    { what: "one call", ids: ["c1"] },
    { what: "a wave of five", ids: five },
  ])("a turn of an own loop takes two commits with $what, if append issues it", async ({ ids }) => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const session = await holdfast.session("alpha");
    const blocks = ids.map((id) => callBlock(id, "pay", { id }));
    const before = count();
    const message = await session.append({ role: "assistant", blocks }, { issue: [pay] });
    expect(count() - before).toBe(1);
    expect(await session.calls(message, [pay])).toMatchObject({ done: true });
    expect(count() - before).toBe(2);
    expect(world.effects).toHaveLength(ids.length);
    await holdfast.close();
    await opened.dispose();
  });

  test("n consecutive calls take 2n commits, and n + 1 if each is settled with the next", async () => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    const world: World = { effects: [] };
    const pay = counting(world, "pay");
    const session = await holdfast.session("alpha");
    const before = count();
    for (const n of [1, 2, 3]) await session.call({ tool: pay, args: { n } });
    expect(count() - before).toBe(6);
    for (const n of [4, 5, 6]) await session.call({ tool: pay, args: { n }, settle: "with-next" });
    expect(count() - before).toBe(9);
    await session.close();
    expect(count() - before).toBe(11); // The last outcome, and the lease.
    expect(world.effects).toHaveLength(6);
    await holdfast.close();
    await opened.dispose();
  });

  test("opening a session takes one commit, closing it another", async () => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    const session = await holdfast.session("alpha");
    expect(count()).toBe(1);
    await session.close();
    expect(count()).toBe(2);
    await (await holdfast.session("alpha")).close();
    expect(count()).toBe(4);
    await holdfast.close();
    await opened.dispose();
  });

  test("a request to a session that another program holds waits for it, and then reads its events", async () => {
    const opened = await subject.open();
    const first = new Holdfast(new Journal({ store: opened.store }));
    const second = new Holdfast(new Journal({ store: await opened.another() }));
    const holder = await first.session("chat");
    const waiting = second.run("chat", { model: script("done"), prompt: "Go on." });
    await holder.append({ role: "user", text: "First." });
    await holder.append({ role: "assistant", text: "Yes." });
    await holder.close();
    expect(await waiting).toMatchObject({ status: "done", text: "done" });
    expect((await second.sessions.get("chat"))?.messages).toHaveLength(4);
    await expect(
      second.run("chat", { model: script("x"), prompt: "Now.", ifHeld: "throw" }),
    ).resolves.toMatchObject({ status: "done" });
    const again = await first.session("chat");
    await expect(
      second.run("chat", { model: script("x"), prompt: "Later.", ifHeld: "throw" }),
    ).rejects.toMatchObject({ code: "SESSION_HELD" });
    expect(again.messages).toHaveLength(6);
    await first.close();
    await second.close();
    await opened.dispose();
  });
});
