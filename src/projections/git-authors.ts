/**
 * Asks git who brought an event file or an edit. That starts processes, so it is done only if there is
 * something new to merge or to apply.
 *
 * The author of a commit is what its writer typed. So a name is never evidence that a commit is by this user.
 * The evidence is the reflog, which only this repository writes: `commit: …` for a commit that was made here.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import type { CommitSource } from "../model/goal/index.ts";
import { findRepository, type Repository, readGit } from "./git.ts";
import { normalText, readSeal } from "./seal.ts";

const AUTHOR_CHARACTERS = 128;
/** More names than this are not passed one by one. */
const MAX_NAMED = 200;
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/**
 * Before each commit. A name may hold any other control character, and could end one entry and begin another
 * with the hash of an honest commit. An empty name leaves two NULs side by side, never three.
 */
const BEGINNING = "\0\0\0";
const AS_SOURCE = "--format=%x00%x00%x00%H%x00%an";

function readSource(text: string): CommitSource | null {
  const [commit = "", name = ""] = text.split("\0");
  if (!/^[0-9a-f]{40,64}$/.test(commit)) return null;
  const author = name.replace(INVISIBLE, " ").trim().slice(0, AUTHOR_CHARACTERS);
  return { commit, author: author || "unknown" };
}

export type SourceOf = (uid: string) => CommitSource | null;

/** The commits that added files of events. `fileOf`: uid of an event → name of its file, below `below`. */
export async function sourcesOf(
  folder: string,
  below: string,
  fileOf: ReadonlyMap<string, string>,
): Promise<SourceOf> {
  const names = [...new Set(fileOf.values())];
  const repository = names.length === 0 ? null : findRepository(folder);
  if (repository === null) return () => null;
  const inFolder = `${repository.below}${below}`;
  const paths = names.length > MAX_NAMED ? [inFolder] : names.map((name) => `${inFolder}/${name}`);
  const asked = ["--diff-filter=A", "--no-renames", "--name-only", AS_SOURCE, "--", ...paths];
  const sources = new Map<string, CommitSource>();
  for (const commit of (await readGit(repository, ["log", ...asked]))?.split(BEGINNING) ?? []) {
    const [head = "", ...files] = commit.split("\n");
    const source = readSource(head);
    if (source) for (const file of files) sources.set(file, source);
  }
  return (uid) => sources.get(`${inFolder}/${fileOf.get(uid) ?? ""}`) ?? null;
}

/** `here`: a person or agent of this clone wrote it. `unknown`: git does not answer. */
export type EditSource = CommitSource | "here" | "unknown";

const MADE_HERE = /^commit(?: \((?:initial|amend)\))?: /;
const REFLOG_LINES = 20_000;
const COMMITS_READ = 20;
/** Merges of merged files, one on the other, without a rendering in between. */
const MERGES_READ = 8;

/** A ref or folder that exists while git has stopped in the middle of bringing commits. */
const UNDER_WAY = [
  ["MERGE_HEAD", "MERGE_HEAD"],
  ["CHERRY_PICK_HEAD", "CHERRY_PICK_HEAD"],
  ["REVERT_HEAD", "REVERT_HEAD"],
  ["rebase-merge", "REBASE_HEAD"],
  ["rebase-apply", "REBASE_HEAD"],
] as const;

/** Finds who brought edits of rendered files, in one repository. */
export class EditSources {
  private readonly repository: Repository | null;
  private made: Promise<ReadonlySet<string> | null> | null = null;

  constructor(folder: string) {
    this.repository = findRepository(folder);
  }

  /**
   * The commit of another clone that an edited file contains. The commits that touched it are read from the
   * latest one back to the last intact rendering: an edit may lie below a commit of this clone.
   */
  async of(path: string): Promise<EditSource> {
    const directory = this.repository?.directory;
    if (directory === undefined) return "here";
    const stopped = UNDER_WAY.find(([name]) => existsSync(join(directory, name)));
    if (stopped) return (await this.commits("-1", stopped[1]))?.[0] ?? "unknown";
    // A repository without a commit has brought nothing.
    if (!existsSync(join(directory, "logs", "HEAD"))) return "here";
    const commits = await this.commits("-n", String(COMMITS_READ), "HEAD", "--", this.inRepository(path));
    if (commits === null) return "unknown";
    if (commits.length === 0 || (await this.isIntactAt("HEAD", path))) return "here";
    for (const commit of commits) {
      const foreign = await this.foreignPart(commit, path);
      if (foreign) return foreign;
      if (await this.isIntactAt(`${commit.commit}^`, path)) return "here";
    }
    return commits.length < COMMITS_READ ? "here" : (commits.at(-1) ?? "unknown");
  }

  /**
   * True if git alone made this text: a merge took each line from an intact rendering of one of its sides.
   * Such a text may have one seal only, since the merge base may have been a merged text, too.
   */
  async isMixedByGit(path: string, text: string): Promise<boolean> {
    const directory = this.repository?.directory;
    if (directory === undefined) return false;
    const isUnderWay = existsSync(join(directory, "MERGE_HEAD"));
    const recorded = await this.textAt(isUnderWay ? "" : "HEAD", path);
    if (recorded === null || recorded !== normalText(text)) return false;
    const sides = isUnderWay ? ["HEAD", "MERGE_HEAD"] : await this.sidesOf("HEAD", path);
    return (await this.renderedIn(recorded, sides, path, MERGES_READ)) !== null;
  }

  /** The lines of a text, if it is intact or mixed from such texts of `sides`; else null. */
  private async renderedIn(
    text: string,
    sides: readonly string[],
    path: string,
    depth: number,
  ): Promise<readonly string[] | null> {
    const lines = text.split("\n");
    if (readSeal(text).isIntact) return lines;
    if (sides.length < 2 || depth === 0) return null;
    const rendered = new Set<string>();
    for (const side of sides) {
      const theirs = await this.textAt(side, path);
      // A side without the file adds no line.
      if (theirs === null) continue;
      const more = await this.renderedIn(theirs, await this.sidesOf(side, path), path, depth - 1);
      if (more === null) return null;
      for (const line of more) rendered.add(line);
    }
    return lines.every((line) => rendered.has(line)) ? lines : null;
  }

  /** The parents of the last commit that changed the file: two or more if it is a merge. */
  private async sidesOf(commit: string, path: string): Promise<string[]> {
    const parents = await this.read("log", "-1", "--format=%P", commit, "--", this.inRepository(path));
    return parents?.match(/[0-9a-f]{40,64}/g) ?? [];
  }

  private async textAt(commit: string, path: string): Promise<string | null> {
    const text = await this.read("show", `${commit}:${this.inRepository(path)}`);
    return text === null ? null : normalText(text);
  }

  /** A merge that was made here may bring commits that were not. */
  private async foreignPart(commit: Commit, path: string): Promise<CommitSource | null> {
    const made = (await this.madeHere()) ?? new Set();
    const isForeign = (each: CommitSource): boolean => !made.has(each.commit);
    if (!commit.isMerge) return isForeign(commit) ? commit : null;
    const range = `${commit.commit}^1..${commit.commit}`;
    return (await this.commits("--no-merges", range, "--", this.inRepository(path)))?.find(isForeign) ?? null;
  }

  private read(...args: readonly string[]): Promise<string | null> {
    return this.repository ? readGit(this.repository, args) : Promise.resolve(null);
  }

  private inRepository(path: string): string {
    return `${this.repository?.below ?? ""}${path}`;
  }

  private madeHere(): Promise<ReadonlySet<string> | null> {
    this.made ??= (async () => {
      const asked = ["-g", "--all", "-n", String(REFLOG_LINES), "--format=%H%x00%gs"];
      const lines = (await this.read("log", ...asked))?.split("\n") ?? null;
      const commits = lines?.map((line) => line.split("\0", 2));
      return commits
        ? new Set(commits.flatMap(([to = "", act = ""]) => (MADE_HERE.test(act) ? [to] : [])))
        : null;
    })();
    return this.made;
  }

  private async commits(...asked: readonly string[]): Promise<Commit[] | null> {
    const format = `${AS_SOURCE}%x00%P`;
    const text = await this.read("log", format, ...asked);
    return (
      text?.split(BEGINNING).flatMap((each) => {
        const source = readSource(each.trim());
        const [, , parents = ""] = each.trim().split("\0");
        return source ? [{ ...source, isMerge: parents.includes(" ") }] : [];
      }) ?? null
    );
  }

  /** True also if that commit has no such file. */
  private async isIntactAt(commit: string, path: string): Promise<boolean> {
    const text = await this.textAt(commit, path);
    return text === null || readSeal(text).isIntact;
  }
}

interface Commit extends CommitSource {
  readonly isMerge: boolean;
}
