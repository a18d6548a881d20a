// Agents live, work and die at random under two supervisors. A small model predicts the result.

import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { Claim, Goal } from "../../src/goal/index.ts";
import { Holdfast } from "../../src/index.ts";
import type { Journal } from "../../src/journal/index.ts";
import { Bench, by } from "../goal/bench.ts";
import { storeSubjects } from "../subjects.ts";

const MINUTE = 60_000;
const STALE_MS = 30 * MINUTE;
const TASKS = ["T-001", "T-002", "T-003"];

type Op =
  | { readonly op: "work"; readonly agent: number; readonly task: number }
  | { readonly op: "progress" | "release" | "kill"; readonly agent: number }
  | { readonly op: "pass"; readonly minutes: number }
  | { readonly op: "sweep"; readonly by: "one" | "other" | "both" };

const agent = fc.nat({ max: 2 });
const ops: fc.Arbitrary<Op> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ op: fc.constant("work" as const), agent, task: fc.nat({ max: 2 }) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constantFrom("progress" as const, "release" as const, "kill" as const),
      agent,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ op: fc.constant("pass" as const), minutes: fc.constantFrom(4, 16, 31) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      op: fc.constant("sweep" as const),
      by: fc.constantFrom("one" as const, "other" as const, "both" as const),
    }),
  },
);

/** One life of an agent: its process, its session, and its expected record. */
interface Life {
  readonly session: string;
  readonly journal: Journal;
  readonly goal: Goal;
  readonly claims: Map<string, Claim>;
  status: "active" | "crashed";
  isAlive: boolean;
  /** Last progress on a task; last change of the session's own entry. */
  progressAt: number;
  entryAt: number;
}

class World {
  readonly lives: Life[] = [];
  readonly current: (Life | null)[] = [null, null, null];
  readonly bench: Bench;
  readonly supervisors: readonly Holdfast[];

  constructor(bench: Bench, supervisors: readonly Holdfast[]) {
    this.bench = bench;
    this.supervisors = supervisors;
  }

  async life(number: number): Promise<Life> {
    const known = this.current[number];
    if (known?.isAlive && known.status === "active") return known;
    const journal = await this.bench.another();
    const goal = await this.bench.goal({ by: by("worker", `w-${number}`) }, journal);
    const session = `s-${this.lives.length}`;
    await goal.startSession({ session, resumes: null });
    const now = this.bench.now;
    const life: Life = {
      session,
      journal,
      goal,
      claims: new Map(),
      status: "active",
      isAlive: true,
      progressAt: now,
      entryAt: now,
    };
    this.lives.push(life);
    this.current[number] = life;
    return life;
  }

  async run(op: Op): Promise<void> {
    const { bench } = this;
    switch (op.op) {
      case "work":
        return this.work(await this.life(op.agent), TASKS[op.task] as string);
      case "progress": {
        const life = await this.life(op.agent);
        // Progress in one of its tasks is progress of the whole session.
        const [first] = life.claims.values();
        await first?.progress("on it");
        if (first) life.progressAt = bench.now;
        return;
      }
      case "release": {
        const life = await this.life(op.agent);
        for (const claim of life.claims.values()) await claim.release();
        if (life.claims.size > 0) life.entryAt = bench.now;
        life.claims.clear();
        return;
      }
      case "kill":
        return this.kill(await this.life(op.agent));
      case "pass":
        bench.passMs(op.minutes * MINUTE);
        return;
      case "sweep": {
        const [one, other] = this.supervisors as [Holdfast, Holdfast];
        const all = { one: [one], other: [other], both: [one, other] }[op.by];
        const reports = await Promise.all(all.map((each) => each.superviseOnce({ staleAfterMs: STALE_MS })));
        expect(reports.flatMap(({ errors }) => errors)).toEqual([]);
        const reset = reports.flatMap((report) => report.reset.map(({ task }) => task)).sort();
        expect(reset).toEqual(this.expectLost(true));
        return;
      }
    }
  }

  private holderOf(task: string): Life | undefined {
    return this.lives.find(({ claims }) => claims.has(task));
  }

  private async work(life: Life, task: string): Promise<void> {
    const holder = this.holderOf(task);
    if (holder?.isAlive) return;
    const claim = await life.goal.claim(task, { session: life.session });
    // The task itself is taken over. All other tasks of the dead agent are released on the way.
    if (holder) this.lose(holder, [task]);
    this.expectLost(false);
    life.claims.set(task, claim);
    life.progressAt = this.bench.now;
    life.entryAt = this.bench.now;
  }

  /** Its lease expires, those of living agents do not. */
  private async kill(life: Life): Promise<void> {
    life.journal.leases.stop();
    life.isAlive = false;
    for (let third = 0; third < 3; third++) {
      await this.bench.opened.advanceMs?.(14_000);
      const living = this.lives.filter(({ isAlive }) => isAlive);
      for (const { claims } of living) for (const claim of claims.values()) await claim.heartbeat();
    }
  }

  private lose(life: Life, tasks: readonly string[]): void {
    for (const task of tasks) life.claims.delete(task);
    life.status = "crashed";
  }

  /** Tasks that must have been reset. `isSweep`: also those without progress, and of silent agents. */
  private expectLost(isSweep: boolean): string[] {
    const { now } = this.bench;
    const lost: string[] = [];
    for (const life of this.lives) {
      const held = [...life.claims.keys()];
      const isStuck = isSweep && now - life.progressAt >= STALE_MS;
      if (held.length > 0 && (!life.isAlive || isStuck)) {
        lost.push(...held);
        this.lose(life, held);
      } else if (isSweep && held.length === 0 && life.status === "active" && now - life.entryAt >= STALE_MS) {
        this.lose(life, []);
      }
    }
    return lost.sort();
  }

  async check(): Promise<void> {
    const goal = await this.bench.goal();
    for (const task of TASKS) {
      const holder = this.holderOf(task);
      const { status, claim } = goal.task(task);
      expect({ task, status, session: claim?.session ?? null }).toEqual({
        task,
        status: holder ? "in_progress" : "open",
        session: holder?.session ?? null,
      });
    }
    for (const { session, status } of this.lives) {
      expect({ session, status: goal.state.history.get(session)?.status }).toEqual({ session, status });
    }
  }
}

const subjects = storeSubjects().filter(({ name }) => name === "memory" || name === "sqlite");

describe.each(subjects)("agents and two supervisors on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("living agents with progress keep their tasks; all others lose them once", async () => {
    const property = fc.asyncProperty(fc.array(ops, { minLength: 5, maxLength: 25 }), async (sequence) => {
      const bench = await Bench.open(subject);
      try {
        await bench.goal({ phases: ["one"], tasks: TASKS.map((title) => ({ title })), ttlMs: null });
        const supervisors = [new Holdfast(await bench.another()), new Holdfast(await bench.another())];
        const world = new World(bench, supervisors);
        for (const op of sequence) {
          await world.run(op);
          await world.check();
        }
      } finally {
        await bench.dispose();
      }
    });
    /** HOLDFAST_FULL=1: ten times as many. */
    const runs = (subject.name === "memory" ? 50 : 5) * (process.env["HOLDFAST_FULL"] ? 10 : 1);
    await fc.assert(property, { numRuns: runs });
  });
});
