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

import { join } from "node:path";
import {
  hasConflictMarkers,
  readBounded,
  type Signature,
  sameSignature,
  signatureAt,
  UnreadableText,
} from "../state-files/index.ts";
import { folderOfAnother } from "./refusals.ts";
import type { RenderedFile } from "./render.ts";
import { hasTwoSeals, readSeal } from "./seal.ts";

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

export type Look =
  | { readonly is: "absent"; readonly signature: null }
  | { readonly is: "current" | "older" | "ahead"; readonly signature: Signature }
  | Foreign;

interface Seen {
  readonly signature: Signature;
  readonly digest: string;
  readonly revision: number;
}

/** The manifest: what each file was when it was last seen intact. Only a shortcut: the digest in the file decides. */
export class FolderLook {
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
