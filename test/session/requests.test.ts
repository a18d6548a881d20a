/** Requests (`holdfast.run`) that meet other owners: one answer, one booking, no wait without an end. */

import { afterAll, describe, expect, test, vi } from "vitest";
import { Holdfast, Journal, type Model, open } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { callBlock, counting, fatal, openBench, script, type World } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((each) => each.dispose())));

function resolvable(): { promise: Promise<void>; resolve(): void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** A model that answers once `answer` is called. */
function slowModel(text: string): { model: Model; asked: Promise<void>; answer(): void } {
  const question = resolvable();
  const answer = resolvable();
  const model: Model = async () => {
    question.resolve();
    await answer.promise;
    return { message: { text } };
  };
  return { model, asked: question.promise, answer: answer.resolve };
}

/** Calls `before` ahead of the first append that takes a lease. */
function beforeTaking(store: Store, before: () => Promise<unknown>): Store {
  let isFirst = true;
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "append") return value.bind(target);
      return async (batch: Parameters<Store["append"]>[0]) => {
        const isMeant = isFirst && batch.lease?.act === "take";
        if (isMeant) isFirst = false;
        if (isMeant) await before();
        return target.append(batch);
      };
    },
  });
}

describe.each(subjects)("on $name", (subject) => {
  test.each([
    { what: "with the same prompt id", prompt: { id: "p1", text: "When?" } },
    { what: "without a prompt", prompt: undefined },
  ])("a request $what waits for the program that asks the model, and gets its answer", async ({ prompt }) => {
    const opened = await subject.open();
    const first = new Holdfast(new Journal({ store: opened.store }));
    const second = new Holdfast(new Journal({ store: await opened.another() }));
    const slow = slowModel("Tomorrow.");
    const running = first.run("chat", { model: slow.model, prompt: { id: "p1", text: "When?" } });
    await slow.asked;
    const other = script("Never.");
    const options = prompt === undefined ? {} : { prompt };
    const repeated = second.run("chat", { model: other, ...options });
    await expect(second.run("chat", { model: other, ...options, ifHeld: "throw" })).rejects.toMatchObject({
      code: "SESSION_HELD",
    });
    slow.answer();
    expect(await running).toMatchObject({ status: "done", text: "Tomorrow." });
    expect(await repeated).toMatchObject({ status: "done", text: "Tomorrow." });
    expect(other.asked).toBe(0);
    expect((await second.sessions.get("chat")).messages).toHaveLength(2);
    const [lease] = (await second.journal.list<"leases">({ of: "leases", limit: 1 })).rows;
    expect(lease).toMatchObject({ holder: null });
    await first.close();
    await second.close();
    await opened.dispose();
  });

  test("a request that reads the session before another program leaves calls there settles them", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    await bench.first.holdfast.run("alpha", { model: script("Hello."), prompt: "Hi." });
    const pay = counting(world, "pay", { verify: () => ({ answer: "landed", result: "paid" }) });
    const dying = fatal(world, "pay");
    const { store } = bench.first.holdfast.journal;
    const late = beforeTaking(store, async () => {
      const model = script([callBlock("c1", "pay", { order: 1 })]);
      const lost = await bench.first.holdfast.session("alpha", { ifHeld: "throw" });
      lost.run({ model, tools: [dying.tool], prompt: "Pay.", budget: { turns: 9 } }).catch(() => undefined);
      await dying.reached;
      await bench.afterCrash();
    });
    const { now, steady } = bench.first.holdfast.journal;
    const journal = new Journal({ store: late, now, steady, leaseMs: 60_000 });
    const model = script("Paid.", "Bye.");
    const result = await new Holdfast(journal).run("alpha", { model, tools: [pay], prompt: "Thanks." });
    expect(result).toMatchObject({ status: "done" });
    expect(world.effects).toHaveLength(1);
    const { messages, openCalls, budget } = await bench.first.holdfast.sessions.get("alpha");
    expect(openCalls).toBe(0);
    expect(budget.reserved).toEqual({});
    expect(messages.map(({ role }) => role).join(" ")).toBe(
      "user assistant user assistant tool user assistant",
    );
    await bench.dispose();
  });

  test("a new prompt after calls that a crash left reserves one question, and books one", async () => {
    const bench = await openBench(subject);
    const world: World = { effects: [] };
    const dying = fatal(world, "pay");
    const session = await bench.first.session();
    const budget = { turns: 9 };
    const model = script([callBlock("c1", "pay", {})]);
    session.run({ model, tools: [dying.tool], prompt: "Pay.", budget }).catch(() => undefined);
    await dying.reached;
    const next = await (await bench.afterCrash()).session();
    const pay = counting(world, "pay", { verify: () => ({ answer: "landed", result: "paid" }) });
    await next.run({ model: script("Welcome."), tools: [pay], prompt: "Thanks.", budget });
    expect(next.budget.reserved).toEqual({});
    expect(next.budget.spent.turns).toBe(2);
    await bench.dispose();
  });
});

describe("requests of one program, before the commit that takes the session", () => {
  async function openGated() {
    const [subject] = subjects;
    const opened = await (subject as (typeof subjects)[number]).open();
    const [reached, gate] = [resolvable(), resolvable()];
    const store = beforeTaking(opened.store, () => {
      reached.resolve();
      return gate.promise;
    });
    return { ...opened, holdfast: new Holdfast(new Journal({ store })), reached: reached.promise, gate };
  }

  test("wait for each other, and do not compete for the lease", async () => {
    const { store, holdfast, reached, gate, dispose } = await openGated();
    const asked = vi.spyOn(store, "lease");
    const first = holdfast.run("chat", { model: script("one"), prompt: "1" });
    await reached;
    const second = holdfast.run("chat", { model: script("two"), prompt: "2" });
    const third = holdfast.run("chat", { model: script("x"), prompt: "3", ifHeld: "throw" });
    await expect(third).rejects.toMatchObject({ code: "SESSION_HELD" });
    await expect(holdfast.session("chat")).rejects.toMatchObject({ code: "SESSION_HELD" });
    gate.resolve();
    expect((await first).text).toBe("one");
    expect((await second).text).toBe("two");
    expect(asked).not.toHaveBeenCalled();
    await holdfast.close();
    await dispose();
  });

  test("are all closed with the program, and leave no lease behind", async () => {
    const { another, holdfast, reached, gate, dispose } = await openGated();
    const other = new Holdfast(new Journal({ store: await another() }));
    const slow = slowModel("late");
    const options = { model: slow.model, prompt: "1", ifHeld: "throw" } as const;
    const running = [holdfast.run("chat", options), holdfast.run("chat", options)];
    const ended = Promise.allSettled(running);
    await reached;
    const closing = holdfast.close();
    gate.resolve();
    await closing;
    expect((await ended).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const { rows } = await other.journal.list<"leases">({ of: "leases", limit: 1 });
    expect(rows[0]?.holder ?? null).toBeNull();
    await other.close();
    await dispose();
  });
});

test("a request to a session from within its own run is rejected, not left waiting for itself", async () => {
  const holdfast = await open("memory:");
  const world: World = { effects: [] };
  const nested = counting(world, "ask", {
    execute: () => holdfast.run("chat", { model: script("x"), prompt: "Again?" }).then(({ text }) => text),
  });
  const model = script([callBlock("c1", "ask", {})], "done");
  const tools = [nested];
  const errors: string[] = [];
  await holdfast.run("chat", {
    model,
    tools,
    prompt: "Ask.",
    on: (progress) => {
      if ("error" in progress) errors.push(String(progress.error));
      if ("why" in progress) errors.push(String(progress.why));
    },
  });
  expect(errors.join()).toContain("from within a run of the same session");
  await holdfast.close();
});
