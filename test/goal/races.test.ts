/** Other writers change a goal while a call waits for a verdict, a lease or a commit. */

import { expect, test } from "vitest";
import {
  type Goal,
  goalCore,
  openGoal,
  resetLostClaims,
  runWithCheckpoints,
  type TaskAgent,
} from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { Gate } from "../journal/gate.ts";
import { altered } from "../journal/places.ts";
import { human, supervisor, verifier, worker } from "./bench.ts";

const quick = { retry: { backoffMs: 0 }, waitMs: 0 };

function goalOn(store: Store, options = {}): Promise<Goal> {
  const tasks = [{ title: "build" }];
  return openGoal(new Journal({ store }), "checkout", {
    statement: "Ship it",
    by: human,
    phases: ["one"],
    tasks,
    ...options,
  });
}

test("a verdict on an outdated attempt is rejected", async () => {
  const data = memoryData();
  const here = await goalOn(openMemory({ data }));
  const there = await goalOn(openMemory({ data }));
  await (await there.claim("T-001", { by: worker })).submit({ summary: "first" });
  const seen: (string | null)[] = [];
  const agent: TaskAgent = {
    executeTask: async () => {
      throw new Error("enough");
    },
    verifyTask: async (_task, evidence) => {
      seen.push(evidence.summary);
      if (seen.length === 1) {
        await there.verify({ task: "T-001", accept: false, why: "no tests", by: verifier });
        await (await there.claim("T-001", { by: worker })).submit({ summary: "second" });
        return true;
      }
      return { accept: false, why: "looked at" };
    },
  };
  await runWithCheckpoints(agent, here, quick);
  expect(seen).toEqual(["first", "second"]);
});

test("a run does not continue one that ended while it checked whether that run is dead", async () => {
  const data = memoryData();
  const gate = new Gate();
  let reach = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  const names = (name: string): boolean => name.endsWith("/run-one");
  const store = altered(openMemory({ data }), {
    lease: (lease, request) => {
      if (request.act !== "take" || !names(request.name)) return lease(request);
      reach();
      return gate.pass(() => lease(request));
    },
  });
  const there = await goalOn(openMemory({ data }));
  let finish = (): void => undefined;
  const working = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const slow: TaskAgent = {
    executeTask: async () => {
      begin();
      await working;
    },
  };
  const first = runWithCheckpoints(slow, there, { ...quick, session: "run-one" });
  await begun;
  const here = await goalOn(store);
  gate.close();
  const second = runWithCheckpoints({ executeTask: async () => undefined }, here, {
    ...quick,
    session: "run-two",
  });
  await reached;
  finish();
  await first;
  gate.open();
  await second;
  expect(here.state.history.get("run-two")?.resumes).toBeNull();
});

test("a task that is claimed again right after its failure stays with the new holder", async () => {
  const data = memoryData();
  const gate = new Gate();
  const store = altered(openMemory({ data }), {
    lease: (lease, request) => (request.act === "release" ? gate.pass(() => lease(request)) : lease(request)),
  });
  const goal = await goalOn(store);
  const claim = await goal.claim("T-001", { by: worker });
  gate.close();
  const failing = claim.fail("no luck");
  // Another loop of the same program sees the task fail before its lease is released.
  while (goal.task("T-001").status !== "failed") await goal.refresh();
  await expect(goal.claim("T-001", { by: worker })).rejects.toMatchObject({ code: "TASK_HELD" });
  gate.open();
  await failing;
  const second = await goal.claim("T-001", { by: worker });
  await second.progress("still mine");
});

test("two runs on one handle execute a task once", async () => {
  const goal = await goalOn(openMemory(), { verification: "self", tasks: [{ title: "a" }, { title: "b" }] });
  const done: string[] = [];
  const agent: TaskAgent = {
    executeTask: async (task) => {
      done.push(task.id);
      await new Promise((resolve) => setTimeout(resolve, 20));
    },
  };
  await Promise.all([runWithCheckpoints(agent, goal, quick), runWithCheckpoints(agent, goal, quick)]);
  expect(done.sort()).toEqual(["T-001", "T-002"]);
});

test("a run that a supervisor marks as crashed while it ends still returns its report", async () => {
  const data = memoryData();
  const there = await goalOn(openMemory({ data }), { verification: "self" });
  let isEnding = false;
  const store = altered(openMemory({ data }), {
    append: async (append, batch) => {
      const ends = batch.writes.some(({ payload }) => String(payload).includes("session.ended"));
      if (ends && !isEnding) {
        isEnding = true;
        await there.refresh();
        await there.crashSession({ session: "run-one", by: supervisor });
      }
      return append(batch);
    },
  });
  const here = await goalOn(store, { verification: "self" });
  const report = await runWithCheckpoints({ executeTask: async () => undefined }, here, {
    ...quick,
    session: "run-one",
  });
  expect(report.status).toBe("done");
});

test("an agent that makes progress while a supervisor is about to take its task keeps it", async () => {
  const data = memoryData();
  let now = 1_700_000_000_000;
  const clock = () => now;
  const open = (store: Store): Promise<Goal> =>
    openGoal(new Journal({ store, now: clock }), "checkout", {
      statement: "Ship it",
      by: human,
      phases: ["one"],
      tasks: [{ title: "build" }],
    });
  const there = await open(openMemory({ data }));
  const claim = await there.claim("T-001", { by: worker });
  let looks = 0;
  const store = altered(openMemory({ data }), {
    list: async (list, request) => {
      const page = await list(request as never);
      if (request.of === "leases" && looks++ === 0) await claim.progress("further");
      return page;
    },
  });
  const here = await open(store);
  now += 3_600_000;
  expect(await resetLostClaims(here, supervisor, { staleAfterMs: 1_800_000 })).toEqual([]);
  await claim.progress("still mine");
});

test("a stale handle does not reject acts that the latest state allows", async () => {
  const data = memoryData();
  const here = await goalOn(openMemory({ data }));
  const there = await goalOn(openMemory({ data }));
  await (await there.claim("T-001", { by: worker })).submit({});
  expect(await here.verify({ task: "T-001", accept: true, by: verifier })).toMatchObject({ status: "done" });
});

test("a run that fails to start frees its name", async () => {
  const goal = await goalOn(openMemory());
  const agent: TaskAgent = { executeTask: async () => undefined };
  const watcher = { name: "w", role: "verifier" } as const;
  const begin = (by: { name: string; role: "verifier" | "worker" }) =>
    runWithCheckpoints(agent, goal, { ...quick, session: "run-one", by });
  goalCore(goal).guardWrites({
    before: () => Promise.reject(new Error("not now")),
    check: () => undefined,
    after: async () => undefined,
  });
  await expect(begin(watcher)).rejects.toThrow("not now");
  goalCore(goal).guardWrites(null);
  await begin(worker as never);
});
