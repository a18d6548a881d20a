/**
 * Two processes count in one stream as fast as they can, and each decides again whenever the other was
 * faster. Meanwhile both renew a short lease. Waits that the machine caused do not count against the store. A
 * third process only watches the clock and syncs a file, and the kernel tells how long a writer had no
 * processor. The other writer's wait counts too, since it may have held SQLite's lock.
 */

import { join } from "node:path";
import { expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { counterKind } from "./counter-kind.ts";
import type { Program } from "./programs.ts";

const STALL_MS = 100;
/** If an idle process waits longer than this, the machine is too busy to test a lease of 240 ms. */
const CALM_MS = 90;
const TRIES = 5;

interface Setting {
  readonly workshop: {
    place(): Promise<string>;
    start(program: "counter" | "idler", ...args: string[]): Program;
  };
  /** The name of the store. */
  readonly file: string;
  readonly lastsMs: number;
  open(path: string): Promise<Store>;
}

interface Report {
  readonly acknowledged: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly isLost: boolean;
  readonly beats: number;
  readonly beatEveryMs: number;
  /** Both without the time that the writer waited for a processor, at most `waitMs`. */
  readonly beatGapMs: number;
  readonly loopGapMs: number;
  readonly waitMs: number;
}

/** Lets them count for a while, and expects that no step was lost and only conflicts occurred. */
async function countTogether({
  workshop,
  file,
  lastsMs,
  open,
}: Setting): Promise<{ reports: Report[]; idleGapMs: number }> {
  const place = await workshop.place();
  const path = join(place, file);
  const names = ["a", "b"];
  const writers = names.map((name) => workshop.start("counter", path, name, String(lastsMs)));
  const idler = workshop.start("idler", join(place, "idle"), String(lastsMs));
  await Promise.all([...writers, idler].map((each) => each.line("ready")));
  for (const each of [...writers, idler]) each.say("go");
  const [reports, idle] = await Promise.all([
    Promise.all(writers.map(async (each) => JSON.parse((await each.line("done")).slice(5)) as Report)),
    idler.line("done").then((line) => JSON.parse(line.slice(5)) as Pick<Report, "loopGapMs">),
  ]);
  console.info(JSON.stringify({ writers: reports, idle }));

  const store = await open(path);
  const { state } = await new Journal({ store }).load(counterKind, "shared");
  expect(await store.check()).toEqual([]);
  await store.close();
  const acknowledged = reports.map((report) => report.acknowledged);
  expect(state.lost).toBe(0);
  expect(names.map((name) => state.by[name])).toEqual(acknowledged);
  expect(state.total).toBe(acknowledged.reduce((sum, each) => sum + each, 0));
  for (const { outcomes } of reports) expect(Object.keys(outcomes).sort()).toEqual(["conflict", "ok"]);
  return { reports, idleGapMs: idle.loopGapMs };
}

function stallsOf(report: Report, other: Report, idleGapMs: number, lastsMs: number): string[] {
  const { isLost, beats, beatEveryMs, beatGapMs, loopGapMs, waitMs } = report;
  const machineMs = idleGapMs + other.waitMs;
  const found = {
    "the lease was lost": isLost && machineMs + waitMs <= CALM_MS,
    [`${beats} heartbeats in ${lastsMs} ms`]: beats <= lastsMs / beatEveryMs / 2,
    [`the event loop stood still for ${loopGapMs} ms`]: loopGapMs - machineMs >= STALL_MS,
    [`no heartbeat for ${beatGapMs} ms`]: beatGapMs - beatEveryMs - machineMs >= STALL_MS,
  };
  return Object.entries(found).flatMap(([what, isSo]) => (isSo ? [what] : []));
}

export function twoWritersTest(setting: Setting): void {
  const { lastsMs } = setting;
  test("two processes on one stream lose no update, and their heartbeats never stall", {
    timeout: 300_000,
  }, async () => {
    let stalls: string[] = [];
    for (let tries = 0; tries < TRIES; tries++) {
      const { reports, idleGapMs } = await countTogether(setting);
      if (idleGapMs > CALM_MS) {
        console.warn(
          `the machine itself stood still for ${Math.round(idleGapMs)} ms: heartbeats are not judged`,
        );
        continue;
      }
      const [one, two] = reports as [Report, Report];
      stalls = [...stallsOf(one, two, idleGapMs, lastsMs), ...stallsOf(two, one, idleGapMs, lastsMs)];
      if (stalls.length === 0) return;
    }
    // A store that delays heartbeats does so every time; a busy machine sometimes, and not all three
    // processes alike.
    expect(stalls).toEqual([]);
  });
}
