/**
 * A goal that keeps a folder of the repository up to date, and takes in what people write there.
 *
 * Every write through the goal's handle is followed by rendering. Before an agent writes, the files are
 * looked at: what a person saved in the last seconds stops the agent, what is older is taken in first, so
 * that the agent decides on it.
 */

import { userInfo } from "node:os";
import { resolve } from "node:path";
import { type Goal, goalCore, type WriteGuard } from "../goal/index.ts";
import { type HoldfastError, isHoldfastError } from "../model/errors.ts";
import type { Actor, GoalState } from "../model/goal/index.ts";
import { FolderWriter, type SyncReport } from "./goal-folder.ts";
import { editLeft, editTaken, humanIsEditing } from "./refusals.ts";

/** Where a goal is shown as files, and how agents and people keep out of each other's way there. */
export interface ProjectOptions {
  /** Where the files go, relative to the goal's root or the working directory. `.planning` unless set. */
  readonly folder?: string;
  /** How long agents keep their distance after a person saved a file. 5 s unless set; 0 switches it off. */
  readonly quietMs?: number;
  /** Under which name the edits of people enter the log. The name of the user unless set. */
  readonly human?: string;
  /** False: files are written and edits taken in only when `sync` is called. */
  readonly auto?: boolean;
  /** How long to wait for another process that renders into the same folder. 10 s unless set. */
  readonly waitMs?: number;
  /** The goal that the folder has shown until now, and that makes way for this one: sync it there before. */
  readonly instead?: string;
  /** Told of every sync in which somebody else's words were found. Warned of what was left, unless set. */
  readonly onEdit?: (report: SyncReport) => void;
}

const QUIET_MS = 5_000;
const WAIT_MS = 10_000;

/** A goal and its folder. */
export class GoalFolder {
  private readonly goal: Goal;
  private readonly writer: FolderWriter;
  private readonly options: ProjectOptions;
  private readonly quietMs: number;
  private queue: Promise<unknown> = Promise.resolve();
  private waiting: Promise<SyncReport> | null = null;
  /** A write of ours has just looked at all files and found them as they were. */
  private isClean = false;
  /** Somebody called `sync`, and wants everything to be looked at. */
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

  /**
   * Takes in what people wrote, then writes what differs. Call it at the start of a session, to begin with
   * what a person left there, and whenever the goal was changed through another handle or process.
   */
  sync(): Promise<SyncReport> {
    this.isAsked = true;
    return this.join();
  }

  /** Stops following the goal. The files stay as they are. */
  async close(): Promise<void> {
    goalCore(this.goal).guardWrites(null);
    await this.queue;
  }

  /** For the projections layer: what stands around the writes of the goal's handle. */
  guard(onFailure = (error: unknown): void => goalCore(this.goal).journal.warn(error)): WriteGuard {
    return {
      before: async (by) => {
        try {
          await this.keepDistance(by);
        } catch (error) {
          // A folder that cannot be looked at keeps nobody from working on the goal.
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

  /** Whoever comes while another sync has not begun yet gets that one: it will see the same goal. */
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
    // A file from the future says nothing about now.
    if (remainingMs > 0 && remainingMs <= 2 * this.quietMs)
      throw humanIsEditing(this.goal.id, latest.file, remainingMs);
    await this.sync();
  }

  /** Another process may have taken the edit in: the log says when it was made. */
  private checkQuiet(state: GoalState, by: Actor): void {
    if (by.role === "human") return;
    const now = goalCore(this.goal).journal.now();
    for (const { file, editedAt } of state.edits.values()) {
      const remainingMs = this.quietMs - (now - editedAt);
      if (remainingMs > 0 && editedAt <= now) throw humanIsEditing(this.goal.id, file, remainingMs);
    }
  }
}

/** What a sync did with people's edits, for whoever made it happen. */
export function editNotes({ edits }: SyncReport): HoldfastError[] {
  return edits.flatMap((edit) => [
    ...(edit.taken.length > 0 ? [editTaken(edit.file, edit.taken)] : []),
    ...(edit.left.length > 0 ? [editLeft(edit)] : []),
  ]);
}

/**
 * Renders a goal into a folder of the repository (STATE.md, agent_state.json, task_board.json, decisions/,
 * blockers/, sessions/), so that people and other tools read, review and edit it there, and keeps it up to
 * date.
 *
 * The log stays the truth: the files can be deleted and come back byte for byte. What a person writes into
 * them becomes events by a human; what cannot be understood is kept beside the file and reported.
 */
export async function projectGoal(goal: Goal, options: ProjectOptions = {}): Promise<GoalFolder> {
  const folder = new GoalFolder(goal, await openWriter(goal, options), options);
  await folder.sync();
  if (options.auto !== false) goalCore(goal).guardWrites(folder.guard());
  return folder;
}

/** For a command that writes once. */
export interface FollowOptions extends ProjectOptions {
  /** The event files that the command has just merged; null: the first sync looks for them. */
  readonly eventFiles: readonly string[] | null;
  /** Called if the files cannot be written after a write. */
  readonly onFailure: (error: unknown) => void;
}

/**
 * Like `projectGoal`, but skips the first sync if the files show this goal and nobody else wrote in them. The
 * sync after the write is then the only one: one rendering under one lease. Edits are noticed before the
 * write all the same, here by the files' seals and then by their signatures.
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
  const { waitMs = WAIT_MS, instead = null } = options;
  return FolderWriter.open(goal, path, human, waitMs, instead);
}

/**
 * For a goal whose folder shows another one: its events are kept there all the same, now and after every
 * write through this handle, so that every clone has it. Nothing is rendered.
 */
export async function keepEvents(goal: Goal, folder: string): Promise<void> {
  const writer = await FolderWriter.open(goal, resolve(folder), { name: userName(), role: "human" }, WAIT_MS);
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
    // A user id without an entry, as in many containers.
    if (error instanceof Error) return "human";
    throw error;
  }
}
