/**
 * Writes a plan: all files or none.
 *
 *     read ──▶ plan ──▶ record ──▶ write beside ──▶ check ──▶ rename, one by one ──▶ done
 *                                                            └──one fails──▶ restore those before it
 *
 * | crash | leaves |
 * |---|---|
 * | before the first rename | temporary files that nothing reads, and a superfluous record |
 * | between two renames | some files wired, others not, each whole: run it again, or `--remove` |
 *
 * A file that changed since it was read is not overwritten.
 */

import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, sep } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import type { FileRecord, PlannedFile } from "./plan.ts";

/** Loads the planner with its parsers of JSON and TOML, which only `init` needs. */
export const loadPlanner = (): Promise<typeof import("./plan.ts")> => import("./plan.ts");
export const loadProver = (): Promise<typeof import("./proof.ts")> => import("./proof.ts");

/** Null: there is no such file. Refuses a file that is not UTF-8, since its bytes would not survive. */
export function readWhole(root: string, path: string): string | null {
  try {
    const bytes = readFileSync(join(root, path));
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw new HoldfastError("INPUT_INVALID", `${path} cannot be read (${code ?? message})`, {
      hint: "No file was changed. Repair that file, or leave its agent out: --agent",
      cause: error,
      data: { path },
    });
  }
}

interface Prepared {
  readonly file: PlannedFile;
  readonly target: string;
  readonly temporary: string | null;
}

export function placeAll(root: string, files: readonly PlannedFile[]): void {
  const changed = files.filter(({ before, after }) => before !== after);
  const made: string[] = [];
  const done: Prepared[] = [];
  const prepared: Prepared[] = [];
  try {
    for (const file of changed) prepared.push(prepare(root, file, made));
    for (const each of prepared) {
      const { file, target, temporary } = each;
      if (readWhole(root, file.path) !== file.before) throw changedMeanwhile(file.path);
      if (temporary === null) rmSync(target);
      else renameSync(temporary, target);
      done.push(each);
    }
  } catch (error) {
    for (const { temporary } of prepared) if (temporary !== null) rmSync(temporary, { force: true });
    for (const each of done.reverse()) undo(each);
    for (const folder of made.reverse()) removeEmpty(folder);
    throw error instanceof HoldfastError ? error : unwritable(root, error);
  }
  for (const { after, path } of changed) if (after === null) removeEmpty(dirname(join(root, path)));
}

/** Where writing a file would lead by links, if that is outside of `root`; null if it is not. */
export function leadsOut(root: string, path: string): string | null {
  let place = join(root, path);
  while (!existsSync(place)) place = dirname(place);
  const real = realpathSync(place);
  return `${real}${sep}`.startsWith(`${realpathSync(root)}${sep}`) ? null : real;
}

/**
 * A link comes with the repository, too: `AGENTS.md` may lead to `~/.bashrc`, and `.claude` to the settings
 * of all projects. Such a file is written only if the user says so.
 */
export function refuseLinksOut(root: string, files: readonly PlannedFile[]): void {
  for (const { path, before, after } of files) {
    const target = before === after ? null : leadsOut(root, path);
    if (target === null) continue;
    throw new HoldfastError("FOLDER_UNSAFE", `${path} leads out of the project, to ${target}`, {
      hint: "No file was changed. If that is your own link: --follow-links. If not, remove it.",
      data: { path, target },
    });
  }
}

/** Follows links: settings that are kept elsewhere stay there. */
function prepare(root: string, file: PlannedFile, made: string[]): Prepared {
  const { before, after } = file;
  const place = join(root, file.path);
  const target = before === null ? place : realpathSync(place);
  if (after === null) return { file, target, temporary: null };
  const folder = dirname(target);
  const first = mkdirSync(folder, { recursive: true });
  if (first !== undefined) made.push(folder);
  const temporary = join(folder, `.holdfast-${randomBytes(6).toString("hex")}.tmp`);
  writeFileSync(temporary, after, { flag: "wx", flush: true } as object);
  if (before !== null) chmodSync(temporary, statSync(target).mode & 0o777);
  return { file, target, temporary };
}

function undo({ target, file: { before } }: Prepared): void {
  if (before === null) rmSync(target, { force: true });
  else writeFileSync(target, before);
}

/** `rmdir` refuses a folder that is not empty. */
function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!["ENOTEMPTY", "EEXIST", "ENOENT", "EBUSY", "EPERM", "EACCES", "EINVAL"].includes(code ?? ""))
      throw error;
  }
}

function changedMeanwhile(path: string): HoldfastError {
  return new HoldfastError("HUMAN_EDITING", `${path} was changed while it was being wired`, {
    hint: "No file was changed. Run holdfast init again.",
    data: { path },
  });
}

function unwritable(root: string, cause: unknown): HoldfastError {
  const { code, path, message } = cause as NodeJS.ErrnoException;
  return new HoldfastError("STORE_READONLY", `${path ?? root} cannot be written (${code ?? message})`, {
    hint: "No file was changed. Check the permissions, or leave that agent out: --agent",
    cause,
    data: { path: path ?? root },
  });
}

/** The insertions by file, kept beside the store. Without it, entries are recognised by their content. */
export class Records {
  private readonly file: string;
  private readonly files: Record<string, FileRecord>;

  constructor(folder: string) {
    this.file = join(folder, "wiring.json");
    this.files = existsSync(this.file) ? readRecords(this.file) : {};
  }

  of(path: string): FileRecord | undefined {
    return this.files[path];
  }

  /** Call it before the files are written: only a missing record does harm. */
  save(planned: readonly PlannedFile[], which: "added" | "removed"): void {
    for (const { path, record } of planned) {
      if (record && which === "added") this.files[path] = record;
      if (!record && which === "removed") delete this.files[path];
    }
    if (Object.keys(this.files).length === 0 && !existsSync(this.file)) return;
    mkdirSync(dirname(this.file), { recursive: true, mode: 0o700 });
    const temporary = `${this.file}.tmp`;
    writeFileSync(temporary, `${JSON.stringify({ version: 1, files: this.files }, null, 2)}\n`, {
      mode: 0o600,
    });
    renameSync(temporary, this.file);
  }
}

function readRecords(file: string): Record<string, FileRecord> {
  try {
    const { files } = JSON.parse(readFileSync(file, "utf8")) as { files?: Record<string, FileRecord> };
    return files ?? {};
  } catch (error) {
    // Without the record our entries are recognised by their content.
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}
