import { type Goal, type OpenGoalOptions, openGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { isHoldfastError } from "../../src/model/errors.ts";
import type { Actor, GoalRole } from "../../src/model/goal/index.ts";
import type { Item } from "../../src/model/stream/index.ts";
import type { Opened, StoreSubject } from "../../src/testing/index.ts";

export const by = (role: GoalRole, name: string = role): Actor => ({ name, role });

export const human = by("human", "ann");
export const orchestrator = by("orchestrator");
export const worker = by("worker", "w-1");
export const verifier = by("verifier", "v-1");
export const supervisor = by("supervisor");

export const START = Date.UTC(2024, 0, 14, 9);
const LEASE_MS = 30_000;

/** One store, its shared wall clock, and as many processes as a test needs. */
export class Bench {
  readonly opened: Opened;
  readonly journal: Journal;
  now = START;

  private constructor(opened: Opened) {
    this.opened = opened;
    this.journal = this.journalOn(opened.store);
  }

  static async open(subject: StoreSubject): Promise<Bench> {
    return new Bench(await subject.open());
  }

  /** Another process on the same store. */
  async another(): Promise<Journal> {
    return this.journalOn(await this.opened.another());
  }

  goal(options: OpenGoalOptions = {}, journal = this.journal): Promise<Goal> {
    const base = { statement: "Ship the checkout", by: human };
    return openGoal(journal, "checkout", { ...base, ...options });
  }

  /** Moves the wall clock. Leases do not depend on it. */
  passMs(ms: number): void {
    this.now += ms;
  }

  /** Leaves the state of a killed process: its leases are no longer renewed and expire. */
  async crash(journal: Journal): Promise<void> {
    journal.leases.stop();
    await this.opened.advanceMs?.(10 * LEASE_MS);
  }

  /** How many commits the goal has: one stored write each. */
  async commits(goal: Goal): Promise<number> {
    const { store, namespace } = this.journal;
    const page = await store.read({ namespace, stream: `goal/${goal.id}`, after: 0, limit: 10_000 });
    return page.writes.length;
  }

  async items(kind: string): Promise<readonly (Item & { status: string | null })[]> {
    const rows: unknown[] = [];
    let cursor: string | null = null;
    do {
      const page: { rows: readonly unknown[]; cursor: string | null } = await this.journal.list<"items">({
        of: "items",
        kind,
        stream: "goal/checkout",
        limit: 500,
        ...(cursor === null ? {} : { cursor }),
      });
      rows.push(...page.rows);
      cursor = page.cursor;
    } while (cursor !== null);
    return rows as (Item & { status: string | null })[];
  }

  dispose(): Promise<void> {
    return this.opened.dispose();
  }

  private journalOn(store: Opened["store"]): Journal {
    return new Journal({ store, leaseMs: LEASE_MS, now: () => this.now });
  }
}

export async function codeOf(attempt: Promise<unknown>): Promise<string> {
  try {
    await attempt;
    return "ok";
  } catch (error) {
    if (isHoldfastError(error)) return error.code;
    throw error;
  }
}
