/**
 * All goals of a store: list, prune, erase.
 *
 * A goal stays while an agent holds one of its tasks or a session of it is active. Files first, then the
 * stream: event files in `.planning/` would bring the goal back. A crash in between leaves the goal, whose
 * next write makes the files again; the caller removes it again.
 */

import { allRows, type Journal, type PruneReport } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { goalKind } from "../model/goal/index.ts";
import { checkId, streamId, streamName } from "../model/names.ts";
import { checkOptions } from "../model/options.ts";
import { goalNotFound } from "./goal-core.ts";

/** One goal in a list. */
export interface GoalSummary {
  readonly id: string;
  readonly title: string | null;
  readonly status: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** Options of `holdfast.goals.erase`. */
export interface RemoveGoalOptions {
  /** The project whose `.planning/` files of the goal go, too. By default the project of this store. */
  readonly root?: string;
  /** True: only say what would happen. */
  readonly dryRun?: boolean;
}

/** Which goals `holdfast.goals.prune` removes: those that match all of these. */
export interface PruneGoalOptions extends RemoveGoalOptions {
  /** The time since the last change: `30 * 86_400_000`. */
  readonly olderThanMs?: number;
  /** Example: `done`. */
  readonly status?: string;
  /** Keeps this many of the latest that match. */
  readonly keep?: number;
}

const REMOVE_OPTIONS = { root: "text", dryRun: "flag" } as const;
const PRUNE_OPTIONS = { ...REMOVE_OPTIONS, olderThanMs: "age", status: "text", keep: "count" } as const;

type RemoveFiles = (id: string, root: string | undefined) => Promise<void>;

/**
 * `holdfast.goals`: all goals of a store, without opening any.
 *
 * @example
 * for (const { id, status } of await holdfast.goals.list()) console.log(id, status);
 */
export class Goals {
  private readonly journal: Journal;
  private readonly removeFiles: RemoveFiles;

  constructor(journal: Journal, removeFiles: RemoveFiles) {
    this.journal = journal;
    this.removeFiles = removeFiles;
  }

  /** All goals, the last changed first. */
  async list(): Promise<GoalSummary[]> {
    const request = { of: "streams", kind: "goal", limit: 500 } as const;
    const rows = await allRows((from) => this.journal.list<"streams">({ ...request, ...from }));
    return rows.map(({ stream, facets: { title, status }, createdAt, updatedAt }) => ({
      id: streamId(stream),
      title,
      status,
      createdAt: new Date(createdAt),
      updatedAt: new Date(updatedAt),
    }));
  }

  /**
   * Removes goals by age, status or count; at least one is required. Goals that agents work on stay.
   *
   * @example
   * await holdfast.goals.prune({ status: "done", olderThanMs: 90 * 86_400_000 });
   */
  async prune(options: PruneGoalOptions): Promise<PruneReport> {
    checkOptions("goals.prune", options, PRUNE_OPTIONS);
    const { olderThanMs, root, dryRun = false, ...rest } = options;
    const since = olderThanMs === undefined ? {} : { updatedBefore: this.journal.now() - olderThanMs };
    const isNeeded = (id: string): Promise<boolean> => this.isWorkedOn(id);
    const report = await this.journal.prune({ kind: "goal", ...rest, ...since, dryRun: true, isNeeded });
    if (dryRun) return report;
    const removed: string[] = [];
    const spared = [...report.spared];
    for (const id of [...report.removed, ...report.hidden]) {
      await this.removeFiles(id, root);
      const result = await this.journal.remove(streamName("goal", id), { isNeeded });
      if (result === "removed" || result === "gone") removed.push(id);
      else if (result !== "hidden") spared.push({ id, why: result });
    }
    return { removed, hidden: [], spared };
  }

  /**
   * Removes a goal for privacy: overwrites its bytes in the store, and deletes its files in `.planning/`.
   * Throws while an agent works on it. Copies in git, in other clones and in backups stay.
   *
   * @example
   * await holdfast.goals.erase("checkout");
   */
  async erase(id: string, options: RemoveGoalOptions = {}): Promise<void> {
    checkOptions("goals.erase", options, REMOVE_OPTIONS);
    const stream = streamName("goal", checkId(id, "goal id"));
    if ((await this.journal.row(stream)).state === "gone") throw goalNotFound(id);
    if (await this.isWorkedOn(id)) throw busy(id);
    if (options.dryRun) return;
    await this.removeFiles(id, options.root);
    const isNeeded = (other: string): Promise<boolean> => this.isWorkedOn(other);
    const result = await this.journal.remove(stream, { erase: true, isNeeded });
    if (result !== "removed" && result !== "gone") throw busy(id);
  }

  private async isWorkedOn(id: string): Promise<boolean> {
    const request = { of: "streams", kind: "session", goal: id, status: "active", limit: 1 } as const;
    if ((await this.journal.list<"streams">(request)).rows.length > 0) return true;
    const { state } = await this.journal.load(goalKind, id);
    for (const { id: task, claim } of state.tasks.values()) {
      const lease = `${streamName("goal", id)}/${claim?.as ?? task}`;
      if (claim && (await this.journal.leases.isHeld(lease))) return true;
    }
    return false;
  }
}

function busy(id: string): HoldfastError {
  return new HoldfastError("STREAM_BUSY", `goal ${id} cannot be removed: an agent works on it`, {
    hint: "End its sessions and release its tasks, then try again: holdfast task list",
    data: { goal: id },
  });
}
