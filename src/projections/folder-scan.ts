/** Scans the folder of a goal: what each file is, compared with its rendering. */

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
import { type RenderedFile, STATE_PAGE } from "./render.ts";
import { hasTwoSeals, readSeal } from "./seal.ts";

/** Larger files are not read: no person wrote them by hand. */
const PAGE_BYTES = 256 * 1024;
/** Our page has less than 200 lines. The expressions that read it take time by the square of a line. */
const PAGE_LINES = { count: 4_000, characters: 4_000 };
const JSON_BYTES = 16 * 1024 * 1024;
/** Four bytes per character, and as much again for the additions of a person. */
const ROOM = 8;

export interface Foreign {
  readonly is: "foreign";
  readonly signature: Signature;
  readonly modifiedMs: number;
  /** Null: it could not be read, and `why` says why. */
  readonly text: string | null;
  readonly why: string | null;
  readonly revision: number | null;
  readonly digest: string | null;
  /** Git put both sides of a merge into it, with or without markers. */
  readonly hasConflict: boolean;
}

/**
 * The state of a file, compared with its rendering:
 *
 *     absent      there is no such file
 *     current     the same as the rendering
 *     older       an earlier rendering of this goal, or one of a goal that is replaced in this folder
 *     ahead       a rendering of this goal at a revision that this store does not have yet
 *     foreign     a person, git or another tool wrote it
 */
export type Look =
  | { readonly is: "absent"; readonly signature: null }
  | { readonly is: "current" | "older" | "ahead"; readonly signature: Signature }
  | Foreign;

interface Seen {
  readonly signature: Signature;
  readonly digest: string;
  readonly revision: number;
}

/** Does not read a file again that has the same signature; this is a shortcut, the digest decides. */
export class FolderScan {
  private readonly folder: string;
  private readonly goal: string;
  private readonly seen = new Map<string, Seen>();
  mayReplace: (goal: string) => boolean = () => false;

  constructor(folder: string, goal: string) {
    this.folder = folder;
    this.goal = goal;
  }

  wrote(file: RenderedFile, signature: Signature): void {
    this.seen.set(file.path, { signature, digest: file.digest, revision: file.revision });
  }

  touched(): string[] {
    return [...this.seen].flatMap(([path, { signature }]) => {
      const now = signatureAt(join(this.folder, path));
      return sameSignature(now, signature) ? [] : [path];
    });
  }

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

  /** `isFresh`: all files were just scanned, so one that needs no writing is not checked again. */
  async at(file: RenderedFile, seq: number, isFresh = false): Promise<Look> {
    const known = this.seen.get(file.path);
    if (isFresh && known?.digest === file.digest) return { is: "current", signature: known.signature };
    const signature = signatureAt(join(this.folder, file.path));
    if (signature === null) return { is: "absent", signature };
    if (known && sameSignature(known.signature, signature)) {
      return { is: this.compare(known, file, seq), signature };
    }
    return this.read(file, signature, seq, known?.revision ?? null);
  }

  private compare(
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
      if (text !== null && file.path === STATE_PAGE) refuseLongLines(text);
    } catch (error) {
      if (!(error instanceof UnreadableText)) throw error;
      return { ...foreign, text: null, why: error.message, revision: lastRevision, digest: null };
    }
    if (text === null) return { is: "absent", signature: null };
    const seal = readSeal(text);
    if (seal.isIntact && seal.goal !== null && seal.digest !== null && seal.revision !== null) {
      if (seal.goal !== this.goal) {
        if (this.mayReplace(seal.goal)) return { is: "older", signature };
        throw folderOfAnother(this.folder, file.path, this.goal, seal.goal);
      }
      const found = { signature, digest: seal.digest, revision: seal.revision };
      this.seen.set(file.path, found);
      return { is: this.compare(found, file, seq), signature };
    }
    const isOurs = seal.goal === this.goal;
    const revision = isOurs ? seal.revision : lastRevision;
    const hasConflict = hasConflictMarkers(text) || hasTwoSeals(text);
    return { ...foreign, text, why: null, revision, digest: isOurs ? seal.digest : null, hasConflict };
  }
}

function refuseLongLines(text: string): void {
  const lines = text.split("\n");
  if (lines.length > PAGE_LINES.count)
    throw new UnreadableText(`it has ${lines.length} lines, the limit is ${PAGE_LINES.count}`);
  const long = lines.findIndex((line) => line.length > PAGE_LINES.characters);
  if (long >= 0)
    throw new UnreadableText(`line ${long + 1} has more than ${PAGE_LINES.characters} characters`);
}

function limitOf({ path, text }: Pick<RenderedFile, "path" | "text">): number {
  return Math.max(path.endsWith(".json") ? JSON_BYTES : PAGE_BYTES, ROOM * text.length);
}
