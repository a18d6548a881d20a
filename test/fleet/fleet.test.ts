// Workers on one Postgres die and are stopped at random. Every effect happens once, and every session comes
// to an end.

import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { openStore } from "../../src/open-store.ts";
import { TestSchema } from "../stores/postgres/schema.ts";
import { Fleet, type FleetOptions, Plant } from "./fleet.ts";
import { judge, type Verdict } from "./verdict.ts";

const isFull = Boolean(process.env["HOLDFAST_FULL"]);
const FULL_MS = 120_000;

let plant: Plant;
let schema: TestSchema;
let fleet: Fleet | null = null;
let dir: string;

beforeAll(async () => {
  plant = await Plant.open();
});

afterAll(() => plant?.close());

afterEach(async () => {
  await fleet?.close();
  fleet = null;
  await schema?.dispose();
});

async function start(
  options: Pick<FleetOptions, "workers" | "atOnce"> & { sessions: number; thinkMs: number; leaseMs: number },
  bug: string | null = null,
): Promise<Fleet> {
  const { sessions, thinkMs, leaseMs, ...rest } = options;
  schema = new TestSchema();
  dir = plant.makeDir();
  // Made once, before ten of them come for it.
  await schema.open();
  const address = `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
  fleet = new Fleet({
    ...rest,
    sessions: namesOf(sessions),
    configs: [{ address, dir, world: plant.socket, leaseMs, thinkMs, jumpMs: 0, plant: bug }],
  });
  return fleet;
}

function namesOf(sessions: number): string[] {
  return Array.from({ length: sessions }, (_, index) => `s-${String(index).padStart(3, "0")}`);
}

async function verdict(running: Fleet): Promise<Verdict> {
  return judge(await schema.open(), dir, running);
}

/** The same faults for the same seed, as far as the machine lets them be. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/** Waits for it, and gives more to do to a fleet that is through before that. */
async function withWork(running: Fleet, fits: () => boolean): Promise<void> {
  await running.until(() => {
    const isThere = fits();
    if (!isThere && running.isDone) running.add(`more-${running.sessions}`);
    return isThere;
  });
}

/** Tries again if no worker holds a session, as between the end of one and the lease of the next. */
async function killOne(running: Fleet, random: () => number, sent = 0): Promise<void> {
  let isKilled = false;
  await withWork(running, () => {
    isKilled ||= running.kill(random, sent);
    return isKilled;
  });
}

/** Stops one that others take something from, and wakes it then. */
async function stopOne(running: Fleet, random: () => number): Promise<void> {
  for (let isTakenOver = false; !isTakenOver; ) {
    let stopped: ReturnType<Fleet["stop"]> = null;
    await withWork(running, () => {
      stopped ??= running.stop(random);
      return stopped !== null;
    });
    const { wake, isInVain, ...its } = stopped as unknown as NonNullable<ReturnType<Fleet["stop"]>>;
    await running.until(() => its.isTakenOver() || isInVain());
    isTakenOver = its.isTakenOver();
    wake();
  }
}

/** The first turn of a session has three requests; with the next one those are on record. */
const SOME_ON_RECORD = 5;

test("killed and stopped in turn, a small fleet does every effect once", async () => {
  const running = await start({ workers: 3, atOnce: 4, sessions: 16, thinkMs: 20, leaseMs: 1_000 });
  const random = seeded(7);
  for (let fault = 1; fault <= 6; fault++) {
    const after = running.tally.sent + 4;
    await withWork(running, () => running.tally.sent >= after);
    if (fault % 3 !== 0) await killOne(running, random);
    else await stopOne(running, random);
  }
  await running.until(() => running.isDone);
  const { violations, done, waiting, effects } = await verdict(running);
  expect(violations).toEqual([]);
  expect(running.tally.kills).toBe(4);
  expect(running.tally.stops).toBeGreaterThanOrEqual(2);
  expect(running.tally.takenOver).toBeGreaterThanOrEqual(2);
  expect(done + waiting).toBe(running.sessions);
  expect(effects).toBeGreaterThanOrEqual(done * 7);
});

test("a fleet that trusts its memory more than the ledger is found out", async () => {
  const running = await start(
    { workers: 2, atOnce: 4, sessions: 4, thinkMs: 20, leaseMs: 1_000 },
    "finished calls run again",
  );
  // A worker that had ended its sessions before the kill leaves nothing to go wrong: kill another.
  while (running.tally.resumed === 0) {
    await killOne(running, seeded(3), SOME_ON_RECORD);
    await running.until(() => running.tally.resumed > 0 || running.isDone);
  }
  await running.until(() => running.isDone);
  const { violations } = await verdict(running);
  expect(violations.map(({ invariant }) => invariant)).toContain("I5");
});

test.skipIf(!isFull)(
  "a fleet whose writes carry no fence is found out, given enough zombies (HOLDFAST_FULL=1)",
  { timeout: 120_000 },
  async () => {
    const running = await start(
      { workers: 3, atOnce: 6, sessions: 40, thinkMs: 100, leaseMs: 500 },
      "no fence",
    );
    while (!running.isDone) {
      const after = running.tally.sent + 6;
      await running.until(() => running.tally.sent >= after || running.isDone);
      const stopped = running.stop(Math.random);
      if (stopped) await running.until(() => stopped.isTakenOver() || running.isDone);
      stopped?.wake();
    }
    const { violations } = await verdict(running);
    expect(violations.map(({ invariant }) => invariant)).toContain("I7");
  },
);

test.skipIf(!isFull)(
  "eight workers, 200 sessions, two minutes of kills and stops: every effect once (HOLDFAST_FULL=1)",
  { timeout: 600_000 },
  async () => {
    const running = await start({ workers: 8, atOnce: 4, sessions: 200, thinkMs: 5_000, leaseMs: 2_000 });
    const random = seeded(Date.now());
    const begun = performance.now();
    const elapsedMs = (): number => performance.now() - begun;
    const asleep: Promise<void>[] = [];
    while (elapsedMs() < FULL_MS && !running.isDone) {
      await pause(200 + random() * 600);
      if (random() < 0.6) running.kill(random);
      else {
        const stopped = running.stop(random);
        asleep.push(pause(200 + random() * 6_000).then(() => stopped?.wake()));
      }
    }
    const faultMs = elapsedMs();
    await Promise.all(asleep);
    await running.until(() => running.isDone);
    const { violations, times: _times, ...figures } = await verdict(running);
    console.log(JSON.stringify({ faultMs: Math.round(faultMs), ...running.tally, ...figures }));
    expect(violations).toEqual([]);
    expect(running.tally.kills).toBeGreaterThan(80);
    expect(running.tally.stops).toBeGreaterThan(40);
    expect(running.tally.takenOver).toBeGreaterThan(40);
    expect(figures.done + figures.waiting).toBe(200);
  },
);

const HOUR_MS = 3_600_000;

describe.each(["postgres", "sqlite"])("a worker on %s whose clock jumps an hour ahead and back", (kind) => {
  test("takes nothing from others, loses nothing, and runs every effect once", async () => {
    schema = new TestSchema();
    dir = plant.makeDir();
    const place =
      kind === "sqlite"
        ? join(dir, "store.db")
        : `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
    const store = await openStore(place);
    const config = { address: place, dir, world: plant.socket, leaseMs: 20_000, thinkMs: 10, plant: null };
    const running = new Fleet({
      workers: 2,
      atOnce: 3,
      // No session is handed out twice: here no worker may find its session held.
      twice: 0,
      sessions: namesOf(6),
      configs: [
        { ...config, jumpMs: HOUR_MS },
        { ...config, jumpMs: 0 },
      ],
    });
    fleet = running;
    await running.until(() => running.isDone);
    const { violations, done, takeOvers, times } = await judge(store, dir, running);
    await store.close();
    expect(violations).toEqual([]);
    expect({ done, takeOvers, refused: running.tally.refused }).toEqual({
      done: 6,
      takeOvers: 0,
      refused: 0,
    });
    const now = Date.now();
    for (const direction of [1, -1]) {
      expect(times.some((at) => (at - now) * direction > HOUR_MS / 2)).toBe(true);
    }
  });
});

/** Between two faults: they are to come at any moment, not when something has happened. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
