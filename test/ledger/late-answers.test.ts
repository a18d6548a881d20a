/** Attempts that outlive their handle, machines that slept, clocks that were set: no effect happens twice. */

import { afterEach, expect, test, vi } from "vitest";
import { Holdfast, Journal, landed, notYet } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { counting, fatal, type World } from "./bench.ts";

const LEASE_MS = 60_000;
const HOUR_MS = 3_600_000;

afterEach(() => vi.restoreAllMocks());

interface Place {
  nowMs: number;
  program(wrap?: (store: Store) => Store): Holdfast;
}

function makePlace(): Place {
  const data = memoryData();
  const place: Place = {
    nowMs: 1_700_000_000_000,
    program: (wrap = (store) => store) => {
      const clock = () => place.nowMs;
      const store = wrap(openMemory({ data, clock }));
      return new Holdfast(new Journal({ store, now: clock, steady: clock, leaseMs: LEASE_MS }));
    },
  };
  return place;
}

test("settleMs counts from the attempt's end, also if the session was reopened meanwhile", async () => {
  const place = makePlace();
  const holdfast = place.program();
  const world: World = { effects: [] };
  const settleMs = 50_000;
  const verify = () => notYet({ againInMs: 20_000 });
  let fail = (_error: Error): void => undefined;
  const slow = counting(world, "pay", {
    settleMs,
    verify,
    execute: () => {
      world.effects.push("asked for");
      return new Promise((_, reject) => {
        fail = reject;
      });
    },
  });
  const again = counting(world, "pay", { settleMs, verify });
  const first = await holdfast.session("a");
  first.call({ tool: slow, args: {}, callId: "x" }).catch(() => undefined);
  await vi.waitFor(() => expect(world.effects).toHaveLength(1));
  await first.close();
  const second = await holdfast.session("a");
  // It sends its request only now and gets no answer.
  place.nowMs += 40_000;
  fail(Object.assign(new Error("socket hang up"), { code: "ECONNRESET" }));
  expect(await second.settle([again])).toMatchObject({ open: ["x"] });
  place.nowMs += 21_000;
  expect(await second.settle([again])).toMatchObject({ open: ["x"] });
  expect(world.effects).toHaveLength(1);
  place.nowMs += 40_000;
  expect(await second.settle([again])).toMatchObject({ settled: ["x"] });
  expect(world.effects).toHaveLength(2);
  await holdfast.close();
});

test("an effect that lands while verify's answer is on its way is found, and not applied again", async () => {
  const place = makePlace();
  const world: World = { effects: [] };
  const settleMs = 50_000;
  const answers: string[] = [];
  // Looks first, then takes as long as `settleMs` to answer. The effect lands in between.
  const verify = () => {
    const isThere = world.effects.length > 0;
    answers.push(isThere ? "landed" : "notYet");
    if (isThere) return landed("paid");
    place.nowMs += settleMs;
    world.effects.push("landed late");
    return notYet({ againInMs: 20_000 });
  };
  const first = place.program();
  // Its request is on the way when its process dies.
  const dying = fatal({ effects: [] }, "pay", { settleMs, verify });
  const session = await first.session("a", { ttlMs: null });
  session.call({ tool: dying.tool, args: {}, callId: "x" }).catch(() => undefined);
  await dying.reached;
  first.journal.leases.stop();
  place.nowMs += 10 * LEASE_MS;
  const second = place.program();
  const next = await second.session("a", { ttlMs: null });
  const pay = counting(world, "pay", { settleMs, verify });
  const asked = await next.settle([pay]);
  expect(world.effects).toEqual(["landed late"]);
  expect(asked).toMatchObject({ open: ["x"] });
  place.nowMs += settleMs;
  expect(await next.settle([pay])).toMatchObject({ settled: ["x"] });
  expect(answers).toEqual(["notYet", "landed"]);
  expect(world.effects).toEqual(["landed late"]);
});

test("a machine that slept before an effect does not repeat it after another machine", async () => {
  const place = makePlace();
  const world: World = { effects: [] };
  const pay = counting(world, "pay", { idempotent: true });
  let asleep: Promise<void> | null = null;
  let wake = (): void => undefined;
  const held = place.program(
    (store) =>
      new Proxy(store, {
        get(target, name: keyof Store) {
          const value = target[name];
          if (typeof value !== "function") return value;
          return async (...args: never[]) => {
            const answer = await (value as (...args: never[]) => unknown).apply(target, args);
            if (name === "append" && asleep === null && JSON.stringify(args).includes("call.issued")) {
              asleep = new Promise((resolve) => {
                wake = resolve;
              });
              await asleep;
            }
            return answer;
          };
        },
      }),
  );
  const session = await held.session("a");
  const call = session.call({ tool: pay, args: {}, callId: "x" });
  call.catch(() => undefined);
  await vi.waitFor(() => expect(asleep).not.toBeNull());
  // The store's clock advances, the process's own monotonic clock does not.
  place.nowMs += HOUR_MS;
  const other = place.program();
  const next = await other.session("a");
  expect(await next.settle([pay])).toMatchObject({ settled: ["x"] });
  expect(world.effects).toHaveLength(1);
  const slept = Date.now() + HOUR_MS;
  vi.spyOn(Date, "now").mockImplementation(() => slept);
  wake();
  await expect(call).rejects.toMatchObject({ code: "LEASE_LOST" });
  expect(world.effects).toHaveLength(1);
  await other.close();
});

test("a key that the vendor may have forgotten is not reused if the clock was set back", async () => {
  const place = makePlace();
  const world: World = { effects: [] };
  const idempotent = { forMs: HOUR_MS };
  const first = place.program();
  const dying = fatal(world, "pay", { idempotent });
  const session = await first.session("a", { ttlMs: null });
  session.call({ tool: dying.tool, args: {}, callId: "x" }).catch(() => undefined);
  await dying.reached;
  first.journal.leases.stop();
  // Issued when the clock was two days ahead.
  place.nowMs += 10 * LEASE_MS;
  const second = place.program();
  const next = await second.session("a", { ttlMs: null });
  place.nowMs -= 48 * HOUR_MS;
  expect(await next.settle([counting(world, "pay", { idempotent })])).toMatchObject({ open: ["x"] });
  expect((await second.calls.list()).calls).toMatchObject([{ status: "waiting" }]);
  expect(world.effects).toHaveLength(1);
});
