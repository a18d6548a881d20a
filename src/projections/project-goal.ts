/**
 * Keeps a folder of the repository up to date with a goal, and applies the edits of people.
 *
 * Every write through the goal's handle is followed by rendering. Before an agent writes, an edit of the last
 * seconds stops it; an older edit is applied first, so that the agent decides on it.
 */

import { userInfo } from "node:os";
import { resolve } from "node:path";
import { type Goal, goalCore, type WriteGuard } from "../goal/index.ts";
import { type HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor, GoalState } from "../model/goal/index.ts";
import { FolderWriter, type SyncReport } from "./goal-folder.ts";
import { editApplied, editLeft, humanIsEditing } from "./refusals.ts";

/** Options of `projectGoal`. */
export interface ProjectOptions {
  /** The folder of the files, relative to the goal's root or the working directory. Default: `.planning`. */
  readonly folder?: string;
  /** For how long agents may not write after a person saved a file. Default: 5,000; 0 switches it off. */
  readonly quietMs?: number;
  /** The author of hand edits in the log: `"ann"`. Default: the name of the user. */
  readonly human?: string;
  /** False: files are written and edits applied only when `sync` is called. */
  readonly auto?: boolean;
  /** How long to wait for another process that renders into the same folder. Default: 10,000. */
  readonly waitMs?: number;
  /**
   * Acts of people in events that git brought. `"review"` (default): they wait until a person confirms them
   * with `goal.confirm`. `"trust"`: they count at once, for a repository in which every pusher is trusted.
   */
  readonly pulled?: "review" | "trust";
  /** The session of the agent that wrote a file, from a record of its hooks. Null: a person wrote it. */
  readonly agentEdit?: (path: string, text: string) => string | null;
  /** The goal that the folder shows now and that this one replaces there. Sync it before. */
  readonly instead?: string;
  /** Called after every sync that found edits. Default: a warning about edits that could not be applied. */
  readonly onEdit?: (report: SyncReport) => void;
}

const QUIET_MS = 5_000;
const WAIT_MS = 10_000;

/**
 * The files of a goal, from `projectGoal(goal)`. They follow the goal until `close`.
 *
 * @example
 * const folder = await projectGoal(goal);
 * const { edits } = await folder.sync(); // after a pull, or when a person has edited STATE.md
 * await folder.close();
 */
export class GoalFolder {
  private readonly goal: Goal;
  private readonly writer: FolderWriter;
  private readonly options: ProjectOptions;
  private readonly quietMs: number;
  private queue: Promise<unknown> = Promise.resolve();
  private waiting: Promise<SyncReport> | null = null;
  private isClean = false;
  private isAsked = false;

  constructor(goal: Goal, writer: FolderWriter, options: ProjectOptions) {
    this.goal = goal;
    this.writer = writer;
    this.options = options;
    this.quietMs = options.quietMs ?? QUIET_MS;
  }

  /** The absolute path of the folder. */
  get path(): string {
    return this.writer.folder;
  }

  /** Applies the edits of people, then writes the files that differ. Call it when a session starts. */
  sync(): Promise<SyncReport> {
    this.isAsked = true;
    return this.join();
  }

  /** Stops following the goal. */
  async close(): Promise<void> {
    goalCore(this.goal).guardWrites(null);
    await this.queue;
  }

  /** @internal */
  guard(onFailure = (error: unknown): void => goalCore(this.goal).journal.warn(error)): WriteGuard {
    return {
      before: async (by) => {
        try {
          await this.keepDistance(by);
        } catch (error) {
          // An unreadable folder must not stop work on the goal.
          if (isHoldfastError(error)) throw error;
          goalCore(this.goal).journal.warn(error);
        }
      },
      check: (state, by) => this.checkQuiet(state, by),
      after: async () => {
        try {
          await this.join();
        } catch (error) {
          // The write is durable; the files follow with the next sync.
          onFailure(error);
        }
      },
    };
  }

  private join(): Promise<SyncReport> {
    this.waiting ??= this.enqueue();
    return this.waiting;
  }

  private enqueue(): Promise<SyncReport> {
    const turn = this.queue.then(async () => {
      this.waiting = null;
      const isFresh = this.isClean && !this.isAsked;
      this.isClean = false;
      this.isAsked = false;
      const report = await this.writer.sync(isFresh);
      this.tell(report);
      return report;
    });
    this.queue = turn.catch(() => undefined);
    return turn;
  }

  private tell(report: SyncReport): void {
    if (report.edits.length === 0) return;
    if (this.options.onEdit) {
      this.options.onEdit(report);
      return;
    }
    for (const note of editNotes(report)) {
      if (note.code === "EDIT_LEFT") goalCore(this.goal).journal.warn(note);
    }
  }

  private async keepDistance(by: Actor): Promise<void> {
    const touched = this.writer.touched();
    this.isClean = touched.length === 0;
    if (this.isClean || by.role === "human") return;
    const [latest] = await this.writer.humanEdits(touched);
    if (!latest) return;
    const remainingMs = this.quietMs - (Date.now() - latest.modifiedMs);
    // A time in the future is no evidence.
    if (remainingMs > 0 && remainingMs <= 2 * this.quietMs)
      throw humanIsEditing(this.goal.id, latest.file, remainingMs);
    await this.sync();
  }

  /** Another process may have applied the edit: the log has its time. */
  private checkQuiet(state: GoalState, by: Actor): void {
    if (by.role === "human") return;
    const now = goalCore(this.goal).journal.now();
    for (const { file, editedAt } of state.edits.values()) {
      const remainingMs = this.quietMs - (now - editedAt);
      if (remainingMs > 0 && editedAt <= now) throw humanIsEditing(this.goal.id, file, remainingMs);
    }
  }
}

export function editNotes({ edits }: SyncReport): HoldfastError[] {
  return edits.flatMap((edit) => [
    ...(edit.taken.length > 0 ? [editApplied(edit.file, edit.taken)] : []),
    ...(edit.left.length > 0 ? [editLeft(edit)] : []),
  ]);
}

/**
 * Renders a goal into a folder of the repository, where people and other tools read, review and edit it.
 *
 *     const folder = await projectGoal(goal, { folder: ".planning" });
 *
 * The log stays the truth: deleted files come back byte for byte. An edit becomes events by a human; one that
 * cannot be applied is backed up beside the new rendering.
 */
export async function projectGoal(goal: Goal, options: ProjectOptions = {}): Promise<GoalFolder> {
  const folder = new GoalFolder(goal, await openWriter(goal, options), options);
  await folder.sync();
  if (options.auto !== false) goalCore(goal).guardWrites(folder.guard());
  return folder;
}

export interface FollowOptions extends ProjectOptions {
  /** The event files that the command has just merged; null: the first sync reads them. */
  readonly eventFiles: readonly string[] | null;
  /** Called if the files cannot be written after a write. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Like `projectGoal`, for a command that writes once: skips the first sync if the files show this goal and
 * have no edits. Edits are still noticed before the write, by seals and signatures.
 */
export async function followGoal(goal: Goal, options: FollowOptions): Promise<GoalFolder> {
  const writer = await openWriter(goal, options);
  const folder = new GoalFolder(goal, writer, options);
  if (options.eventFiles) await writer.trustEvents(options.eventFiles);
  if (!(await writer.isUnedited())) await folder.sync();
  goalCore(goal).guardWrites(folder.guard(options.onFailure));
  return folder;
}

function openWriter(goal: Goal, options: ProjectOptions): Promise<FolderWriter> {
  const path = resolve(goal.root ?? ".", options.folder ?? ".planning");
  const human: Actor = { name: options.human ?? userName(), role: "human" };
  const { waitMs = WAIT_MS, instead, pulled, agentEdit } = options;
  return FolderWriter.open(goal, path, { human, waitMs, instead, pulled, agentEdit });
}

/** For a goal that the folder does not show: writes its events there, now and after every write. */
export async function keepEvents(goal: Goal, folder: string): Promise<void> {
  const human: Actor = { name: userName(), role: "human" };
  const writer = await FolderWriter.open(goal, resolve(folder), { human, waitMs: WAIT_MS });
  await writer.saveEvents();
  let queue: Promise<void> = Promise.resolve();
  goalCore(goal).guardWrites({
    before: () => Promise.resolve(),
    check: () => undefined,
    after: () => {
      // The write is durable; its file follows with the next one.
      queue = queue
        .then(() => writer.saveEvents())
        .catch((error: unknown) => goalCore(goal).journal.warn(error));
      return queue;
    },
  });
}

function userName(): string {
  try {
    return userInfo().username.slice(0, 128) || "human";
  } catch (error) {
    // The user id has no name, as in many containers.
    if (error instanceof Error) return "human";
    throw error;
  }
}
