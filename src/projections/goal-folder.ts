/**
 * Writing a goal into a folder.
 *
 *     lease ──▶ look ──foreign──▶ take in (human-edit.ts) ──▶ look again
 *                 └──────────▶ prepare ──▶ place ──▶ sync folders ──▶ lease released
 *
 * One renders at a time: a lease per folder. Under it the goal is read anew, every file is looked at, and what
 * differs is written: under another name, synced, renamed; STATE.md last, so that what it points to is there.
 *
 * Invariants
 *  - A reader finds every file whole, at every instant: nothing is ever written in place.
 *  - No file goes back a revision: the goal is read under the lease, and a file that is ahead of it is left alone.
 *  - Nothing foreign is overwritten: right before a rename the file has to be the one that was looked at; otherwise
 *    everything is looked at again. What is left between that look and the rename is one system call.
 *
 * What git brought of other copies (`event-files.ts`) is taken in first: under the lease, in one commit, before anything is
 * rendered. What this copy has is in `events/` before a rendering shows it. Other files are neither read nor touched.
 *
 * A folder shows one goal, by its page; `events/` has those of all. A goal that makes way for another has been synced before,
 * so what people wrote is in its log. Killed on the way, the folder has files of both, and still the old page: whoever comes
 * next writes their own over what is left of the other.
 *
 * A crash between two steps leaves: after `prepare`, temporary files, which the next holder removes; after some of the
 * renames, files of two revisions, each whole and each with a digest that fits, so that the next sync takes none of
 * them for an edit and writes the rest; before the folder is synced, possibly the old files again, which is the same.
 * A holder that was stopped for longer than its lease may still rename one file after somebody else went on: it asks
 * for its lease before that, and whatever slipped through is an older rendering, which the next sync replaces.
 */

import { lstatSync } from "node:fs";
import { mkdir, readdir, realpath, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Goal, goalCore, type MergeReport } from "../goal/index.ts";
import { Lease, leaseLost } from "../journal/index.ts";
import { sha256 } from "../model/digest.ts";
import { isHoldfastError } from "../model/errors.ts";
import type { Actor } from "../model/goal/index.ts";
import { sameJson } from "../model/json.ts";
import { prepareFile, readBounded, removeTemporaries, sameSignature, signatureAt, syncFolder, UnreadableText, hasConflictMarkers, type Signature } from "../state-files/index.ts";
import { EVENTS, EventFiles, type RefusedFile } from "./event-files.ts";
import { type ForeignFile, takeInForeign, type EditReport, letGo } from "./human-edit.ts";
import { writtenByGit, writeGitAttributes } from "./git.ts";
import { eventFileRefused, keptMoving, renderingElsewhere, unsafeFolder, folderOfAnother } from "./refusals.ts";
import { type RenderedFile, Renderer, renderedPaths, STATE_PAGE, refuseBadRows } from "./render.ts";
import { readSeal, hasTwoSeals } from "./seal.ts";

/**
 * What is in the folder, compared with what should be there.
 *
 *     absent      nothing has this name
 *     current     exactly what would be written
 *     older       an earlier rendering of this goal, by its own digest: ours, or an old one that git brought back; or one of
 *                 a goal that makes way for this one
 *     ahead       a rendering of this goal at a revision that this store does not have yet
 *     foreign     somebody else wrote in it: a person, git, another tool
 *
 * A file whose inode, size and time of change are those that were seen last is not read again. A person cannot save
 * twice within one tick of the file system's clock; whoever renames another file into place brings another inode.
 */



/** Above this nobody wrote it by hand, and it is not read. */
const PAGE_BYTES = 1024 * 1024;
const JSON_BYTES = 16 * 1024 * 1024;
/** Bytes of a character, and as much again for what a person may add. */
const ROOM = 8;

export interface Foreign {
  readonly is: "foreign";
  readonly signature: Signature;
  readonly modifiedMs: number;
  /** Null: it could not be read, and `why` says why. */
  readonly text: string | null;
  readonly why: string | null;
  /** The revision it was last rendered at, if that can be known. */
  readonly revision: number | null;
  /** The digest of that rendering. */
  readonly digest: string | null;
  /** Git put two sides into it, with or without its markers. */
  readonly hasConflict: boolean;
}

type Look =
  | { readonly is: "absent"; readonly signature: null }
  | { readonly is: "current" | "older" | "ahead"; readonly signature: Signature }
  | Foreign;

interface Seen {
  readonly signature: Signature;
  readonly digest: string;
  readonly revision: number;
}

/** The manifest: what each file was when it was last seen intact. Only a shortcut: the digest in the file decides. */
class FolderLook {
  private readonly folder: string;
  private readonly goal: string;
  private readonly seen = new Map<string, Seen>();
  /** Which other goal's renderings make way for ours. */
  makesWay: (goal: string) => boolean = () => false;

  constructor(folder: string, goal: string) {
    this.folder = folder;
    this.goal = goal;
  }

  /** Takes note of what was just written. */
  wrote(file: RenderedFile, signature: Signature): void {
    this.seen.set(file.path, { signature, digest: file.digest, revision: file.revision });
  }

  /** Whether anything is not as it was when it was last seen. Asks the file system, reads nothing. */
  touched(): string[] {
    return [...this.seen].flatMap(([path, { signature }]) => {
      const now = signatureAt(join(this.folder, path));
      return sameSignature(now, signature) ? [] : [path];
    });
  }

  /** Whether a file is as some rendering of this goal wrote it, without knowing what it should be now. */
  async inspect(path: string): Promise<"absent" | "intact" | "foreign"> {
    const signature = signatureAt(join(this.folder, path));
    if (signature === null) return "absent";
    try {
      const text = await readBounded(join(this.folder, path), limitOf({ path, text: "" }));
      if (text === null) return "absent";
      const { isIntact, goal, digest, revision } = readSeal(text);
      if (!isIntact || goal !== this.goal || digest === null || revision === null) return "foreign";
      this.seen.set(path, { signature, digest, revision });
      return "intact";
    } catch (error) {
      if (error instanceof UnreadableText) return "foreign";
      throw error;
    }
  }

  /** `isFresh`: everything was looked at a moment ago, so a file that needs no writing is not asked for again. */
  async at(file: RenderedFile, seq: number, isFresh = false): Promise<Look> {
    const known = this.seen.get(file.path);
    if (isFresh && known?.digest === file.digest) return { is: "current", signature: known.signature };
    const signature = signatureAt(join(this.folder, file.path));
    if (signature === null) return { is: "absent", signature };
    if (known && sameSignature(known.signature, signature)) {
      return { is: this.standing(known, file, seq), signature };
    }
    return this.read(file, signature, seq, known?.revision ?? null);
  }

  private standing(
    found: { digest: string; revision: number },
    file: RenderedFile,
    seq: number,
  ): "current" | "older" | "ahead" {
    if (found.digest === file.digest) return "current";
    return found.revision > seq ? "ahead" : "older";
  }

  private async read(
    file: RenderedFile,
    signature: Signature,
    seq: number,
    lastRevision: number | null,
  ): Promise<Look> {
    const modifiedMs = Number(signature.modifiedNs / 1_000_000n);
    const foreign = { is: "foreign", signature, modifiedMs, hasConflict: false } as const;
    let text: string | null;
    try {
      text = await readBounded(join(this.folder, file.path), limitOf(file));
    } catch (error) {
      if (!(error instanceof UnreadableText)) throw error;
      return { ...foreign, text: null, why: error.message, revision: lastRevision, digest: null };
    }
    if (text === null) return { is: "absent", signature: null };
    const seal = readSeal(text);
    if (seal.isIntact && seal.goal !== null && seal.digest !== null && seal.revision !== null) {
      if (seal.goal !== this.goal) {
        if (this.makesWay(seal.goal)) return { is: "older", signature };
        throw folderOfAnother(this.folder, file.path, this.goal, seal.goal);
      }
      const found = { signature, digest: seal.digest, revision: seal.revision };
      this.seen.set(file.path, found);
      return { is: this.standing(found, file, seq), signature };
    }
    const isOurs = seal.goal === this.goal;
    const revision = isOurs ? seal.revision : lastRevision;
    const hasConflict = hasConflictMarkers(text) || hasTwoSeals(text);
    return { ...foreign, text, why: null, revision, digest: isOurs ? seal.digest : null, hasConflict };
  }
}

function limitOf({ path, text }: Pick<RenderedFile, "path" | "text">): number {
  return Math.max(path.endsWith(".json") ? JSON_BYTES : PAGE_BYTES, ROOM * text.length);
}



const RECORDS = ["decisions", "blockers", "sessions"] as const;
const FOLDERS = ["", ...RECORDS, EVENTS] as const;
const TAKER: Actor = { name: "holdfast", role: "supervisor" };
const ROUNDS = 20;
const ATTEMPTS = 3;
const AT_ONCE = 8;
const PAUSE_MS = { least: 2, most: 20 };

/** What one sync of a goal with its folder did, in both directions. */
export interface SyncReport {
  /** The revision of the goal that the files show. */
  readonly seq: number;
  /** Files that were written, in that order. */
  readonly written: readonly string[];
  /** What others had written into the files, and what became of it. */
  readonly edits: readonly EditReport[];
  /** Files of a later revision than this store has. They were left alone: bring the store up to date. */
  readonly ahead: readonly string[];
  /** What other copies of the goal had written, as git brought it; null when there was nothing new. */
  readonly merged: MergeReport | null;
  /** Files of events that could not be believed. They were left alone, and nothing in them was taken in. */
  readonly refused: readonly RefusedFile[];
}

const NOTHING_NEW = { merged: null, refused: [] } as const;

interface Looked {
  readonly file: RenderedFile;
  readonly look: Look;
}

export class FolderWriter {
  readonly folder: string;
  private readonly goal: Goal;
  private readonly human: Actor;
  private readonly waitMs: number;
  private readonly renderer = new Renderer();
  private readonly look: FolderLook;
  private readonly events: EventFiles;
  private readonly leaseName: string;
  private readonly owner: string;
  /** The goal that makes way for this one. */
  private readonly instead: string | null;
  private skipsEventLook = false;
  private isReady = false;
  private isSwept = false;

  private constructor(goal: Goal, folder: string, human: Actor, waitMs: number, instead: string | null) {
    this.instead = instead;
    this.goal = goal;
    this.folder = folder;
    this.human = human;
    this.waitMs = waitMs;
    this.look = new FolderLook(folder, goal.id);
    this.events = new EventFiles(folder, goal.id);
    this.leaseName = `render/${sha256(folder).slice(0, 16)}`;
    this.owner = goalCore(goal).journal.newId();
  }

  /** Makes the folder if it is not there. It may be reached by a link; what is in it may not. */
  static async open(
    goal: Goal,
    folder: string,
    human: Actor,
    waitMs: number,
    instead: string | null = null,
  ): Promise<FolderWriter> {
    await mkdir(folder, { recursive: true });
    const real = await realpath(folder);
    return new FolderWriter(goal, real, human, waitMs, instead);
  }

  /** `isFresh`: whoever calls has looked at all files a moment ago and found nothing in them. */
  async sync(isFresh = false): Promise<SyncReport> {
    const report = await this.underLease((lease, attempt) => this.rounds(lease, isFresh && attempt === 1));
    return report ?? { ...NOTHING_NEW, seq: this.goal.revision, written: [], edits: [], ahead: [] };
  }

  /** The caller has just merged these event files: the next sync does not look for them again. */
  async trustEvents(names: readonly string[]): Promise<void> {
    this.skipsEventLook = await this.events.trust(this.goal, names);
  }

  private lookForEvents(): ReturnType<EventFiles["look"]> {
    if (!this.skipsEventLook) return this.events.look(this.goal.state.known);
    this.skipsEventLook = false;
    return Promise.resolve({ fresh: [], refused: [] });
  }

  /**
   * Whether the page shows this goal, and every file is as some rendering wrote it or absent. Then a sync before the
   * next write would find no edit. Reads the files' seals; renders nothing and takes no lease.
   */
  async isUnedited(): Promise<boolean> {
    for (const path of renderedPaths(this.goal.state)) {
      const found = await this.look.inspect(path);
      if (found === "foreign" || (found === "absent" && path === STATE_PAGE)) return false;
    }
    return true;
  }

  /** For a goal that the folder does not show: its events alone, so that every clone has them. */
  async saveEvents(): Promise<void> {
    await this.underLease(async (lease) => {
      await this.goal.refresh();
      const { fresh, refused } = await this.lookForEvents();
      if (fresh.length > 0) await goalCore(this.goal).mergeEntries(TAKER, fresh);
      await this.placeEvents(lease);
      await this.events.tidy(this.goal, () => this.isStillOurs(lease));
      this.tellRefused(refused);
    });
  }

  /** Null: there was nothing to do any more. */
  private async underLease<Result>(
    act: (lease: Lease, attempt: number) => Promise<Result>,
  ): Promise<Result | null> {
    for (let attempt = 1; ; attempt++) {
      const lease = await this.take();
      if (lease === null) return null;
      try {
        await this.prepareFolders();
        return await act(lease, attempt);
      } catch (error) {
        // Held up for longer than a lease: whoever went on meanwhile may be done, or it is our turn again.
        if (!isHoldfastError(error, "LEASE_LOST") || attempt === ATTEMPTS) throw error;
      } finally {
        await lease.release();
      }
    }
  }

  private async placeEvents(lease: Lease): Promise<void> {
    if (!(await this.events.save(this.goal, () => this.isStillOurs(lease))))
      throw leaseLost(lease.name, null);
  }

  private tellRefused(refused: readonly RefusedFile[]): void {
    for (const { file, why } of refused)
      goalCore(this.goal).journal.warn(eventFileRefused(this.folder, file, why));
  }

  /** Files that are not as they were when they were last seen, whoever did that. */
  touched(): string[] {
    return this.look.touched();
  }

  /** Which of them a person wrote in, latest first. Takes no lease and changes nothing. */
  async humanEdits(touched: readonly string[]): Promise<{ file: string; modifiedMs: number }[]> {
    const { files } = this.renderer.render(this.goal.state, this.goal.revision);
    const foreign: { path: string; modifiedMs: number }[] = [];
    for (const file of files.filter(({ path }) => touched.includes(path))) {
      const look = await this.look.at(file, this.goal.revision);
      if (look.is !== "foreign" || look.hasConflict) continue;
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
    this.look.makesWay = (goal) => isShown || goal === this.instead;
    for (let round = 0; round < ROUNDS; round++) {
      await this.goal.refresh();
      const brought = await this.lookForEvents();
      refused.push(...brought.refused);
      if (brought.fresh.length > 0)
        merged = added(merged, await goalCore(this.goal).mergeEntries(TAKER, brought.fresh));
      const seq = this.goal.revision;
      const rendering = this.renderer.render(this.goal.state, seq);
      await refuseBadRows(rendering);
      const looked: Looked[] = [];
      for (const file of rendering.files)
        looked.push({ file, look: await this.look.at(file, seq, isFresh && round === 0) });
      const context = { goal: this.goal, folder: this.folder, by: this.human };
      const reports = await takeInForeign(context, looked.filter(isForeign));
      // What another round finds as it was is told once.
      edits.push(...reports.filter((each) => !edits.some((told) => sameJson(told, each))));
      // The goal has moved, so everything has to be rendered again.
      if (this.goal.revision !== seq) continue;
      await this.placeEvents(lease);
      const written = await this.write(lease, looked);
      if (written === null) continue;
      if (merged || !this.isSwept) await this.removeOrphans(rendering.files, seq);
      await this.events.tidy(this.goal, () => this.isStillOurs(lease));
      for (const { left, beside } of edits) if (left.length === 0) await letGo(this.folder, beside);
      const told = edits.map((edit) => (edit.left.length === 0 ? { ...edit, beside: null } : edit));
      const ahead = looked.filter(({ look }) => look.is === "ahead").map(({ file }) => file.path);
      this.tellRefused(refused);
      return { seq, written, edits: told, ahead, merged, refused };
    }
    throw keptMoving(this.goal.id, this.folder);
  }

  /** The paths that were written, or null when a file changed under our hands. */
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
        this.look.wrote(file, temporary.signature);
        written.push(file.path);
      }
    }
    const folders = new Set(written.map((path) => dirname(join(this.folder, path))));
    for (const folder of folders) await syncFolder(folder);
    return written;
  }

  /** The store is asked only when a good part of the lease has passed since it last said so. */
  private async isStillOurs(lease: Lease): Promise<boolean> {
    const { leases } = goalCore(this.goal).journal;
    if (lease.lost.aborted) return false;
    if (leases.isSurelyHeld(lease)) return true;
    return leases.confirm(lease);
  }

  /** Null: while we waited, another process rendered what we would have. */
  private async take(): Promise<Lease | null> {
    const { journal } = goalCore(this.goal);
    const until = performance.now() + this.waitMs;
    for (;;) {
      const lease = await journal.leases.take(this.leaseName, this.owner, {
        label: this.goal.by.name,
        waitMs: 0,
      });
      if (lease instanceof Lease) return lease;
      if (performance.now() > until) {
        throw renderingElsewhere(
          this.goal.id,
          this.folder,
          lease.holder?.label ?? "another process",
          this.waitMs,
        );
      }
      const shown = await this.shown();
      if (shown?.goal === this.goal.id && shown.revision >= this.goal.revision) return null;
      await pause(PAUSE_MS.least + Math.random() * (PAUSE_MS.most - PAUSE_MS.least));
    }
  }

  /** What the page says of itself, if it is as it was rendered. */
  private async shown(path: string = STATE_PAGE): Promise<{ goal: string; revision: number } | null> {
    try {
      const { isIntact, goal, revision } = readSeal(
        (await readBounded(join(this.folder, path), 1024 * 1024)) ?? "",
      );
      return isIntact && goal !== null && revision !== null ? { goal, revision } : null;
    } catch (error) {
      // Whoever has the lease deals with it.
      if (error instanceof UnreadableText) return null;
      throw error;
    }
  }

  /**
   * A record that a merge gave another number has another file. What is left of the old one is whole, ours and rendered
   * by nobody any more; whatever is not all three stays.
   */
  private async removeOrphans(files: readonly RenderedFile[], seq: number): Promise<void> {
    const wanted = new Set(files.map(({ path }) => path));
    for (const folder of RECORDS) {
      const names = (await readdir(join(this.folder, folder))).filter((name) => name.endsWith(".md"));
      for (const path of names.map((name) => `${folder}/${name}`).filter((each) => !wanted.has(each))) {
        if (await this.isOwnRendering(path, seq)) await rm(join(this.folder, path), { force: true });
      }
    }
    this.isSwept = true;
  }

  private async isOwnRendering(path: string, seq: number): Promise<boolean> {
    const found = await this.shown(path);
    if (found === null) return false;
    return found.goal === this.goal.id ? found.revision <= seq : this.look.makesWay(found.goal);
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

/** Of two rounds that both brought something, the reports are one. */
function added(old: MergeReport | null, more: MergeReport | null): MergeReport | null {
  if (!old || !more) return more ?? old;
  return {
    events: old.events + more.events,
    renumbered: [...old.renumbered, ...more.renumbered],
    notApplied: [...old.notApplied, ...more.notApplied],
  };
}
