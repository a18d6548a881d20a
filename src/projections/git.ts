/**
 * Guesses whether git, and not a person, has just changed files, and whose commits it brought. Evidence: the
 * reflog of HEAD, and many files that change at once. An edit that was committed in this repository is in no
 * other store yet; the store of another clone may apply its own edits, too.
 *
 * Also says which files git does not track.
 */

import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { signatureAt, writeFileWhole } from "../state-files/index.ts";

const NEAR_MS = 2_000;
const LOG_BYTES = 1 << 20;
const AT_ONCE = { files: 5, withinMs: 1_000 };
const GIT_MS = 5_000;
const GIT_BYTES = 16 << 20;

/** `here`: committed or stashed in this repository. `elsewhere`: perhaps from another clone. */
export type Brought = "here" | "elsewhere" | "bulk";

export async function writtenByGit(
  folder: string,
  files: readonly { readonly path: string; readonly modifiedMs: number }[],
): Promise<Map<string, Brought>> {
  const moved = await headMoved(folder);
  const times = files.map(({ modifiedMs }) => modifiedMs).sort((a, b) => a - b);
  const isBulk = times.some((time, index) => {
    const later = times[index + AT_ONCE.files - 1];
    return later !== undefined && later - time <= AT_ONCE.withinMs;
  });
  if (isBulk) return new Map(files.map(({ path }) => [path, "bulk"]));
  if (moved === null) return new Map();
  const near = files.filter(({ modifiedMs }) => Math.abs(modifiedMs - moved.atMs) <= NEAR_MS);
  return new Map(near.map(({ path }) => [path, moved.isOwn ? "here" : "elsewhere"]));
}

interface LogLine {
  readonly from: string;
  readonly to: string;
  readonly act: string;
}

const MOVES = /^(?:checkout|merge|reset|rebase|pull|cherry-pick|revert|clone)\b/;
const MAKES = /^(?:commit|cherry-pick|revert|rebase \((?:continue|pick|reword|squash|fixup|edit)\))/;

/** Null if git did something else after it moved HEAD. */
async function headMoved(folder: string): Promise<{ atMs: number; isOwn: boolean } | null> {
  const directory = gitDirectory(folder);
  if (directory === null) return null;
  const log = join(directory, "logs", "HEAD");
  const lines = await readLog(log);
  const last = lines.at(-1);
  if (!last || !MOVES.test(last.act)) return null;
  return { atMs: (await stat(log)).mtimeMs, isOwn: await isOwn(directory, lines, last) };
}

async function isOwn(
  directory: string,
  lines: readonly LogLine[],
  { from, to, act }: LogLine,
): Promise<boolean> {
  if (/^(?:pull|clone)\b/.test(act)) return false;
  // A stash was popped, or a branch created.
  if (from === to) return true;
  const shared = await sharedDirectory(directory);
  const branch = (name: string): Promise<LogLine[]> => readLog(join(shared, "logs", "refs", "heads", name));
  const head = /^ref: refs\/heads\/(.*)$/m.exec(await readFile(join(directory, "HEAD"), "utf8"))?.[1];
  const merged = /^merge ([^\s:]+): (?!Fast-forward)/.exec(act)?.[1];
  const theirs = merged === undefined ? [] : await branch(merged);
  const tip = merged === undefined ? to : theirs.at(-1)?.to;
  const known = [...lines, ...theirs, ...(head === undefined ? [] : await branch(head))];
  return known.some((line) => line.to === tip && MAKES.test(line.act));
}

async function readLog(path: string): Promise<LogLine[]> {
  try {
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      const start = Math.max(0, size - LOG_BYTES);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
      const lines = buffer.subarray(0, bytesRead).toString("utf8").split("\n");
      return lines.flatMap((line) => {
        const [, from, to, act] = /^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) .*?\t(.*)$/.exec(line) ?? [];
        return from && to && act !== undefined ? [{ from, to, act }] : [];
      });
    } finally {
      await file.close();
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR" || code === "EISDIR") return [];
    throw error;
  }
}

/** Each worktree has a git directory; branches are in a shared one. */
async function sharedDirectory(directory: string): Promise<string> {
  try {
    return resolve(directory, (await readFile(join(directory, "commondir"), "utf8")).trim());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return directory;
    throw error;
  }
}

export interface Repository {
  /** The folder with `.git` in it. */
  readonly root: string;
  /** The git directory. A linked worktree has it elsewhere. */
  readonly directory: string;
  /** The path of the asking folder below `root`, with a slash at its end: `app/.planning/`. */
  readonly below: string;
}

/** The repository around a folder. Synchronous, so that a look at a clone starts no threads for it. */
export function findRepository(folder: string): Repository | null {
  const from = resolve(folder);
  for (let root = from; ; root = dirname(root)) {
    const path = join(root, ".git");
    try {
      const below = root === from ? "" : `${relative(root, from).replaceAll(sep, "/")}/`;
      if (statSync(path).isDirectory()) return { root, directory: path, below };
      const link = /^gitdir: (.*)$/m.exec(readFileSync(path, "utf8"))?.[1];
      return link ? { root, directory: resolve(root, link.trim()), below } : null;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
    }
    if (dirname(root) === root) return null;
  }
}

export function gitDirectory(folder: string): string | null {
  return findRepository(folder)?.directory ?? null;
}

/**
 * The output of a git command that only reads; null if git is missing, fails or takes too long. Paths start
 * at the root of the repository, where git runs. A commit can put a whole bare repository (`HEAD`,
 * `objects/`, `refs/`) into `.planning/`, and git would answer from that one if it ran there.
 */
export function readGit({ root }: Repository, args: readonly string[]): Promise<string | null> {
  const quiet = ["--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false"];
  const options = { cwd: root, timeout: GIT_MS, maxBuffer: GIT_BYTES, encoding: "utf8" } as const;
  return new Promise((done) => {
    execFile("git", [...quiet, "--literal-pathspecs", ...args], options, (error, stdout) =>
      done(error ? null : stdout),
    );
  });
}

/**
 * The files among `names` that git cannot track, unless a clock or a copy of the folder lies: git has not
 * written its index since they were made. It costs no process. While git writes its index there are none.
 */
export function newerThanIndex(
  folder: string,
  directory: string | null,
  names: readonly string[],
): readonly string[] {
  if (directory === null) return names;
  if (existsSync(join(directory, "index.lock"))) return [];
  const written = statSync(join(directory, "index"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  return names.filter((name) => {
    const made = statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    return made > written;
  });
}

/** The files among `names` that git says it does not track; none if git cannot be asked. */
export async function untrackedFiles(folder: string, names: readonly string[]): Promise<readonly string[]> {
  const repository = findRepository(folder);
  if (repository === null) return names;
  const { below } = repository;
  const paths = names.map((name) => `${below}${name}`);
  const listed = await readGit(repository, ["ls-files", "-z", "--", ...paths]);
  if (listed === null) return [];
  const tracked = new Set(listed.split("\0"));
  return names.filter((name) => !tracked.has(`${below}${name}`));
}

/** After a merge git keeps the lines of both sides of a rendered file; the next sync renders it again. */
const GIT_ATTRIBUTES = `# Written by Holdfast. Rendered files are made again from events/ after a merge.
/STATE.md merge=union
/agent_state.json merge=union
/task_board.json merge=union
/decisions/*.md merge=union
/blockers/*.md merge=union
/sessions/*.md merge=union
/events/*.jsonl -text merge=binary
`;

export async function writeGitAttributes(folder: string): Promise<void> {
  const path = join(folder, ".gitattributes");
  if (signatureAt(path) === null) await writeFileWhole(path, GIT_ATTRIBUTES);
}
