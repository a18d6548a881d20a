/** Leases between real processes: when another may take over, and what the former holder can still do. */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Journal, Lease, OwnedLog } from "../../src/journal/index.ts";
import type { LeaseRow, Store } from "../../src/store.ts";
import { bootClock } from "../../src/stores/kit/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { type Program, Workshop } from "../crash/programs.ts";
import { tallyKind } from "../crash/tally.ts";
import { PLACES } from "./places.ts";
import { said, words } from "./words.ts";

const NAME = "tally/held";
const LONG_MS = 60_000;
const SHORT_MS = 500;

describe.runIf(process.platform === "linux")("a lease that another process holds", () => {
  let workshop: Workshop;
  let path: string;
  let store: Store;
  /** The clock of leases in this process. */
  let nowMs: () => number;

  beforeAll(async () => {
    workshop = await Workshop.make();
  });

  beforeEach(openAnew);
  afterEach(() => store.close());
  afterAll(() => workshop.dispose());

  async function openAnew(): Promise<void> {
    path = join(await workshop.place(), "store.db");
    const clock = bootClock();
    nowMs = clock.nowMs;
    store = await openSqlite({ path, clock: { ...clock, nowMs: () => nowMs() } });
  }

  async function holder(leaseMs: number): Promise<Program> {
    const program = workshop.start("holder", path, NAME, String(leaseMs));
    expect(await program.line("holds")).toBe("holds 1");
    return program;
  }

  function take(leaseMs: number, waitMs: number): Promise<Lease | LeaseRow> {
    const journal = new Journal({ store, leaseMs });
    return journal.leases.take(NAME, journal.newId(), { label: "next", waitMs });
  }

  function mustHave(taken: Lease | LeaseRow): Lease {
    if (!(taken instanceof Lease)) throw new Error(`it is still held: ${JSON.stringify(taken)}`);
    return taken;
  }

  test("is granted at once after that process was killed", async () => {
    const program = await holder(LONG_MS);
    program.signal("SIGKILL");
    expect((await program.ended).signal).toBe("SIGKILL");
    const lease = mustHave(await take(LONG_MS, 0));
    expect(lease.token).toBe(2);
    expect(lease.from).toMatchObject({ label: "holder", pid: program.pid });
    await lease.release();
  });

  test("is granted at once if that process is dead but not reaped", async () => {
    // The shell starts the holder, then becomes a program that reaps no child.
    const command = workshop.command("holder", path, NAME, String(LONG_MS));
    const script = '"$@" < /proc/self/fd/0 & echo "pid $!"; exec sleep 600';
    const parent = workshop.run(["sh", "-c", script, "sh", ...command]);
    const pid = Number((await parent.line("pid")).slice(4));
    await parent.line("holds");
    process.kill(pid, "SIGKILL");
    // Its threads die one by one; it is dead when only the first is left.
    const isZombie = () =>
      readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ") &&
      readdirSync(`/proc/${pid}/task`).length === 1;
    while (!isZombie()) await new Promise((resolve) => setImmediate(resolve));
    const lease = mustHave(await take(LONG_MS, 0));
    expect(lease.from?.pid).toBe(pid);
    expect(isZombie()).toBe(true);
    await lease.release();
  });

  test("is not granted while that process lives, however long we wait", async () => {
    for (let leaseMs = SHORT_MS; ; leaseMs *= 4) {
      const program = await holder(leaseMs);
      const row = await take(leaseMs, 3 * leaseMs);
      program.say("gap");
      const gapMs = Number((await program.line("gap ")).slice(4));
      // A holder that the busy machine keeps from its heartbeats for that long rightly loses it: try a longer
      // lease.
      if (row instanceof Lease && gapMs > leaseMs / 2 && leaseMs < LONG_MS) {
        program.signal("SIGKILL");
        await program.ended;
        await row.release();
        await store.close();
        await openAnew();
        continue;
      }
      expect(row).not.toBeInstanceOf(Lease);
      expect(row).toMatchObject({ token: 1, holder: { label: "holder", pid: program.pid } });
      program.say("still");
      expect(await program.line("still")).toBe("still ok");
      return;
    }
  });

  test("stays with a stopped process until it expires; then the process is fenced", async () => {
    const program = await holder(SHORT_MS);
    program.say("first");
    expect(await program.line("first")).toBe("first ok");
    const stoppedAt = nowMs();
    nowMs = () => stoppedAt;
    program.signal("SIGSTOP");
    const row = await take(LONG_MS, 0);
    expect(row).toMatchObject({ token: 1, holder: { pid: program.pid } });
    const waiting = take(LONG_MS, LONG_MS);
    nowMs = () => stoppedAt + LONG_MS;
    const lease = mustHave(await waiting);
    expect(lease.token).toBe(2);
    expect(lease.from?.pid).toBe(program.pid);
    program.signal("SIGCONT");
    program.say("zombie");
    expect(await program.line("zombie")).toBe("zombie fenced");
    await program.line("lost");
    const journal = new Journal({ store });
    const log = await journal.open(tallyKind, "held");
    expect(log.state).toEqual({ count: 1, last: "first" });
    const data = { id: "successor", batch: "successor", size: 1, text: "" };
    const guards = [lease.guard];
    const outcome = await log.commit(() => ({ events: [{ type: "note", data }], result: null, guards }));
    expect(outcome.outcome).toBe("ok");
    await lease.release();
  });
});

describe.each(Object.entries(PLACES))("leases on %s", (_, makePlace) => {
  const take = (journal: Journal, name: string, owner: string) =>
    journal.leases.take(name, owner, { label: owner, waitMs: 0 });

  test("an owned log writes until another owner takes over, then fails with LEASE_LOST", async () => {
    const place = await makePlace();
    const journal = new Journal({ store: place.store });
    const first = await take(journal, "words/w", "a");
    if (!(first instanceof Lease)) throw new Error("somebody holds it");
    const own = new OwnedLog(await journal.open(words, "w"), first);
    await own.write(() => said("mine"));
    journal.leases.stop();
    place.advanceMs(journal.leases.ttlMs + 1);
    // Expired, but not taken: the token still counts.
    await own.write(() => said("late"));
    place.advanceMs(journal.leases.ttlMs + 1);
    const second = await take(new Journal({ store: await place.another() }), "words/w", "b");
    expect(second).toMatchObject({ token: 2, from: { owner: "a" } });
    await expect(own.write(() => said("zombie"))).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(first.lost.aborted).toBe(true);
    expect((await journal.load(words, "w")).state.list).toEqual(["mine", "late"]);
    await place.dispose();
  });

  test("a commit that writes nothing does not confirm the lease", async () => {
    const place = await makePlace();
    const journal = new Journal({ store: place.store });
    const lease = await take(journal, "words/w", "a");
    if (!(lease instanceof Lease)) throw new Error("somebody holds it");
    const own = new OwnedLog(await journal.open(words, "w"), lease);
    const taken = lease.confirmedAt.steady;
    await own.commit(() => ({ events: [], result: null }));
    expect(lease.confirmedAt.steady).toBe(taken);
    await own.commit(() => said("something"));
    expect(lease.confirmedAt.steady).toBeGreaterThan(taken);
    await lease.release();
    await place.dispose();
  });

  test("two handles of one process are two owners; the same owner keeps its token", async () => {
    const place = await makePlace();
    const journal = new Journal({ store: place.store });
    expect(await take(journal, "words/w", "a")).toMatchObject({ token: 1 });
    expect(await take(journal, "words/w", "a")).toMatchObject({ token: 1 });
    const other = await take(journal, "words/w", "b");
    expect(other).not.toBeInstanceOf(Lease);
    expect(other).toMatchObject({ token: 1, holder: { owner: "a" } });
    journal.leases.stop();
    await place.dispose();
  });

  test("a lease is found by its whole name, not by the beginning of another's", async () => {
    const place = await makePlace();
    const journal = new Journal({ store: place.store });
    const longer = await take(journal, "words/w-2", "a");
    expect(await journal.leases.find("words/w")).toBeNull();
    await take(journal, "words/w", "b");
    expect(await journal.leases.find("words/w")).toMatchObject({ name: "words/w", holder: { owner: "b" } });
    if (longer instanceof Lease) await longer.release();
    expect(await journal.leases.find("words/w-2")).toMatchObject({ holder: null, token: 1 });
    journal.leases.stop();
    await place.dispose();
  });

  test("a released lease is free at once, and its token is not reused", async () => {
    const place = await makePlace();
    const journal = new Journal({ store: place.store });
    for (const [index, owner] of ["a", "b", "a"].entries()) {
      const lease = await take(journal, "words/w", owner);
      if (!(lease instanceof Lease)) throw new Error("somebody holds it");
      expect(lease).toMatchObject({ token: index + 1, from: null });
      await lease.release();
    }
    await place.dispose();
  });

  test("the wait for a lease ends when the signal aborts", async () => {
    const place = await makePlace();
    const journal = new Journal({ store: place.store });
    await take(journal, "words/w", "a");
    const signal = AbortSignal.timeout(30);
    const waiting = journal.leases.take("words/w", "b", { label: "b", waitMs: 60_000, signal });
    await expect(waiting).rejects.toMatchObject({ name: "TimeoutError" });
    journal.leases.stop();
    await place.dispose();
  });
});
