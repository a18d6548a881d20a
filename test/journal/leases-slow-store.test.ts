/** A store that always answers too late to confirm a lease. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { z } from "zod";
import { Holdfast, Journal, tool } from "../../src/index.ts";
import { Lease } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { callBlock, script } from "../ledger/bench.ts";
import { altered } from "./places.ts";

const LEASE_MS = 30_000;
let now: number;
let renewals: number;

beforeEach(() => {
  now = 1_000;
  renewals = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
});

afterEach(() => vi.restoreAllMocks());

/** Appends and renewals take `slowMs` each; the first `times` of the renewals. */
const slowStore = (slowMs: number, times = Number.POSITIVE_INFINITY): Store =>
  altered(openMemory(), {
    append: async (append, batch) => {
      const answer = await append(batch);
      now += slowMs;
      return answer;
    },
    lease: async (lease, request) => {
      const answer = await lease(request);
      if (request.act === "renew" && renewals++ < times) now += slowMs;
      // Without a limit in the code, the test fails instead of running for ever.
      if (renewals > 1_000) throw new Error("asked a thousand times");
      return answer;
    },
  });

test("mustHold gives up on a slow store after more than a lease, but not on one that recovers", async () => {
  const { leases } = new Journal({ store: slowStore(LEASE_MS / 3), leaseMs: LEASE_MS });
  const taken = (await leases.take("words/w", "a", { label: "a", waitMs: 0 })) as Lease;
  expect(taken).toBeInstanceOf(Lease);
  now += LEASE_MS / 2;
  const before = now;
  await expect(leases.mustHold(taken)).rejects.toMatchObject({
    code: "STORE_BUSY",
    message: expect.stringContaining("words/w"),
    hint: expect.stringContaining("leaseMs"),
  });
  expect(now - before).toBeGreaterThan(LEASE_MS);
  expect(renewals).toBeLessThan(10);
  // The lease is not lost, and may be confirmed later.
  expect(taken.lost.aborted).toBe(false);
  await taken.release();

  renewals = 0;
  const recovering = new Journal({ store: slowStore(LEASE_MS / 3, 2), leaseMs: LEASE_MS }).leases;
  const other = (await recovering.take("words/w", "a", { label: "a", waitMs: 0 })) as Lease;
  now += LEASE_MS / 2;
  await recovering.mustHold(other);
  await other.release();
});

test("a process that was stopped while it asked does not give up on the store", async () => {
  const { leases } = new Journal({ store: slowStore(LEASE_MS * 100, 1), leaseMs: LEASE_MS });
  const taken = (await leases.take("words/w", "a", { label: "a", waitMs: 0 })) as Lease;
  now += LEASE_MS / 2;
  await leases.mustHold(taken);
  expect(renewals).toBe(2);
  await taken.release();
});

test("a call whose lease cannot be confirmed in time is not started", async () => {
  const store = slowStore(LEASE_MS / 3);
  const session = await new Holdfast(new Journal({ store, leaseMs: LEASE_MS })).session("alpha");
  let effects = 0;
  const pay = tool({
    name: "pay",
    description: "Pays",
    input: z.object({}),
    effect: "mutate",
    execute: () => {
      effects += 1;
      return "paid";
    },
  });
  const run = session.run({
    prompt: "go",
    tools: [pay],
    model: script([callBlock("c1", "pay")], "paid"),
  });
  await expect(run).rejects.toMatchObject({ code: "STORE_BUSY" });
  expect(effects).toBe(0);
  vi.restoreAllMocks();
  await session.close();
});
