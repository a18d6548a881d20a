/** Workers for sessions. Processes are real; the clock and the store are not. */

import { existsSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Holdfast, type SuperviseOptions, type SupervisorEvent } from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Session } from "../../src/session/index.ts";
import { openSession } from "../../src/session/index.ts";
import { type MemoryData, memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { Sweeper, superviseOnce, Workers } from "../../src/supervisor/index.ts";
import { human } from "../goal/bench.ts";
import { counting, fatal } from "../ledger/bench.ts";
import { quickFolder } from "../quick-folder.ts";
import { DIES, ENDS, untilThere } from "./fixture.ts";

const LEASE_MS = 60_000;

let data: MemoryData;
let nowMs: number;
let holdfast: Holdfast;

beforeEach(() => {
  data = memoryData();
  nowMs = Date.UTC(2024, 0, 14);
  holdfast = another();
});
afterEach(() => holdfast.close());

/** Another process on the same store, with the same clock. */
function another(): Holdfast {
  const clock = (): number => nowMs;
  return new Holdfast(new Journal({ store: openMemory({ data, clock }), leaseMs: LEASE_MS, now: clock }));
}

/** Sessions that one process held when it was killed. */
async function crash(...lives: [id: string, live: (session: Session) => Promise<unknown>][]): Promise<void> {
  const dying = another();
  for (const [id, live] of lives) await live(await dying.session(id, { ttlMs: null }));
  dying.journal.leases.stop();
  nowMs += 10 * LEASE_MS;
}

const nothing = async (): Promise<void> => undefined;
const asked = (session: Session) => session.append({ role: "user", text: "Pay" });
const answered = (session: Session) => session.append([user("Pay"), { role: "assistant", text: "Paid" }]);
const user = (text: string, id?: string) => ({ role: "user", text, ...(id && { id }) }) as const;

/** Its outcome cannot be verified, so the call waits for a person. */
const pay = counting({ effects: [] }, "pay", {
  execute: () => Promise.reject(new Error("the line went dead")),
});
const waitsForAPerson = async (session: Session): Promise<void> => {
  await session.append({ role: "user", text: "Pay" });
  const { status } = await session.call({ callId: "pay-1", tool: pay, args: {} });
  expect(status).toBe("waiting");
};

/** A supervisor that runs until `stop`, and its reports. */
function supervise(options: Omit<SuperviseOptions, "signal">) {
  const controller = new AbortController();
  const events: SupervisorEvent[] = [];
  let looks = 0;
  const own = another();
  const onEvent = (event: SupervisorEvent): void => {
    events.push(event);
    options.onEvent?.(event);
  };
  const look = own.journal.list.bind(own.journal);
  own.journal.list = (request) => {
    if (request.of === "leases") looks += 1;
    return look(request);
  };
  const base = { everyMs: 5, backoffMs: 60_000, parallel: 9 };
  const done = own.supervise({ ...base, ...options, onEvent, signal: controller.signal });
  return {
    of: <Type extends SupervisorEvent["type"]>(type: Type) =>
      events.filter((event): event is Extract<SupervisorEvent, { type: Type }> => event.type === type),
    started: () =>
      events.flatMap((event) =>
        event.type === "worker.started" && event.work.kind === "session" ? [event.work.session] : [],
      ),
    ended: () => events.flatMap((event) => (event.type === "worker.ended" ? [event.how] : [])),
    /** Waits for a few more sweeps and the starts after them. */
    looks: async () => {
      const enough = looks + 4;
      await expect.poll(() => looks, { timeout: 50_000, interval: 2 }).toBeGreaterThan(enough);
    },
    stop: async () => {
      controller.abort();
      await done;
      await own.close();
    },
  };
}
const poll = <Value>(value: () => Value | Promise<Value>) =>
  expect.poll(value, { timeout: 50_000, interval: 2 });

/** The recorded status of workers, by title. */
async function rows(): Promise<Record<string, string | null>> {
  const { rows: all } = await holdfast.journal.list<"streams">({ of: "streams", kind: "worker", limit: 99 });
  return Object.fromEntries(all.map(({ facets }) => [facets.title, facets.status]));
}

/** The first worker of each has died, and the next may be started. */
async function oneDeath(...sessions: string[]): Promise<void> {
  const first = supervise({ start: DIES });
  await poll(() => first.ended().length).toBe(sessions.length);
  await first.stop();
  expect(first.started().sort()).toEqual([...sessions].sort());
  nowMs += 10 * LEASE_MS;
}

test("no worker starts for a session that has ended meanwhile", async () => {
  await crash(["a", asked], ["b", asked], ["c", asked], ["d", asked]);
  await oneDeath("a", "b", "c", "d");
  await (await holdfast.session("a")).complete("paid");
  await (await holdfast.session("b")).fail("no money");
  await holdfast.sessions.cancel("c", { by: "ann", why: "enough" });
  const next = supervise({ start: ENDS });
  await poll(next.ended).toEqual(["done"]);
  await next.looks();
  await next.stop();
  expect(next.started()).toEqual(["d"]);
  expect(Object.values(await rows())).toEqual(["idle", "idle", "idle", "idle"]);
});

test("a worker that dies after it ended its session does not count as a crash loop", async () => {
  const folder = await mkdtemp(join(quickFolder(), "holdfast-workers-"));
  const file = join(folder, "ended");
  await crash(["a", asked]);
  const end = async (): Promise<void> => {
    const session = await holdfast.session("a");
    await session.complete("paid");
    await session.close();
    writeFileSync(file, "");
  };
  const { ended, of, looks, stop, started } = supervise({
    start: untilThere(file, 1),
    maxDeaths: 1,
    onEvent: ({ type }) => type === "worker.started" && !existsSync(file) && end(),
  });
  await poll(ended).toEqual(["died"]);
  await looks();
  await stop();
  expect(started()).toEqual(["a"]);
  expect(of("worker.looping")).toEqual([]);
  expect(await rows()).toEqual({ "session a": "idle" });
  await rm(folder, { recursive: true });
});

test("no worker starts for an answered prompt without an id; all others continue", async () => {
  await crash(
    ["answered", answered],
    ["empty", nothing],
    ["asked", asked],
    ["asked-again", async (session) => answered(session).then(() => asked(session))],
    ["queued", answered],
    ["named", (session) => session.append([user("Pay", "step-1"), { role: "assistant", text: "Paid" }])],
    ["program", async (session) => answered(session).then(() => session.call({ tool: ok, args: {} }))],
  );
  await holdfast.sessions.prompt("queued", { text: "And again" }, { by: "ann" });
  const { started, ended, looks, stop } = supervise({ start: ENDS });
  await poll(() => ended().length).toBe(6);
  await looks();
  await stop();
  expect(started().sort()).toEqual(["asked", "asked-again", "empty", "named", "program", "queued"]);
  // The worker of this one has ignored the prompt, so it counts as dead and another follows.
  const { "session queued": queued, ...others } = await rows();
  expect(queued).toBe("wanted");
  expect(new Set(Object.values(others))).toEqual(new Set(["idle"]));
});
const ok = counting({ effects: [] }, "ok");

test("after a person's answer the session continues, also with another supervisor", async () => {
  await crash(["a", waitsForAPerson]);
  const first = supervise({ start: ENDS });
  await poll(() => first.ended()).toEqual(["waiting"]);
  await first.looks();
  // Another program tries and is killed, which is not an answer.
  await crash(["a", nothing]);
  await poll(() => first.of("session.crashed").length).toBe(2);
  await first.looks();
  expect(first.started()).toEqual(["a"]);
  await first.stop();
  await holdfast.calls.resolve("pay-1", { outcome: "landed", by: "ann", why: "it is in the books" });
  const second = supervise({ start: ENDS });
  await poll(second.ended).toEqual(["done"]);
  await second.looks();
  await second.stop();
  expect(second.started()).toEqual(["a"]);
  expect(await rows()).toEqual({ "session a": "idle" });
});

test("while a person has to answer, sweeps write nothing", async () => {
  await crash(["a", waitsForAPerson], ["b", asked]);
  const first = supervise({
    start: (work) => ("session" in work && work.session === "b" ? DIES : ENDS),
    maxDeaths: 1,
  });
  await poll(() => first.ended().length).toBe(2);
  await first.looks();
  await first.stop();
  const tokens = async () => {
    const listed = await holdfast.journal.list<"leases">({ of: "leases", prefix: "worker/", limit: 9 });
    return listed.rows.map(({ token }) => token);
  };
  const before = await tokens();
  const second = supervise({ start: ENDS });
  await second.looks();
  await second.stop();
  expect(await tokens()).toEqual(before);
  expect(await rows()).toEqual({ "session a": "waiting", "session b": "looping" });
});

test("a session that ends stops waiting", async () => {
  await crash(["a", waitsForAPerson]);
  const { started, ended, looks, stop } = supervise({ start: ENDS });
  await poll(() => ended().length).toBe(1);
  await holdfast.sessions.cancel("a", { by: "ann", why: "enough" });
  await poll(rows).toEqual({ "session a": "idle" });
  await looks();
  await stop();
  expect(started()).toEqual(["a"]);
});

test("a worker that leaves calls it could have settled counts as dead", async () => {
  await crash([
    "a",
    async (session) => {
      const { tool: dying, reached } = fatal({ effects: [] }, "pay");
      session.call({ tool: dying, args: {} }).catch(() => undefined);
      await reached;
    },
  ]);
  const { of, stop } = supervise({ start: ENDS, maxDeaths: 1 });
  await poll(() => of("worker.looping").length).toBe(1);
  await stop();
  expect(of("worker.looping")[0]?.why).toContain("it ended without having touched the session");
});

test("no worker starts while the session has an owner", async () => {
  await crash(["a", asked]);
  await oneDeath("a");
  const hand = another();
  const session = await hand.session("a");
  const next = supervise({ start: ENDS });
  await next.looks();
  expect(next.started()).toEqual([]);
  await session.close();
  await poll(next.started).toEqual(["a"]);
  await next.stop();
  await hand.close();
});

test.each([
  ["that looks once", async () => void (await superviseOnce(another().journal))],
  ["that starts no workers", () => crashSeenBy({})],
  ["that starts none for sessions", () => crashSeenBy({ start: () => null })],
])("a crash found by a supervisor %s is kept for the next one that starts workers", async (_, see) => {
  await crash(["a", asked]);
  await see();
  const { started, ended, looks, stop } = supervise({ start: ENDS });
  await poll(ended).toEqual(["done"]);
  await looks();
  await stop();
  expect(started()).toEqual(["a"]);
});

async function crashSeenBy(options: Omit<SuperviseOptions, "signal">): Promise<void> {
  const { of, looks, stop } = supervise(options);
  await poll(() => of("session.crashed").length).toBe(1);
  await looks();
  await stop();
}

test("a supervisor that starts no workers for sessions forgets ended ones", async () => {
  await crash(["a", asked], ["b", asked]);
  await superviseOnce(another().journal);
  await (await holdfast.session("a")).complete("paid");
  const { stop } = supervise({ start: () => null });
  await poll(rows).toEqual({ "session a": "idle", "session b": "wanted" });
  await stop();
});

test("a removed session is not confused with a new one of the same name", async () => {
  await crash(["a", asked], ["b", asked]);
  await oneDeath("a", "b");
  for (const id of ["a", "b"]) await holdfast.sessions.erase(id);
  expect(await rows(), "the record of its workers names the session and goes with it").toEqual({});
  const made = await holdfast.session("a", { ttlMs: null });
  await asked(made);
  await made.close();
  const next = supervise({ start: ENDS });
  await next.looks();
  expect(next.started()).toEqual([]);
  expect(await rows()).toEqual({});
  await crash(["a", nothing]);
  await poll(next.started).toEqual(["a"]);
  await next.stop();
});

test("a session that crashes while its worker runs is wanted again, and that counts as a death", async () => {
  await crash(["a", asked]);
  const folder = await mkdtemp(join(quickFolder(), "holdfast-workers-"));
  const file = join(folder, "crashed");
  const { of, started, ended, looks, stop } = supervise({
    start: untilThere(file),
  });
  await poll(started).toEqual(["a"]);
  await crash(["a", nothing]);
  await poll(() => of("session.crashed").length).toBe(2);
  writeFileSync(file, "");
  await poll(ended).toEqual(["died"]);
  expect(of("worker.ended")[0]?.why).toBe("it ended without having closed the session");
  nowMs += 10 * LEASE_MS;
  await poll(started).toEqual(["a", "a"]);
  await poll(ended).toEqual(["died", "done"]);
  await looks();
  await stop();
  expect(started()).toEqual(["a", "a"]);
  await rm(folder, { recursive: true });
});

test("sub-agents continue with their parent, sessions of a goal with their task", async () => {
  await holdfast.goal("checkout", { statement: "Ship it", by: human });
  const dying = another();
  await asked(await dying.session("of-goal", { ttlMs: null, goal: "checkout" }));
  const parent = { session: "order", callId: "c-1" };
  await asked(await openSession(dying.journal, "child", { ttlMs: null, parent }, () => undefined));
  await asked(await dying.session("alone", { ttlMs: null }));
  dying.journal.leases.stop();
  nowMs += 10 * LEASE_MS;
  const { started, ended, looks, stop } = supervise({ start: ENDS });
  await poll(ended).toEqual(["done"]);
  await looks();
  await stop();
  expect(started()).toEqual(["alone"]);
  expect(new Set(Object.values(await rows()))).toEqual(new Set(["idle"]));
});

test("a session that ends before the start gets no worker", async () => {
  await crash(["a", asked]);
  await superviseOnce(another().journal);
  const events: SupervisorEvent[] = [];
  const sweeper = new Sweeper(another().journal, { onEvent: (event) => events.push(event) });
  const workers = new Workers(sweeper, { start: ENDS, signal: new AbortController().signal });
  const found = await workers.wanted();
  expect(found).toEqual([{ kind: "session", session: "a" }]);
  await (await holdfast.session("a")).complete("paid");
  expect(await workers.start(found)).toBeNull();
  await workers.stop();
  expect(events).toEqual([]);
  expect(await rows()).toEqual({ "session a": "idle" });
});

test.each([0, -1, 1.5, Number.NaN])("parallel %s is rejected", async (parallel) => {
  const { signal } = new AbortController();
  const refused = { code: "INPUT_INVALID", message: expect.stringContaining(String(parallel)) };
  await expect(holdfast.supervise({ signal, start: ENDS, parallel })).rejects.toMatchObject(refused);
});
