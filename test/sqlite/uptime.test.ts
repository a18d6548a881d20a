/** The machine's uptime as leases run by it, where it and the process's own clock part. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LeaseOutcome, Store } from "../../src/store.ts";
import { append, holder, NAMESPACE, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

const system = vi.hoisted(() => ({ uptime: (real: number) => real }));

vi.mock("node:os", async (original) => {
  const os = await original<typeof import("node:os")>();
  return { ...os, uptime: () => system.uptime(os.uptime()) };
});

const HOUR_MS = 3_600_000;
const TTL_MS = 30_000;
let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(async () => {
  vi.restoreAllMocks();
  system.uptime = (real) => real;
  await folder.dispose();
});

function take(store: Store, owner: string): Promise<LeaseOutcome> {
  const asked = { name: "session/a", holder: holder(owner), ttlMs: TTL_MS };
  return store.lease({ act: "take", namespace: NAMESPACE, ...asked });
}

/** The uptime and the wall clock go on, the process's own clock does not. */
function sleepMachine(ms: number): void {
  const wall = Date.now();
  system.uptime = (real) => real + ms / 1_000;
  vi.spyOn(Date, "now").mockReturnValue(wall + ms);
}

test("a write right after the machine woke prolongs its lease", async () => {
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
  const { bootClock } = await import("../../src/stores/sqlite/index.ts");
  const clock = bootClock();
  const before = clock.nowMs();
  const wall = Date.now();
  for (const ms of [HOUR_MS, -HOUR_MS, 0]) {
    vi.spyOn(Date, "now").mockReturnValue(wall + ms);
    expect(Math.abs(clock.nowMs() - before)).toBeLessThan(10_000);
  }
});

test.runIf(process.platform === "linux")(
  "an uptime below the time that the machine was awake is not the machine's",
  async () => {
    system.uptime = () => 1;
    vi.resetModules();
    const { bootClock, timelineOf } = await import("../../src/stores/sqlite/index.ts");
    const inside = bootClock();
    system.uptime = (real) => real;
    vi.resetModules();
    const outside = (await import("../../src/stores/sqlite/index.ts")).bootClock();
    expect(inside.boot).toBe(outside.boot);
    expect(timelineOf(inside)).not.toBe(timelineOf(outside));
    expect(inside.nowMs() / 1_000).toBeCloseTo(process.hrtime()[0], -1);
  },
);
