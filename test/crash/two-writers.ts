/**
 * Two processes count in one stream as fast as they can, and each decides again whenever the other was
 * faster. Meanwhile both renew a lease by a timer, while other streams keep the store's queue full.
 *
 * Nothing is measured in milliseconds. A timer that never fires and a writer that never gets the lock show as
 * a process that never has enough. A renewal that waits shows in the number of commits that went before it.
 */

import { join } from "node:path";
import { expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { counterKind } from "./counter-kind.ts";
import type { Program } from "./programs.ts";

/** A renewal may meet a commit in flight, and one that was submitted in the same turn. */
const COMMITS_BEFORE_A_RENEWAL = 2;

interface Setting {
  readonly workshop: {
    place(): Promise<string>;
    start(program: "counter", ...args: string[]): Program;
  };
  /** The name of the store. */
  readonly file: string;
  open(path: string): Promise<Store>;
}

interface Report {
  readonly acknowledged: number;
  readonly outcomes: Readonly<Record<string, number>>;
  readonly isLost: boolean;
  /** The most own commits between a renewal and its answer. */
  readonly longestWait: number;
}

export function twoWritersTest({ workshop, file, open }: Setting): void {
  test("two processes on one stream lose no update, and both get their turn and their renewals", async () => {
    const path = join(await workshop.place(), file);
    const names = ["a", "b"];
    const writers = names.map((name) => workshop.start("counter", path, name));
    for (const order of ["ready", "enough"]) {
      await Promise.all(writers.map((each) => each.line(order)));
      for (const each of writers) each.say("go on");
    }
    const reports = await Promise.all(
      writers.map(async (each) => JSON.parse((await each.line("done")).slice(5)) as Report),
    );

    const store = await open(path);
    const { state } = await new Journal({ store }).load(counterKind, "shared");
    expect(await store.check()).toEqual([]);
    await store.close();
    const acknowledged = reports.map((report) => report.acknowledged);
    expect(state.lost).toBe(0);
    expect(names.map((name) => state.by[name])).toEqual(acknowledged);
    expect(state.total).toBe(acknowledged.reduce((sum, each) => sum + each, 0));
    for (const { outcomes, isLost, longestWait } of reports) {
      expect(Object.keys(outcomes).sort()).toEqual(["conflict", "ok"]);
      expect(isLost).toBe(false);
      expect(longestWait).toBeLessThanOrEqual(COMMITS_BEFORE_A_RENEWAL);
    }
  });
}
