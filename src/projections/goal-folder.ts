/**
 * Writes a goal into a folder, and reads back the edits of people.
 *
 *     lease ──▶ scan ──foreign──▶ apply edits (human-edit.ts) ──▶ scan again
 *                 └──────────▶ prepare ──▶ place ──▶ sync folders ──▶ release lease
 *
 * One process renders at a time, under a lease per folder. STATE.md comes last, after the files it points to.
 *
 * Invariants
 *  - Readers find every file whole: nothing is written in place.
 *  - No file goes back a revision: the goal is read under the lease, and a file ahead of it is left alone.
 *  - No edit is overwritten: right before a rename the file must be the one that was scanned, or everything
 *    is scanned again. Only one system call lies between that check and the rename.
 *
 * Events that git brought (`event-files.ts`) are merged first, in one commit. Events of this copy are in
 * `events/` before a rendering shows them. A folder shows one goal, named by its page; `events/` holds all.
 *
 * | crash | leaves |
 * |---|---|
 * | after `prepare` | temporary files, which the next holder removes |
 * | between two renames | whole files of two revisions: the next sync writes the rest |
 * | before the folders are synced | possibly the old files again, as above |
 * | while another goal replaces the one shown | files of both: the next sync overwrites them |
 *
 * A holder that is stopped for longer than its lease may still rename one file; the next sync replaces it.
 */

import { lstatSync } from "node:fs";
import { mkdir, realpath } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { actSigners, type Goal, goalCore, type MergeReport } from "../goal/index.ts";
import { Lease, leaseLost } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Actor } from "../model/goal/index.ts";
import { sameJson } from "../model/json.ts";
import { leavesProject } from "../project-place.ts";
import {
  prepareFile,
  readBounded,
  removeTemporaries,
  sameSignature,
  signatureAt,
  syncFolder,
  UnreadableText,
} from "../state-files/index.ts";
import { EVENTS, EventFiles, type EventLook, type RefusedFile } from "./event-files.ts";
import { FolderScan, type Look } from "./folder-scan.ts";
import { writeGitAttributes, writtenByGit } from "./git.ts";
import {
  type AgentEdit,
  applyForeignEdits,
  type EditReport,
  type ForeignFile,
  removeBackup,
} from "./human-edit.ts";
import { eventFileNotes, keptMoving, renderingElsewhere, unsafeFolder } from "./refusals.ts";
import { type RenderedFile, Renderer, refuseBadRows, renderedPaths, STATE_PAGE } from "./render.ts";
import { readSeal } from "./seal.ts";
import { findStrays, RECORD_FOLDERS, removeStrays } from "./stray-records.ts";

const FOLDERS = ["", ...RECORD_FOLDERS, EVENTS] as const;
const MERGER: Actor = { name: "holdfast", role: "supervisor" };
const ROUNDS = 20;
const ATTEMPTS = 3;
const AT_ONCE = 8;
const PAUSE_MS = { least: 2, most: 20 };

/** The result of one sync of a goal with its folder, in both directions. */
export interface SyncReport {
  readonly seq: number;
  readonly written: readonly string[];
  readonly edits: readonly EditReport[];
  /** Files of a later revision than this store has, left alone. Bring the store up to date. */
  readonly ahead: readonly string[];
  /** Events of other copies of the goal that git brought; null when there were none. */
  readonly merged: MergeReport | null;
  /** Invalid event files, left alone and not merged. */
  readonly refused: readonly RefusedFile[];
}

const NOTHING_BROUGHT: EventLook = { fresh: [], refused: [], sourceOf: () => null };
const NOTHING_NEW = { merged: null, refused: [] } as const;

interface Looked {
  readonly file: RenderedFile;
  readonly look: Look;
}

interface WriterOptions {
  readonly human: Actor;
  readonly waitMs: number;
  readonly pulled?: "review" | "trust" | undefined;
  readonly agentEdit?: AgentEdit | undefined;
  /** The goal that the folder may stop showing. */
  readonly instead?: string | undefined;
}

export class FolderWriter {
  readonly folder: string;
  private readonly goal: Goal;
  private readonly options: WriterOptions;
  private readonly renderer = new Renderer();
  private readonly scan: FolderScan;
  private readonly events: EventFiles;
  private readonly leaseName: string;
  private readonly owner: string;
  private skipsEventLook = false;
  private isReady = false;
  private isSwept = false;

  private constructor(goal: Goal, folder: string, options: WriterOptions) {
    this.goal = goal;
    this.folder = folder;
    this.options = options;
    this.scan = new FolderScan(folder, goal.id);
    this.events = new EventFiles(folder, goal);
    this.leaseName = `render/${sha256(folder).slice(0, 16)}`;
    this.owner = goalCore(goal).journal.newId();
  }

  static async open(goal: Goal, folder: string, options: WriterOptions): Promise<FolderWriter> {
    await mkdir(folder, { recursive: true });
    if (goal.root !== null && leavesProject(folder, goal.root))
      throw unsafeFolder(folder, "it is a link that leaves the project");
    return new FolderWriter(goal, await realpath(folder), options);
  }

  /** `isFresh`: the caller has just scanned all files and found no edit. */
  async sync(isFresh = false): Promise<SyncReport> {
    const report = await this.underLease((lease, attempt) => this.rounds(lease, isFresh && attempt === 1));
    return report ?? { ...NOTHING_NEW, seq: this.goal.revision, written: [], edits: [], ahead: [] };
  }

  /** After the caller has merged these event files: the next sync skips its look if no file was touched. */
  async trustEvents(names: readonly string[]): Promise<void> {
    this.skipsEventLook = await this.events.trust(this.goal, names);
  }

  /** Git may have touched the files: then it may have brought events too, and these are merged first. */
  private lookForEvents(isFresh: boolean): ReturnType<EventFiles["look"]> {
    const isTrusted = this.skipsEventLook && isFresh;
    this.skipsEventLook = false;
    return isTrusted ? Promise.resolve(NOTHING_BROUGHT) : this.events.look(this.goal.state.known);
  }

  /** True if a sync would find no edit, by the seals of the files alone: no rendering, no lease. */
  async isUnedited(): Promise<boolean> {
    for (const path of renderedPaths(this.goal.state)) {
      const found = await this.scan.inspect(path);
      if (found === "foreign" || (found === "absent" && path === STATE_PAGE)) return false;
    }
    return true;
  }

  /** Writes the events of a goal that the folder does not show, so that every clone has them. */
  async saveEvents(): Promise<void> {
    await this.underLease(async (lease) => {
      await this.goal.refresh();
      const { refused, ...brought } = await this.events.look(this.goal.state.known);
      await this.merge(brought);
      await this.placeEvents(lease);
      await this.events.tidy(this.goal, () => this.isStillOurs(lease));
      this.warnRefused(refused);
    });
  }

  /** Null: another process has done the work meanwhile. */
  private async underLease<Result>(
    act: (lease: Lease, attempt: number) => Promise<Result>,
  ): Promise<Result | null> {
    for (let attempt = 1; ; attempt++) {
      const lease = await this.acquire();
      if (lease === null) return null;
      try {
        await this.prepareFolders();
        return await act(lease, attempt);
      } catch (error) {
        // Git removes a folder with the last file in it: the next attempt makes it again.
        const isFolderGone = (error as NodeJS.ErrnoException).code === "ENOENT";
        if (isFolderGone) this.isReady = false;
        // Stopped for longer than the lease: try again, unless another process is done by then.
        if (!(isFolderGone || isHoldfastError(error, "LEASE_LOST")) || attempt === ATTEMPTS) throw error;
      } finally {
        await lease.release();
      }
    }
  }

  private async merge({ fresh, sourceOf }: Omit<EventLook, "refused">): Promise<MergeReport | null> {
    if (fresh.length === 0) return null;
    const trusts = this.options.pulled === "trust";
    const core = goalCore(this.goal);
    const signerOf = actSigners(dirname(this.folder), core.journal.warn);
    return core.mergeEntries(MERGER, { entries: fresh, sourceOf, trusts, signerOf });
  }

  private async placeEvents(lease: Lease): Promise<void> {
    if (!(await this.events.save(this.goal, () => this.isStillOurs(lease))))
      throw leaseLost(lease.name, null);
  }

  private warnRefused(refused: readonly RefusedFile[]): void {
    eventFileNotes(this.folder, refused).forEach(goalCore(this.goal).journal.warn);
  }

  touched(): string[] {
    return this.scan.touched();
  }

  /** The files among `touched` that a person edited, latest first. Takes no lease and changes nothing. */
  async humanEdits(touched: readonly string[]): Promise<{ file: string; modifiedMs: number }[]> {
    const { files } = this.renderer.render(this.goal.state, this.goal.revision);
    const foreign: { path: string; modifiedMs: number }[] = [];
    for (const file of files.filter(({ path }) => touched.includes(path))) {
      const look = await this.scan.at(file, this.goal.revision);
      if (look.is !== "foreign" || look.hasConflict) continue;
      if (look.text !== null && this.options.agentEdit?.(file.path, look.text)) continue;
      foreign.push({ path: file.path, modifiedMs: look.modifiedMs });
    }
    const byGit = await writtenByGit(this.folder, foreign);
    return foreign
      .filter(({ path }) => !byGit.has(path))
      .map(({ path, modifiedMs }) => ({ file: path, modifiedMs }))
      .sort((a, b) => b.modifiedMs - a.modifiedMs);
  }

  private async rounds(lease: Lease, isFresh: boolean): Promise<SyncReport> {
    const edits: EditReport[] = [];
    const refused: RefusedFile[] = [];
    let merged: MergeReport | null = null;
    const isShown = (await this.shown())?.goal === this.goal.id;
    this.scan.mayReplace = (goal) => isShown || goal === this.options.instead;
    for (let round = 0; round < ROUNDS; round++) {
      await this.goal.refresh();
      const brought = await this.lookForEvents(isFresh);
      refused.push(...brought.refused);
      merged = combinedReports(merged, await this.merge(brought));
      const seq = this.goal.revision;
      const rendering = this.renderer.render(this.goal.state, seq);
      await refuseBadRows(rendering);
      const looked: Looked[] = [];
      for (const file of rendering.files)
        looked.push({ file, look: await this.scan.at(file, seq, isFresh && round === 0) });
      const { human: by, agentEdit } = this.options;
      const context = { goal: this.goal, folder: this.folder, by, agentEdit };
      const reports = await applyForeignEdits(context, looked.filter(isForeign));
      // A second round may find the same edit again.
      edits.push(...reports.filter((each) => !edits.some((known) => sameJson(known, each))));
      // The edits changed the goal: render again.
      if (this.goal.revision !== seq) continue;
      await this.placeEvents(lease);
      const written = await this.write(lease, looked);
      if (written === null) continue;
      // A record of events that wait for their time is no stray: removed here, it would conflict in git.
      if ((merged || !this.isSwept) && !this.events.areWaiting) await this.removeStrays();
      await this.events.tidy(this.goal, () => this.isStillOurs(lease));
      for (const { left, beside } of edits) if (left.length === 0) await removeBackup(this.folder, beside);
      const reported = edits.map((edit) => (edit.left.length === 0 ? { ...edit, beside: null } : edit));
      const ahead = looked.filter(({ look }) => look.is === "ahead").map(({ file }) => file.path);
      this.warnRefused(refused);
      return { seq, written, edits: reported, ahead, merged, refused };
    }
    throw keptMoving(this.goal.id, this.folder);
  }

  /** The paths that were written; null when a file changed meanwhile. */
  private async write(lease: Lease, looked: readonly Looked[]): Promise<string[] | null> {
    const due = looked.filter(({ look }) => look.is !== "current" && look.is !== "ahead");
    const written: string[] = [];
    for (let first = 0; first < due.length; first += AT_ONCE) {
      const some = due.slice(first, first + AT_ONCE);
      const prepared = await Promise.all(
        some.map(({ file }) => prepareFile(join(this.folder, file.path), file.text)),
      );
      for (const [index, { file, look }] of some.entries()) {
        const temporary = prepared[index] as (typeof prepared)[number];
        const isOurs = await this.isStillOurs(lease);
        const isSame = sameSignature(signatureAt(temporary.path), look.signature);
        if (!isOurs || !isSame) {
          await Promise.all(prepared.slice(index).map((each) => each.discard()));
          if (!isOurs) throw leaseLost(lease.name, null);
          return null;
        }
        await temporary.place();
        this.scan.wrote(file, temporary.signature);
        written.push(file.path);
      }
    }
    const folders = new Set(written.map((path) => dirname(join(this.folder, path))));
    for (const folder of folders) await syncFolder(folder);
    return written;
  }

  /** Asks the store only when a good part of the lease has passed since the last answer. */
  private async isStillOurs(lease: Lease): Promise<boolean> {
    const { leases } = goalCore(this.goal).journal;
    if (lease.lost.aborted) return false;
    if (leases.isSurelyHeld(lease)) return true;
    return leases.confirm(lease);
  }

  /** Null: another process rendered this revision while we waited. */
  private async acquire(): Promise<Lease | null> {
    const { journal } = goalCore(this.goal);
    const { waitMs } = this.options;
    const until = performance.now() + waitMs;
    for (;;) {
      const asked = { label: this.goal.by.name, waitMs: 0 };
      const lease = await journal.leases.take(this.leaseName, this.owner, asked);
      if (lease instanceof Lease) return lease;
      if (performance.now() > until) {
        const holder = lease.holder?.label ?? "another process";
        throw renderingElsewhere(this.goal.id, this.folder, holder, waitMs);
      }
      const shown = await this.shown();
      if (shown?.goal === this.goal.id && shown.revision >= this.goal.revision) return null;
      await pause(PAUSE_MS.least + Math.random() * (PAUSE_MS.most - PAUSE_MS.least));
    }
  }

  private async shown(): Promise<{ goal: string; revision: number } | null> {
    try {
      const { isIntact, goal, revision } = readSeal(
        (await readBounded(join(this.folder, STATE_PAGE), 1024 * 1024)) ?? "",
      );
      return isIntact && goal !== null && revision !== null ? { goal, revision } : null;
    } catch (error) {
      // The holder of the lease handles it.
      if (error instanceof UnreadableText) return null;
      throw error;
    }
  }

  private async removeStrays(): Promise<void> {
    const strays = await findStrays(this.folder, this.goal.state, this.scan.mayReplace);
    await removeStrays(this.folder, strays);
    this.isSwept = true;
  }

  private async prepareFolders(): Promise<void> {
    if (this.isReady) return;
    for (const name of FOLDERS) {
      const folder = join(this.folder, name);
      const stat = lstatSync(folder, { throwIfNoEntry: false });
      if (stat && !stat.isDirectory())
        throw unsafeFolder(folder, "it is not a folder, or only a link to one");
      if (!stat) await mkdir(folder);
      await removeTemporaries(folder);
    }
    await writeGitAttributes(this.folder);
    await syncFolder(this.folder);
    this.isReady = true;
  }
}

function isForeign(each: Looked): each is ForeignFile {
  return each.look.is === "foreign";
}

function combinedReports(old: MergeReport | null, more: MergeReport | null): MergeReport | null {
  if (!old || !more) return more ?? old;
  return {
    events: old.events + more.events,
    renumbered: [...old.renumbered, ...more.renumbered],
    notApplied: [...old.notApplied, ...more.notApplied],
    waiting: [...old.waiting, ...more.waiting],
  };
}
