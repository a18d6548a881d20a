// Copies of one goal: each a store of its own and a folder, with events carried between them as git would.

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Goal } from "../../src/goal/index.ts";
import { openGoal } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { encodeGoal } from "../../src/model/goal/index.ts";
import { type GoalFolder, mergeEventFolder, projectGoal } from "../../src/projections/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { human } from "../goal/bench.ts";
import { BEGINNING } from "../goal/random-operations.ts";
import { quickFolder } from "../quick-folder.ts";

/** No two writes of all copies are at the same time. */
export class WallClock {
  private at: number;
  readonly now = (): number => this.at++;

  constructor(start = Date.UTC(2026, 0, 2)) {
    this.at = start;
  }
}

export class Copy {
  readonly root: string;
  readonly journal: Journal;
  readonly goal: Goal;
  readonly folder: GoalFolder;

  private constructor(root: string, journal: Journal, goal: Goal, folder: GoalFolder) {
    this.root = root;
    this.journal = journal;
    this.goal = goal;
    this.folder = folder;
  }

  /** A new goal, or what the folder of another copy holds. */
  static async make(
    clock: WallClock,
    from?: { readonly root: string },
    warn: (error: unknown) => void = (error) => process.emitWarning(error as Error),
    pulled: "review" | "trust" = "trust",
  ): Promise<Copy> {
    const root = mkdtempSync(join(quickFolder(), "holdfast-copy-"));
    const planning = join(root, ".planning");
    const journal = new Journal({ store: await openMemory(), now: clock.now, warn });
    if (from) {
      cpSync(join(from.root, ".planning"), planning, { recursive: true });
      await mergeEventFolder(journal, planning);
    }
    const goal = await openGoal(journal, "checkout", {
      by: human,
      root,
      stale: "use",
      ...(from ? {} : { statement: "Ship it", ...BEGINNING }),
    });
    const shared = { auto: false, human: "ann", onEdit: () => undefined } as const;
    const folder = await projectGoal(goal, { ...shared, pulled });
    return new Copy(root, journal, goal, folder);
  }

  /** The other's files of events, as a merge brings them. */
  async pull(other: Copy): Promise<Awaited<ReturnType<GoalFolder["sync"]>>> {
    await other.folder.sync();
    cpSync(join(other.root, ".planning/events"), join(this.root, ".planning/events"), { recursive: true });
    return this.folder.sync();
  }

  /** Every rendered file. */
  files(): Record<string, string> {
    const folder = join(this.root, ".planning");
    const names = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) =>
      /\.(md|json)$/.test(name),
    );
    return Object.fromEntries(names.sort().map((name) => [name, readFileSync(join(folder, name), "utf8")]));
  }

  /** The state that all copies must agree on: everything but the origin and the signer of events. */
  agreed(): unknown {
    const {
      origins: _origins,
      sources: _sources,
      signed: _signed,
      merges: _merges,
      known,
      ...rest
    } = encodeGoal(this.goal.state) as Record<string, unknown>;
    return JSON.parse(JSON.stringify({ ...rest, known: [...(known as string[])].sort() }));
  }

  async dispose(): Promise<void> {
    await this.goal.close();
    await this.folder.close();
    await this.journal.store.close();
    rmSync(this.root, { recursive: true, force: true });
  }
}
