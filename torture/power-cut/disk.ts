/**
 * The possible contents of a disk after a power cut. The strict model: a write is certain once its file was
 * synced, a name once its folder was. Until then each may be there or not, in any combination, and a write
 * may be torn between sectors. The model assumes nothing about the file system's own order.
 *
 * After a failed sync, the writes before it stay uncertain for good. Linux marks their pages as clean, so
 * later syncs succeed without them.
 */

import type { DiskStep } from "./trace.ts";
import { parentOf } from "./trace.ts";

const SECTOR = 512;

type FileOp =
  | { readonly act: "write"; readonly offset: number; readonly data: Buffer }
  | { readonly act: "truncate"; readonly size: number };

interface Change {
  readonly op: FileOp;
  /** `unsynced` becomes `certain` by the next sync, or `doubtful` for good if that sync fails. */
  state: "unsynced" | "doubtful" | "certain";
}

interface File {
  content: Buffer;
  /** In order, on top of `content`. A change is certain here only if it follows a doubtful one. */
  changes: Change[];
}

interface NameOp {
  readonly act: "create" | "unlink";
  readonly path: string;
  /** Null for a folder. */
  readonly file: File | null;
}

/** A change that the cut may or may not have kept. */
export type Pending =
  | { readonly of: "name"; readonly op: NameOp }
  | { readonly of: "data"; readonly file: File; readonly op: FileOp };

/** Which pending changes are on the disk. `sectors`: the parts of a write that arrived. */
export type Kept = readonly (boolean | { readonly sectors: ReadonlySet<number> })[];

/** The contents of a disk: whole files by path. */
export type Image = ReadonlyMap<string, Buffer>;

export class Disk {
  private readonly names = new Map<string, File | null>();
  private readonly live = new Map<string, File | null>();
  private nameOps: NameOp[] = [];
  private readonly root: string;

  /** `root`: a folder that was durable before the trace began. */
  constructor(root: string) {
    this.root = root;
    this.names.set(root, null);
    this.live.set(root, null);
  }

  apply(step: DiskStep): void {
    switch (step.act) {
      case "create": {
        const file = step.folder ? null : { content: Buffer.alloc(0), changes: [] };
        this.live.set(step.path, file);
        this.nameOps.push({ act: "create", path: step.path, file });
        break;
      }
      case "unlink":
        this.nameOps.push({ act: "unlink", path: step.path, file: this.live.get(step.path) ?? null });
        this.live.delete(step.path);
        break;
      case "rename": {
        // Two changes of names, of which the cut may keep only one.
        const file = this.live.get(step.path) ?? null;
        this.live.delete(step.path);
        this.live.set(step.to, file);
        this.nameOps.push({ act: "create", path: step.to, file }, { act: "unlink", path: step.path, file });
        break;
      }
      case "write":
        this.change(step.path, { act: "write", offset: step.offset, data: step.data });
        break;
      case "truncate":
        this.change(step.path, { act: "truncate", size: step.size });
        break;
      case "sync":
        this.sync(step.path);
        break;
      case "failed sync":
        for (const change of this.live.get(step.path)?.changes ?? []) {
          if (change.state === "unsynced") change.state = "doubtful";
        }
        break;
      case "told":
    }
  }

  /** All changes that are not certain yet, in order. */
  pending(): Pending[] {
    const names = this.nameOps.map((op): Pending => ({ of: "name", op }));
    const files = new Set([...this.names.values(), ...this.nameOps.map((op) => op.file)]);
    const data = [...files].flatMap((file) => {
      const open = file?.changes.filter(({ state }) => state !== "certain") ?? [];
      return open.map(({ op }): Pending => ({ of: "data", file: file as File, op }));
    });
    return [...names, ...data];
  }

  image(pending: readonly Pending[], kept: Kept): Image {
    const names = new Map(this.names);
    const keptOps = new Map<FileOp, Kept[number]>();
    pending.forEach((each, index) => {
      const keep = kept[index];
      if (!keep) return;
      if (each.of === "data") keptOps.set(each.op, keep);
      else if (each.op.act === "create") names.set(each.op.path, each.op.file);
      else names.delete(each.op.path);
    });
    const image = new Map<string, Buffer>();
    const isThere = (path: string): boolean =>
      path === this.root || (names.has(path) && isThere(parentOf(path)));
    for (const [path, file] of names) {
      if (file && isThere(path)) image.set(path, contentOf(file, keptOps));
    }
    return image;
  }

  private change(path: string, op: FileOp): void {
    const file = this.live.get(path);
    if (!file) throw new Error(`${path} was written before it was created`);
    file.changes.push({ op, state: "unsynced" });
  }

  private sync(path: string): void {
    const file = this.live.get(path);
    if (file) {
      for (const change of file.changes) if (change.state === "unsynced") change.state = "certain";
      settle(file);
      return;
    }
    for (const op of this.nameOps.filter((each) => parentOf(each.path) === path)) {
      if (op.act === "create") this.names.set(op.path, op.file);
      else this.names.delete(op.path);
    }
    this.nameOps = this.nameOps.filter((each) => parentOf(each.path) !== path);
  }
}

/** Moves changes into `content` as far as no doubtful one is below them, or a certain truncation hides it. */
function settle(file: File): void {
  const isEmptied = ({ op, state }: Change) => state === "certain" && op.act === "truncate" && op.size === 0;
  const emptied = file.changes.findLastIndex(isEmptied);
  if (emptied >= 0) {
    file.content = Buffer.alloc(0);
    file.changes.splice(0, emptied + 1);
  }
  while (file.changes[0]?.state === "certain") {
    file.content = applied(file.content, (file.changes.shift() as Change).op, true);
  }
}

function contentOf(file: File, kept: ReadonlyMap<FileOp, Kept[number]>): Buffer {
  let content = file.content;
  for (const { op, state } of file.changes) {
    const keep = state === "certain" || kept.get(op);
    if (keep) content = applied(content, op, keep);
  }
  return content;
}

function applied(
  content: Buffer,
  op: FileOp,
  keep: true | { readonly sectors: ReadonlySet<number> },
): Buffer {
  if (op.act === "truncate") {
    const next = Buffer.alloc(op.size);
    content.copy(next, 0, 0, Math.min(op.size, content.length));
    return next;
  }
  const next = Buffer.alloc(Math.max(content.length, op.offset + op.data.length));
  content.copy(next);
  if (keep === true) {
    op.data.copy(next, op.offset);
    return next;
  }
  for (const sector of keep.sectors) {
    const { from, to } = sectorRange(op, sector);
    if (from < to) op.data.copy(next, op.offset + from, from, to);
  }
  return next;
}

/** Sectors belong to the disk, not to the write: its first and last one may be partial. */
function sectorRange(op: { offset: number; data: Buffer }, sector: number): { from: number; to: number } {
  const start = (Math.floor(op.offset / SECTOR) + sector) * SECTOR;
  const from = Math.max(0, start - op.offset);
  const to = Math.min(op.data.length, start + SECTOR - op.offset);
  return { from, to };
}

export function sectorsOf(op: { offset: number; data: Buffer }): number {
  return Math.floor((op.offset + op.data.length - 1) / SECTOR) - Math.floor(op.offset / SECTOR) + 1;
}
