/** Agents and people act while a supervisor sweeps. */

import { expect, test } from "vitest";
import { type Goal, goalCore, openGoal } from "../../src/goal/index.ts";
import { Holdfast } from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { type SupervisorEvent, supervise, superviseOnce } from "../../src/supervisor/index.ts";
import { human, worker } from "../goal/bench.ts";
import { altered } from "../journal/places.ts";

const LEASE_MS = 60_000;

/** A store, the clock of its leases, and programs that can die. */
function place() {
  const data = memoryData();
  let leaseMs = 0;
  let now = 1_700_000_000_000;
  const store = () => openMemory({ data, clock: () => leaseMs });
  const journal = (on: Store = store()) => new Journal({ store: on, leaseMs: LEASE_MS, now: () => now });
  const die = (dead: Journal): void => {
    dead.leases.stop();
    leaseMs += 10 * LEASE_MS;
  };
  const passMs = (ms: number): void => {
    now += ms;
  };
  return { store, journal, die, passMs };
}

function goalOn(journal: Journal): Promise<Goal> {
  const options = { statement: "Ship it", by: human, phases: ["one"], tasks: [{ title: "build" }] };
  return openGoal(journal, "checkout", options);
}

test("a session that is cancelled while its lease is taken is not reported as crashed", async () => {
  const { store, journal, die } = place();
  const first = journal();
  await new Holdfast(first).session("alpha", { ttlMs: null });
  die(first);
  const outside = new Holdfast(journal());
  const altering = altered(store(), {
    lease: async (lease, request) => {
      if (request.act === "take") await outside.sessions.cancel("alpha", { by: "ada" });
      return lease(request);
    },
  });
  const events: SupervisorEvent[] = [];
  const options = { onEvent: (event: SupervisorEvent) => events.push(event) };
  expect((await superviseOnce(journal(altering), options)).crashed).toEqual([]);
  expect(events).toEqual([]);
});

/**
 * A store on which an agent opens its session again right after a sweep has listed the leases of sessions.
 */
function openedAgain(store: Store, open: () => Promise<unknown>): Store {
  let isFirst = true;
  return altered(store, {
    list: async (list, request) => {
      const page = await list(request as never);
      if (isFirst && request.of === "leases") {
        isFirst = false;
        await open();
      }
      return page;
    },
  });
}

test("a session that its agent has just opened again is not marked as crashed", async () => {
  const { store, journal, passMs } = place();
  const goal = await goalOn(journal());
  await goal.startSession({ session: "s-1", by: worker });
  passMs(3_600_000);
  const again = openedAgain(store(), () => new Holdfast(journal()).session("s-1", { ttlMs: null }));
  const events: SupervisorEvent[] = [];
  const options = { staleAfterMs: 1_800_000, onEvent: (event: SupervisorEvent) => events.push(event) };
  await superviseOnce(journal(again), options);
  expect(events).toEqual([]);
  await goal.refresh();
  expect(goal.state.history.get("s-1")?.status).toBe("active");
});

test("and does not lose its task", async () => {
  const { store, journal, passMs } = place();
  const goal = await goalOn(journal());
  await goal.claim("T-001", { by: worker, session: "s-1", detached: { forMs: 7_200_000 } });
  passMs(3_600_000);
  const again = openedAgain(store(), () => new Holdfast(journal()).session("s-1", { ttlMs: null }));
  expect((await superviseOnce(journal(again), { staleAfterMs: 1_800_000 })).reset).toEqual([]);
});

test("a session whose goal was removed is still reported as crashed", async () => {
  const { journal, die } = place();
  const goal = await goalOn(journal());
  const events = new Set<string>();
  const stop = new AbortController();
  let isLooking = (): void => undefined;
  const looked = new Promise<void>((resolve) => {
    isLooking = resolve;
  });
  let isTold = (): void => undefined;
  const told = new Promise<void>((resolve) => {
    isTold = resolve;
  });
  await goal.claim("T-001", { by: worker });
  die(goalCore(goal).journal);
  const supervising = supervise(journal(), {
    everyMs: 10,
    signal: stop.signal,
    onEvent: ({ type }) => {
      events.add(type);
      if (type === "task.reset") isLooking();
      else isTold();
    },
  });
  await looked;
  const first = journal();
  await new Holdfast(first).session("alpha", { ttlMs: null, goal: goal.id });
  await goalCore(goal).journal.remove("goal/checkout");
  die(first);
  await told;
  stop.abort();
  await supervising;
  expect([...events]).toEqual(["task.reset", "session.crashed"]);
});
