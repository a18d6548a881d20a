/** SESSION_HELD says so if the holder is this very process. */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test, vi } from "vitest";
import { Holdfast, Journal, open } from "../../src/index.ts";
import { readStatus } from "../../src/operations/index.ts";
import { runInside } from "../cli/inside.ts";
import { counting, fatal, openBench } from "../ledger/bench.ts";
import { quickFolder } from "../quick-folder.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((subject) => subject.dispose())));

test("a session that this process holds is reported as held here", async () => {
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  await expect(holdfast.session("s", { ifHeld: "throw" })).rejects.toMatchObject({
    code: "SESSION_HELD",
    message: expect.stringContaining("which is this very process"),
    hint: expect.stringContaining("close that first"),
  });
  await session.close();
  await (await holdfast.session("s", { ifHeld: "throw" })).close();
  await holdfast.close();
});

describe.each(subjects)("a second handle of one program on '$name'", (subject) => {
  test("fails at once, queues if asked to, and follows a handle that is being closed", async () => {
    const { store, dispose } = await subject.open();
    const holdfast = new Holdfast(new Journal({ store }));
    const first = await holdfast.session("s");
    // A wait would poll the lease, so the store is not even asked.
    const asked = vi.spyOn(store, "lease");
    await expect(holdfast.session("s")).rejects.toMatchObject({ code: "SESSION_HELD" });
    expect(asked).not.toHaveBeenCalled();
    asked.mockRestore();
    const queued = holdfast.session("s", { ifHeld: "wait" });
    const stopped = new AbortController();
    const impatient = holdfast.session("s", { ifHeld: "wait", signal: stopped.signal });
    stopped.abort(new Error("no longer needed"));
    await expect(impatient).rejects.toThrow("no longer needed");
    await first.append({ role: "user", text: "one" });
    const closing = first.close();
    const second = await queued;
    await closing;
    expect(second.messages).toHaveLength(1);
    void second.close();
    const third = await holdfast.session("s");
    await third.append({ role: "user", text: "two" });
    await holdfast.close();
    await dispose();
  });
});

test("a prompt for an idle session is seen by sessions.get and session show", async () => {
  const project = mkdtempSync(join(quickFolder(), "holdfast-queued-"));
  const holdfast = await open(join(project, "store.db"));
  await (await holdfast.session("s")).close();
  await holdfast.sessions.prompt("s", { id: "p1", text: "Are you there?" }, { by: "ann" });
  expect((await holdfast.sessions.get("s")).prompts).toMatchObject([{ id: "p1", by: "ann" }]);
  await holdfast.close();
  const { out } = await runInside(project, ["session", "show", "s", "--store", "store.db"]);
  expect(out).toContain("1 prompt waits for its agent to run again");
  expect((await runInside(project, ["status", "--store", "store.db"])).out).toContain(
    "1 with a queued prompt",
  );
  rmSync(project, { recursive: true });
});

test.each(subjects)(
  "status counts sessions with a queued prompt, until an agent has it, on '$name'",
  async (subject) => {
    const { store, dispose } = await subject.open();
    const holdfast = new Holdfast(new Journal({ store }));
    const counts = async () => {
      const { running, prompted, idle } = (await readStatus(store, { now: Date.now() })).sessions;
      return { running, prompted, idle };
    };
    for (const id of ["a", "b"]) await (await holdfast.session(id)).close();
    await holdfast.sessions.prompt("a", { id: "p1", text: "Are you there?" }, { by: "ann" });
    expect(await counts()).toEqual({ running: 0, prompted: 1, idle: 1 });
    const session = await holdfast.session("a");
    expect(await counts()).toEqual({ running: 1, prompted: 0, idle: 1 });
    await session.run({ model: async () => ({ message: { text: "Yes" } }) });
    await session.close();
    expect(await counts()).toEqual({ running: 0, prompted: 0, idle: 2 });
    await holdfast.close();
    await dispose();
  },
);

test("the same description at every start is recorded once, and the default label is short", async () => {
  const holdfast = await open("memory:");
  const described = { title: "Order", goal: "g", ttlMs: 60_000, metadata: { user: { id: "u1" } } };
  for (let start = 0; start < 3; start++) await (await holdfast.session("s", described)).close();
  await (await holdfast.session("s", { ...described, metadata: { user: { id: "u2" } } })).close();
  const events: string[] = [];
  for await (const [, { type, data }] of holdfast.journal.events("session/s", 0)) {
    events.push(type === "session.described" ? `${type} ${Object.keys(data as object)}` : type);
    if (type === "session.taken") expect((data as { owner: string }).owner).not.toContain("/");
  }
  expect(events.filter((each) => each.startsWith("session.described"))).toEqual([
    "session.described metadata",
  ]);
  await holdfast.close();
});

test.each(subjects)(
  "resumed.settled names a call that session.call has settled, on '$name'",
  async (subject) => {
    const bench = await openBench(subject);
    const world = { effects: [] as string[] };
    const dying = fatal(world, "pay", { idempotent: true });
    const first = await bench.first.session();
    void first.call({ tool: dying.tool, args: {}, callId: "c1" }).catch(() => undefined);
    await dying.reached;
    const session = await (await bench.afterCrash()).session();
    expect(session.resumed).toMatchObject({ interrupted: ["c1"], settled: [] });
    await session.call({ tool: counting(world, "pay", { idempotent: true }), args: {}, callId: "c1" });
    expect(session.resumed).toMatchObject({ settled: ["c1"] });
    expect(world.effects).toEqual(["pay {}", "pay {}"]);
    await bench.dispose();
  },
);
