/** Calls that a supervisor settles: which ones may run again, and what is reported. */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Holdfast,
  landed,
  never,
  notYet,
  type Session,
  type Tool,
  type Verdict,
} from "../../src/index.ts";
import { altered } from "../journal/places.ts";
import { counting, fatal } from "../ledger/bench.ts";
import { ENDS, Place, poll } from "./fixture.ts";

let place: Place;
let holdfast: Holdfast;
let effects: string[];
beforeEach(() => {
  place = new Place();
  holdfast = place.another();
  effects = [];
});
afterEach(() => place.dispose());

const DAY_MS = 24 * 3_600_000;
const buy = (verify?: () => Verdict<unknown>, more: object = {}): Tool =>
  counting({ effects }, "buy", { ...(verify && { verify }), ...more });

/** A process that was killed in the middle of a call. */
async function interrupted(id: string, options: { ttlMs: number | null } = { ttlMs: null }): Promise<void> {
  const { tool, reached } = fatal({ effects }, "buy");
  const live = async (session: Parameters<NonNullable<Parameters<Place["crash"]>[1]>>[0]) => {
    session.call({ callId: `${id}-1`, tool, args: {} }).catch(() => undefined);
    await reached;
  };
  await place.crash(id, live, options);
}
const callOf = async (id: string) => (await holdfast.sessions.get(id)).calls[0];

describe("in a session past its time to live", () => {
  beforeEach(async () => {
    await interrupted("a", { ttlMs: DAY_MS });
    place.nowMs += 2 * DAY_MS;
    await expect(place.another().session("a")).rejects.toMatchObject({ code: "STATE_STALE" });
  });

  const unsettled: [string, () => Tool][] = [
    ["that never happened", () => buy(never)],
    ["that may still arrive", () => buy(() => notYet({ againInMs: 1 }), { settleMs: 0 })],
    ["that may be repeated", () => buy(undefined, { idempotent: true })],
  ];
  test.each(unsettled)("a call %s waits for a person and does not run again", async (_, tool) => {
    const { open } = await holdfast.superviseOnce({ tools: [tool()] });
    expect(open).toMatchObject([{ callId: "a-1", person: true }]);
    expect(effects).toHaveLength(1);
  });

  test("a call that has happened is settled", async () => {
    const { settled } = await holdfast.superviseOnce({ tools: [buy(() => landed("bought"))] });
    expect(settled).toEqual([{ session: "a", callId: "a-1" }]);
    expect(await callOf("a")).toMatchObject({ status: "completed", settledBy: "verify" });
  });

  test("a supervisor that died in a sweep changes nothing", async () => {
    await place.crash("a", undefined, { stale: "use", label: "supervisor" });
    await holdfast.superviseOnce({ tools: [buy(never)] });
    expect(effects).toHaveLength(1);
    expect(await callOf("a")).toMatchObject({ status: "waiting" });
  });

  test("a person's retry runs", async () => {
    await holdfast.superviseOnce({ tools: [buy(never)] });
    await holdfast.calls.resolve("a-1", { outcome: "retry", by: "ann", why: "still wanted" });
    await holdfast.superviseOnce({ tools: [buy(never)] });
    expect(effects).toHaveLength(2);
    expect(await callOf("a")).toMatchObject({ status: "completed", attempt: 2 });
  });
});

test("an old retry does not run in a stale session", async () => {
  const mail = fatal({ effects }, "mail");
  const live = async (session: Session) => {
    const cut = () => Promise.reject(new Error("the line was cut"));
    await session.call({ callId: "a-1", tool: buy(undefined, { execute: cut }), args: {} });
    await holdfast.calls.resolve("a-1", { outcome: "retry", by: "ann", why: "it never came" });
    await session.settle([]);
    session.call({ callId: "a-2", tool: mail.tool, args: {} }).catch(() => undefined);
    await mail.reached;
  };
  await place.crash("a", live, { ttlMs: DAY_MS });
  place.nowMs += 30 * DAY_MS;
  const { open } = await holdfast.superviseOnce({ tools: [buy(), counting({ effects }, "mail")] });
  expect(open).toMatchObject([
    { callId: "a-1", person: true },
    { callId: "a-2", person: true },
  ]);
  expect(effects).toEqual(["mail {}"]);
  expect(await callOf("a"), "as it was").toMatchObject({ status: "waiting", lacksTool: true, granted: true });
});

test("a person's retry in a cancelled session stays until it is reopened", async () => {
  await interrupted("a");
  await holdfast.sessions.cancel("a", { by: "ann" });
  await holdfast.calls.resolve("a-1", { outcome: "retry", by: "ann", why: "it never came" });
  await holdfast.superviseOnce();
  expect(await callOf("a")).toMatchObject({ status: "unknown", granted: true });
  const session = await place.another().session("a");
  await session.reopen();
  expect(await session.call({ callId: "a-1", tool: buy(), args: {} })).toMatchObject({ status: "completed" });
  expect(effects).toHaveLength(2);
});

test("closing a cancelled session does not revoke it", async () => {
  await interrupted("a");
  await holdfast.sessions.cancel("a", { by: "ann" });
  await holdfast.calls.resolve("a-1", { outcome: "retry", by: "ann", why: "it never came" });
  await (await place.another().session("a")).close();
  expect(await callOf("a")).toMatchObject({ status: "unknown", granted: true });
  await holdfast.calls.resolve("a-1", { outcome: "failed", by: "ann", why: "not any more" });
  expect(await callOf("a")).toMatchObject({ status: "failed" });
});

test("a call that hangs does not block the supervisor, and ends with it", async () => {
  await interrupted("hanging");
  const hanging = fatal({ effects }, "buy", { verify: never });
  const supervisor = place.supervise({ tools: [hanging.tool], start: ENDS });
  await hanging.reached;
  await place.crash("other");
  await poll(() => supervisor.of("session.crashed").map(({ session }) => session)).toContain("other");
  await poll(supervisor.started).toContain("other");
  await poll(supervisor.ended).toEqual(["done"]);
  await supervisor.stop();
  expect(supervisor.started()).toEqual(["other"]);
  expect(supervisor.of("error")).toEqual([]);
  expect(effects).toHaveLength(2);
  expect((await holdfast.sessions.get("hanging")).heldBy).toBeNull();
});

test("a call that hangs does not block other sessions, also in a single sweep", async () => {
  for (const id of ["a", "b", "c"]) await interrupted(id);
  const stop = new AbortController();
  let hang = true;
  const sometimes = buy(never, {
    execute: () => {
      const hangs = hang;
      hang = false;
      return hangs ? new Promise(() => undefined) : "bought";
    },
  });
  const settled: string[] = [];
  await holdfast.superviseOnce({
    tools: [sometimes],
    signal: stop.signal,
    onEvent: (event) => {
      if (event.type === "call.settled") settled.push(event.session);
      if (settled.length === 2) stop.abort();
    },
  });
  expect(settled).toHaveLength(2);
});

test("a process that dies between listing and settling counts as crashed", async () => {
  const before = await place.another().session("a", { ttlMs: null });
  const { tool, reached } = fatal({ effects }, "buy");
  before.call({ callId: "a-1", tool, args: {} }).catch(() => undefined);
  await reached;
  await before.close();
  let isFirst = true;
  const own = place.another((store) =>
    altered(store, {
      list: async (list, request) => {
        const page = await list(request as never);
        if (isFirst && request.of === "leases") {
          isFirst = false;
          await place.crash("a");
        }
        return page;
      },
    }),
  );
  const told: string[] = [];
  const { settled, crashed } = await own.superviseOnce({
    tools: [buy(() => landed("bought"))],
    onEvent: ({ type }) => told.push(type),
  });
  expect([settled.length, crashed]).toEqual([1, ["a"]]);
  expect(told).toContain("session.crashed");
  expect(await place.workers()).toEqual({ "session a": "wanted" });
});

test("a waiting call is reported once, and again if it waits again", async () => {
  const dead = counting({ effects }, "buy", { execute: () => Promise.reject(new Error("no line")) });
  const once = async (): Promise<void> => {
    const session = await place.another().session("a", { ttlMs: null });
    expect(await session.call({ callId: "a-1", tool: dead, args: {} })).toMatchObject({ status: "waiting" });
    await session.close();
  };
  await once();
  const { of, looks } = place.supervise({});
  const asked = () => of("call.open").filter(({ person }) => person).length;
  await poll(asked).toBe(1);
  // Another program holds and releases the session, and the call still waits.
  const held = await place.another().session("a");
  await looks();
  await held.close();
  await looks();
  expect(asked()).toBe(1);
  await holdfast.calls.resolve("a-1", { outcome: "retry", by: "ann", why: "it never came" });
  await once();
  await poll(asked).toBe(2);
  await looks();
  expect(asked()).toBe(2);
});
