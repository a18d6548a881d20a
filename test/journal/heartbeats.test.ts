// Heartbeats renew the leases of this process. One that fails is repeated; a lost lease is not renewed again.

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Journal, Lease } from "../../src/journal/index.ts";
import { type ErrorCode, HoldfastError } from "../../src/model/errors.ts";
import type { LeaseOutcome, Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "./places.ts";

const LEASE_MS = 30_000;
const BEAT_MS = LEASE_MS / 3;
let renewals: string[];
/** What the store does with the next renewals. By default it renews. */
let answers: ((renew: () => Promise<LeaseOutcome>) => Promise<LeaseOutcome>)[];

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  renewals = [];
  answers = [];
});

afterEach(() => {
  vi.useRealTimers();
});

async function taken(...names: string[]): Promise<{ journal: Journal; leases: Lease[] }> {
  const store: Store = altered(openMemory(), {
    lease: async (lease, request) => {
      if (request.act !== "renew") return lease(request);
      renewals.push(request.leases.map((each) => each.lease).join(" "));
      const answer = answers.shift();
      return answer ? answer(() => lease(request)) : lease(request);
    },
  });
  const journal = new Journal({ store, leaseMs: LEASE_MS });
  const leases: Lease[] = [];
  for (const name of names) {
    const lease = await journal.leases.take(name, "me", { label: "me", waitMs: 0 });
    if (!(lease instanceof Lease)) throw new Error(`${name} is held`);
    leases.push(lease);
  }
  return { journal, leases };
}

const fails = (code: ErrorCode) => () =>
  Promise.reject(new HoldfastError(code, "not now", { hint: "Try again." }));

test.each(["STORE_BUSY", "STORE_IO", "STORE_FULL", "STORE_CORRUPT"] as const)(
  "a heartbeat that fails with %s is followed by the next one, and the lease stays",
  async (code) => {
    const { leases } = await taken("words/w");
    answers = [fails(code), () => Promise.reject(new Error("no error of ours"))];
    for (let beat = 0; beat < 5; beat++) {
      await vi.advanceTimersByTimeAsync(BEAT_MS);
      expect(leases[0]?.lost.aborted).toBe(false);
    }
    expect(renewals).toEqual(Array(5).fill("words/w"));
  },
);

test("without an answer for the length of a lease, the lease counts as lost", async () => {
  const { leases } = await taken("words/w");
  answers = Array(9).fill(fails("STORE_BUSY"));
  await vi.advanceTimersByTimeAsync(LEASE_MS);
  expect(leases[0]?.lost.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(BEAT_MS);
  expect(leases[0]?.lost.aborted).toBe(true);
});

test("a closed store is not asked again", async () => {
  await taken("words/w");
  answers = [fails("STORE_CLOSED")];
  await vi.advanceTimersByTimeAsync(5 * BEAT_MS);
  expect(renewals).toHaveLength(1);
});

test("a lease that another owner has is lost, and not renewed again; the others are", async () => {
  const { leases } = await taken("words/lost", "words/kept");
  const [lost, kept] = leases as [Lease, Lease];
  answers = [
    async (renew) => {
      const answer = await renew();
      return answer.outcome === "renewed" ? { ...answer, lost: [lost.guard] } : answer;
    },
  ];
  await vi.advanceTimersByTimeAsync(3 * BEAT_MS);
  expect([lost.lost.aborted, kept.lost.aborted]).toEqual([true, false]);
  expect(renewals).toEqual(["words/lost words/kept", "words/kept", "words/kept"]);
});
