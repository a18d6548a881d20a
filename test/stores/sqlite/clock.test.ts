/** The clock that leases run by, where the machine's uptime and the process's own clock differ. */

import { syncBuiltinESMExports } from "node:module";
import os from "node:os";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LeaseOutcome, Store } from "../../../src/store.ts";
import { bootClock, timelineOf } from "../../../src/stores/kit/index.ts";
import { append, holder, NAMESPACE, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

const HOUR_MS = 3_600_000;
const TTL_MS = 30_000;
let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

/** Also for modules that have imported it already. */
function setUptime(seconds: (real: number) => number): void {
  const real = os.uptime;
  vi.spyOn(os, "uptime").mockImplementation(() => seconds(real()));
  syncBuiltinESMExports();
}

afterEach(async () => {
  vi.restoreAllMocks();
  syncBuiltinESMExports();
  await folder.dispose();
});

function take(store: Store, owner: string): Promise<LeaseOutcome> {
  const asked = { name: "session/a", holder: holder(owner), ttlMs: TTL_MS };
  return store.lease({ act: "take", namespace: NAMESPACE, ...asked });
}

/** The uptime and the wall clock advance, the process's own clock does not. */
function sleepMachine(ms: number): void {
  const wall = Date.now();
  setUptime((real) => real + ms / 1_000);
  vi.spyOn(Date, "now").mockReturnValue(wall + ms);
}

test("a write right after the machine woke renews its lease", async () => {
  vi.spyOn(performance, "now").mockReturnValue(performance.now());
  const owner = await folder.open();
  await take(owner, "owner");
  const guards = [{ lease: "session/a", token: 1 }];
  expect(await append(owner, write("session/a", 0, [1], { guards }))).toMatchObject({ outcome: "ok" });
  sleepMachine(HOUR_MS);
  expect(await append(owner, write("session/a", 1, [2], { guards }))).toMatchObject({ outcome: "ok" });
  expect(await take(await folder.open(), "other")).toMatchObject({ outcome: "held", lease: { token: 1 } });
});

test("a wall clock that is set, ahead or back, moves no lease", async () => {
  const clock = bootClock();
  const before = clock.nowMs();
  const wall = Date.now();
  for (const ms of [HOUR_MS, -HOUR_MS, 0]) {
    vi.spyOn(Date, "now").mockReturnValue(wall + ms);
    expect(Math.abs(clock.nowMs() - before)).toBeLessThan(10_000);
  }
});

test.runIf(process.platform === "linux")(
  "an uptime below the time that the machine was awake is taken for simulated",
  async () => {
    const outside = bootClock();
    setUptime(() => 1);
    // A process reads it once. Under another name the module stands for another process.
    const another = "../../../src/stores/kit/clock.ts?inside";
    const { bootClock: asked } = (await import(another)) as { bootClock: typeof bootClock };
    const inside = asked();
    expect(inside.boot).toBe(outside.boot);
    expect(timelineOf(inside)).not.toBe(timelineOf(outside));
    expect(inside.nowMs() / 1_000).toBeCloseTo(process.hrtime()[0], -1);
  },
);
