export type HistoryStatus = "active" | "ended" | "crashed";

/** One agent's stretch of work on the goal. */
export interface HistoryEntry {
  readonly id: string;
  readonly agent: string;
  readonly status: HistoryStatus;
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** How often it was started again under the same name. */
  readonly restarts: number;
  /** The session whose work it took up. */
  readonly resumes: string | null;
  /** Share of the context window, 0 to 1. */
  readonly contextUsage: number | null;
  /** Ids of the tasks it finished, in order, then whatever it named itself. */
  readonly completed: readonly string[];
  readonly issues: readonly string[];
  readonly notes: readonly string[];
  readonly handoffReason: string | null;
  /** The task it has, or had when it ended; kept after a crash for whoever comes next. */
  readonly workingOn: string | null;
  readonly seq: number;
  /** The last event that changed it. */
  readonly revision: number;
}
