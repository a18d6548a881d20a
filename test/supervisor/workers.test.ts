// Real processes: started, watched, killed, stopped.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { Goal } from "../../src/goal/index.ts";
import { Holdfast, open, type SuperviseOptions, type SupervisorEvent } from "../../src/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { DEFAULTS, Sweeper, type Work, Workers } from "../../src/supervisor/index.ts";
import type { Opened } from "../../src/testing/index.ts";
import { human } from "../goal/bench.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { storeSubjects } from "../subjects.ts";
import { chargeIn } from "./programs/charge.ts";

const WAIT = { timeout: 50_000, interval: 5 };
let folder: string;
let running: { controller: AbortController; done: Promise<void> }[];

beforeEach(async () => {
  folder = await mkdtemp(join(quickFolder(), "holdfast-supervisor-"));
  running = [];
});
afterEach(async () => {
  for (const { controller } of running) controller.abort();
  await Promise.all(running.map(({ done }) => done));
  await rm(folder, { recursive: true });
});

/** A supervisor that lives until the test ends or stops it. */
function supervise(holdfast: Holdfast, options: Omit<SuperviseOptions, "signal">) {
  const controller = new AbortController();
  const events: SupervisorEvent[] = [];
  const onEvent = (event: SupervisorEvent): void => {
    events.push(event);
  };
  const base = { everyMs: 20, backoffMs: 20, graceMs: 500, onEvent, signal: controller.signal };
  const done = holdfast.supervise({ ...base, ...options });
  running.push({ controller, done });
  const stop = async (): Promise<void> => {
    controller.abort();
    await done;
  };
  const of = <Type extends SupervisorEvent["type"]>(type: Type) =>
    events.filter((event): event is Extract<SupervisorEvent, { type: Type }> => event.type === type);
  return { events, of, stop };
}

/** A worker as a short shell script, which starts fast. `say word` writes a line that the test can read. */
const script = (code: string) => ({
  command: ["sh", "-c", `say() { echo "$1 $HOLDFAST_TASK" >> '${join(folder, "log")}'; }; ${code}`],
  output: "ignore" as const,
});
const said = (): string[] => {
  const file = join(folder, "log");
  return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
};

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe.each(storeSubjects())("workers of a supervisor on $name", (subject) => {
  let opened: Opened;
  let holdfast: Holdfast;
  let goal: Goal;

  beforeEach(async () => {
    opened = await subject.open();
    holdfast = new Holdfast(new Journal({ store: opened.store }));
    goal = await holdfast.goal("checkout", {
      statement: "Ship it",
      by: human,
      tasks: [{ title: "a" }, { title: "b" }],
    });
  });
  afterEach(async () => {
    for (const { controller, done } of running) {
      controller.abort();
      await done;
    }
    await opened.dispose();
  });
  afterAll(() => subject.dispose());

  test("that keep dying are stopped, and the task waits for a person, who restarts it", async () => {
    const told: SupervisorEvent[] = [];
    const notify = (event: SupervisorEvent): void => {
      told.push(event);
    };
    const start = (work: { kind: string; task?: string }) =>
      work.task === "T-001" ? script("exit 3") : null;
    const { of } = supervise(holdfast, { start, notify, maxDeaths: 3 });
    await expect.poll(() => of("worker.looping").length, WAIT).toBe(1);
    expect(of("worker.ended").map(({ how, why }) => [how, why])).toEqual(
      Array(3).fill(["died", "it ended with exit code 3"]),
    );
    expect(told.map(({ type }) => type)).toContain("worker.looping");
    const [looping] = of("worker.looping");
    await goal.refresh();
    const blocker = goal.state.blockers.get(looping?.blocker ?? "");
    expect(blocker).toMatchObject({
      status: "active",
      affects: { tasks: ["T-001"] },
      description:
        "Crash loop: the worker for T-001 of checkout died 3 times in a row; at last it ended with exit code 3",
    });
    await goal.resolve({ blocker: looping?.blocker ?? "", resolution: "fixed, I hope" });
    await expect.poll(() => of("worker.looping").length, WAIT).toBe(2);
    expect(of("worker.started")).toHaveLength(6);
  });

  test("are at most `parallel`, and never two for one task, also with two supervisors", async () => {
    const start = script("say begin; sleep 0.15; say end");
    const second = new Holdfast(new Journal({ store: await opened.another() }));
    const options = { start, parallel: 1, maxDeaths: 1 };
    const supervisors = [supervise(holdfast, options), supervise(second, options)];
    const looping = () => supervisors.flatMap(({ of }) => of("worker.looping"));
    // A worker that touches nothing counts as dead: with one death allowed, each task is tried once.
    await expect.poll(() => looping().length, WAIT).toBe(2);
    expect(said().sort()).toEqual(["begin T-001", "begin T-002", "end T-001", "end T-002"]);
    expect(looping()[0]?.why).toContain("without having touched the task");
    await goal.refresh();
    expect(goal.state.blockers.size).toBe(2);
  });

  test("are asked to stop with the supervisor, which does not count as a death", async () => {
    const start = script("trap 'say stopping; exit 0' TERM; say begin; sleep 100 & wait");
    // The limit is generous: on a busy machine a process may take more than half a second to exit.
    const { stop, of } = supervise(holdfast, { start, parallel: 1, graceMs: 50_000 });
    await expect.poll(said, WAIT).toContain("begin T-001");
    await stop();
    expect(said()).toEqual(["begin T-001", "stopping T-001"]);
    expect(of("worker.ended")).toEqual([expect.objectContaining({ how: "stopped" })]);
    const { rows } = await opened.store.list<"leases">({
      of: "leases",
      namespace: "default",
      prefix: "worker/",
      limit: 9,
    });
    expect(rows.map(({ holder }) => holder)).toEqual([null]);
  });

  test("have longer to stop than the guides let them drain, and less than Kubernetes gives", () => {
    const guide = readFileSync(new URL("../../docs/guides/deploy.md", import.meta.url), "utf8");
    const drainMs = Number(/withinMs: ([\d_]+)/.exec(guide)?.[1]?.replace("_", ""));
    const periodMs = 1_000 * Number(/terminationGracePeriodSeconds: (\d+)/.exec(guide)?.[1]);
    expect(drainMs).toBeLessThan(DEFAULTS.graceMs);
    expect(DEFAULTS.graceMs).toBeLessThan(periodMs);
  });

  test("that do not stop are killed", async () => {
    const start = script("trap '' TERM; say begin; exec sleep 100");
    const { stop, of } = supervise(holdfast, { start, parallel: 1, graceMs: 50 });
    await expect.poll(said, WAIT).toContain("begin T-001");
    const pid = of("worker.started")[0]?.pid ?? 0;
    expect(isThere(pid)).toBe(true);
    await stop();
    expect(isThere(pid)).toBe(false);
    expect(of("worker.ended")).toEqual([expect.objectContaining({ how: "stopped" })]);
  });

  test("that cannot be started are a crash loop, not the end of the supervisor", async () => {
    const { of } = supervise(holdfast, {
      start: { command: ["/no/such/program"] },
      maxDeaths: 2,
      parallel: 1,
    });
    await expect.poll(() => of("worker.looping").length, WAIT).toBe(2);
    expect(of("worker.looping")[0]?.why).toContain("it could not be started");
    expect(of("error")).toEqual([]);
  });

  test("are not started for work that is done or blocked by now", async () => {
    await goal.block({ by: human, description: "no key yet", affects: { tasks: ["T-001"] } });
    const stale: Work[] = [
      { kind: "task", goal: "checkout", task: "T-001" },
      { kind: "session", session: "order-1" },
    ];
    const events: SupervisorEvent[] = [];
    const sweeper = new Sweeper(holdfast.journal, { onEvent: (event) => events.push(event) });
    const { signal } = new AbortController();
    const workers = new Workers(sweeper, { start: script("say begin"), signal });
    expect(await workers.start(stale)).toBeNull();
    await workers.stop();
    expect(events).toEqual([]);
    const { rows } = await opened.store.list<"leases">({
      of: "leases",
      namespace: "default",
      prefix: "worker/",
      limit: 9,
    });
    expect(rows.map(({ holder }) => holder)).toEqual([null, null]);
  });

  test("are started for a session without a goal whose process died, until one exits with 0", async () => {
    const dying = new Journal({ store: await opened.another() });
    await new Holdfast(dying).session("order-1");
    dying.leases.stop();
    await opened.advanceMs?.(300_000);
    const start = (work: { kind: string }) =>
      work.kind === "session" ? script('say "$HOLDFAST_SESSION"; exit $#') : null;
    const looks = vi.spyOn(Sweeper.prototype, "sweep");
    const { of } = supervise(holdfast, { start });
    await expect.poll(() => of("worker.ended"), WAIT).toEqual([expect.objectContaining({ how: "done" })]);
    const before = looks.mock.calls.length;
    await expect.poll(() => looks.mock.calls.length, WAIT).toBeGreaterThan(before + 4);
    expect(of("worker.started")).toHaveLength(1);
    expect(said()[0]).toMatch(/^order-1/);
  });
});

describe("processes on one SQLite file", () => {
  const program = (name: string): string => programFile(new URL(`./programs/${name}.ts`, import.meta.url));

  test("an agent killed after its effect is restarted, and the effect happens once", async () => {
    const store = join(folder, "store.db");
    const world = join(folder, "world");
    const holdfast = await open(store);
    const goal = await holdfast.goal("checkout", {
      statement: "Pay",
      verification: "self",
      by: human,
      tasks: [{ title: "a" }, { title: "b" }],
    });
    const command = [process.execPath, program("worker"), store, world];
    const { of, stop } = supervise(holdfast, { start: { command }, tools: [chargeIn(world)], maxDeaths: 5 });
    await expect
      .poll(async () => (await goal.refresh()).progress().tasksCompleted, { timeout: 50_000, interval: 20 })
      .toBe(2);
    await expect.poll(() => of("worker.ended").filter(({ how }) => how === "done").length, WAIT).toBe(2);
    await stop();
    expect(of("error")).toEqual([]);
    const keys = readFileSync(world, "utf8").trim().split("\n");
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(2);
    expect(
      of("call.settled")
        .map(({ session, status }) => [session, status])
        .sort(),
    ).toEqual([
      ["agent-T-001", "completed"],
      ["agent-T-002", "completed"],
    ]);
    for (const task of ["T-001", "T-002"]) {
      const entry = (await goal.refresh()).state.history.get(`agent-${task}`);
      expect(entry).toMatchObject({ status: "ended", restarts: 1, completed: [task] });
      expect(entry?.notes.join()).toContain("Agent unresponsive");
    }
    expect(await holdfast.check()).toEqual([]);
    await holdfast.close();
  });

  test("a task whose session waits for a person gets its next worker after the answer", async () => {
    const store = join(folder, "store.db");
    const world = join(folder, "world");
    const holdfast = await open(store);
    const tasks = [{ title: "fax" }];
    const goal = await holdfast.goal("checkout", {
      statement: "Fax",
      verification: "self",
      by: human,
      tasks,
    });
    const command = [process.execPath, program("asking-worker"), store, world];
    const { of, stop } = supervise(holdfast, { start: { command }, maxDeaths: 5 });
    const waiting = { how: "waiting", why: "session faxes waits for a person" };
    await expect.poll(() => of("worker.ended"), WAIT).toContainEqual(expect.objectContaining(waiting));
    const looks = vi.spyOn(holdfast.journal.leases, "take");
    await expect.poll(() => looks.mock.calls.length, WAIT).toBeGreaterThan(5);
    expect(of("worker.started")).toHaveLength(2);
    await holdfast.calls.resolve("f1", { outcome: "landed", result: "sent", by: "ann", why: "it came out" });
    await expect.poll(async () => (await goal.refresh()).progress().tasksCompleted, WAIT).toBe(1);
    const ends = () => of("worker.ended").map(({ how }) => how);
    await expect.poll(ends, WAIT).toEqual(["died", "waiting", "done"]);
    await stop();
    expect(readFileSync(world, "utf8")).toBe("fax\n");
    await holdfast.close();
  });

  test("a killed supervisor: the next one counts its worker as dead and starts another", async () => {
    const store = join(folder, "store.db");
    const pids = join(folder, "pids");
    const holdfast = await open(store);
    await holdfast.goal("checkout", { statement: "Pay", by: human, tasks: [{ title: "a" }] });
    const child = spawn(process.execPath, [program("supervisor"), store, pids], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const sleepers = (): string[] =>
      existsSync(pids) ? (readFileSync(pids, "utf8").match(/\d+(?=\n)/g) ?? []) : [];
    try {
      for await (const line of createInterface({ input: child.stdout })) if (line === "worker.started") break;
      await expect.poll(sleepers, WAIT).toHaveLength(1);
      child.kill("SIGKILL");
      await once(child, "exit");
      const { of } = supervise(holdfast, { start: script("say begin; exit 1"), maxDeaths: 2 });
      await expect.poll(() => of("worker.looping").length, WAIT).toBe(1);
      expect(said()).toEqual(["begin T-001"]);
      expect(of("worker.looping")[0]?.deaths).toBe(2);
    } finally {
      child.kill("SIGKILL");
      for (const pid of sleepers()) process.kill(Number(pid), "SIGKILL");
    }
    for (const { controller, done } of running) {
      controller.abort();
      await done;
    }
    await holdfast.close();
  });
});
