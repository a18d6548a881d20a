/**
 * Refuses a `.holdfast/` that another user may have written. A store decides which calls have happened and
 * what a person has said, so its writers speak for both.
 *
 *     its owner is this user or root              used
 *     its owner is another user                   refused, as git refuses such a repository
 *     everybody may write it                      refused
 *     git tracks it                               refused: a commit of anybody brings or changes it
 *     its `hooks` is a link                       refused: hooks would write to wherever it leads
 *
 * Root in a container is an exception: bind mounts and CI checkouts belong to a user outside of it. There
 * the owner of the working folder is believed. HOLDFAST_TRUST lists further folders; a setting in the
 * repository could not be believed. A store that the user names by its address is not checked here.
 */

import type { Stats } from "node:fs";
import {
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readFileSync,
  readSync,
  statfsSync,
  statSync,
} from "node:fs";
import { delimiter, dirname, join, relative, resolve, sep } from "node:path";
import { HoldfastError } from "./model/errors.ts";
import { shellWord } from "./model/names.ts";
import type { ProjectPlace } from "./project-place.ts";

export interface Process {
  /** Undefined on Windows, whose files have no such owner. */
  readonly uid: number | undefined;
  readonly env: NodeJS.ProcessEnv;
  readonly isInContainer: () => boolean;
}

const thisProcess = (): Process => ({ uid: process.geteuid?.(), env: process.env, isInContainer });

/** `from`: the folder in which the command was started. */
export function refuseUntrusted(place: ProjectPlace, from: string, running: Process = thisProcess()): void {
  refuse(place.home, place.index, from, running);
}

/** The same for the path of a store that a configuration file of the repository names. */
export function refuseUntrustedStore(place: ProjectPlace, store: string, from: string): void {
  const { index, root } = place;
  const path = relative(root, store);
  const isBelow = path !== "" && !path.startsWith("..");
  refuse(
    resolve(store),
    index && isBelow ? { ...index, file: index.ofRoot, path } : null,
    from,
    thisProcess(),
  );
}

function refuse(home: string, index: ProjectPlace["index"], from: string, running: Process): void {
  if (!lstatSync(home, { throwIfNoEntry: false })) return;
  if (index && isTracked(index)) throw committed(home, index.path);
  const hooks = join(home, "hooks");
  if (isLink(hooks)) throw linked(hooks);
  const { uid, env } = running;
  if (uid === undefined || isNamed(home, env["HOLDFAST_TRUST"])) return;
  for (const path of [home, ...FILES.map((name) => join(home, name))]) {
    const stats = statIfAllowed(path);
    if (!stats) continue;
    const isKnown = stats.uid === uid || stats.uid === 0;
    if (!isKnown && !isOutsideUser(stats.uid, from, running)) throw ofAnother(home, path, stats.uid, uid);
    if ((stats.mode & 0o002) !== 0 && hasModes(path)) throw writableByAll(home, path);
  }
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  } catch (error) {
    // `home` may be a file that a configuration names as the store, or unreadable: opening it says so.
    if (["EACCES", "EPERM", "ENOTDIR", "ELOOP"].includes((error as NodeJS.ErrnoException).code ?? ""))
      return false;
    throw error;
  }
}

function statIfAllowed(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // Opening the store says better what cannot be read.
    if (["EACCES", "EPERM", "ENOTDIR", "ELOOP"].includes((error as NodeJS.ErrnoException).code ?? ""))
      return undefined;
    throw error;
  }
}

const FILES = ["store.db", "store.db-wal", "journal.jsonl", "wiring.json", "hooks"];

function isNamed(home: string, list: string | undefined): boolean {
  const folders = (list ?? "").split(delimiter).filter((each) => each !== "");
  return folders.some((each) => each === "*" || `${home}${sep}`.startsWith(`${resolve(each)}${sep}`));
}

/** For root in a container: whether the file belongs to the user whose folder it works in. */
function isOutsideUser(owner: number, from: string, { uid, isInContainer }: Process): boolean {
  return uid === 0 && isInContainer() && statSync(from, { throwIfNoEntry: false })?.uid === owner;
}

function isInContainer(): boolean {
  const { container, KUBERNETES_SERVICE_HOST } = process.env;
  const marks = ["/.dockerenv", "/run/.containerenv"];
  return Boolean(container ?? KUBERNETES_SERVICE_HOST) || marks.some((each) => existsSync(each));
}

/** File systems that show the same mode for every file, such as disks of Windows: `statfs` types. */
const WITHOUT_MODES: ReadonlySet<number> = new Set([
  0x4d44, 0x2011bab0, 0x5346544e, 0x7366746e, 0x65735546, 0x01021997,
]);

function hasModes(path: string): boolean {
  return process.platform !== "linux" || !WITHOUT_MODES.has(statfsSync(path).type >>> 0);
}

/** Names in an index are sorted, so its start tells about `.holdfast` in most repositories. */
const FIRST_BYTES = 256 * 1024;

function isTracked({ file, config, path }: NonNullable<ProjectPlace["index"]>): boolean {
  try {
    const hashBytes = /^\s*objectformat\s*=\s*sha256/im.test(readFileSync(config, "utf8")) ? 32 : 20;
    const first = readStart(file, FIRST_BYTES);
    return indexHas(first, path, hashBytes) ?? indexHas(readFileSync(file), path, hashBytes) ?? false;
  } catch (error) {
    // A repository without a commit has no index. An unreadable index brought no file here.
    if (["ENOENT", "EACCES", "EPERM", "ENOTDIR"].includes((error as NodeJS.ErrnoException).code ?? ""))
      return false;
    throw error;
  }
}

function readStart(file: string, bytes: number): Buffer {
  const descriptor = openSync(file, "r");
  try {
    const start = Buffer.allocUnsafe(bytes);
    return start.subarray(0, readSync(descriptor, start, 0, bytes, 0));
  } finally {
    closeSync(descriptor);
  }
}

/**
 * Whether an index of git (formats 2 to 4) lists a path or anything below it; null if the bytes end before
 * that is known. Disks of macOS and Windows ignore case, so `.HOLDFAST` counts too.
 */
export function indexHas(bytes: Buffer, path: string, hashBytes = 20): boolean | null {
  if (bytes.length < 12) return null;
  if (bytes.toString("latin1", 0, 4) !== "DIRC") return false;
  const [version, count] = [bytes.readUInt32BE(4), bytes.readUInt32BE(8)];
  const wanted = path.split(sep).join("/");
  let at = 12;
  let name = "";
  for (let entry = 0; entry < count; entry++) {
    const start = at;
    const flags = start + 40 + hashBytes;
    if (flags + 4 > bytes.length) return null;
    const isExtended = version >= 3 && (bytes.readUInt16BE(flags) & 0x4000) !== 0;
    at = flags + (isExtended ? 4 : 2);
    let kept = 0;
    if (version === 4) {
      const cut = cutLength(bytes, at);
      kept = name.length - cut.length;
      at = cut.next;
    }
    const end = bytes.indexOf(0, at);
    if (end < 0) return null;
    name = name.slice(0, kept) + bytes.toString("latin1", at, end);
    if (`${name}/`.toLowerCase().startsWith(`${wanted}/`.toLowerCase())) return true;
    if (name > `${wanted}/\xff`) return false;
    // Formats 2 and 3 pad an entry with 1 to 8 zeros to a multiple of 8 bytes.
    at = version === 4 ? end + 1 : start + ((end - start + 8) & ~7);
  }
  return false;
}

/** Format 4 stores how many bytes of the previous name go, in groups of 7 bits, and then the new ones. */
function cutLength(bytes: Buffer, from: number): { length: number; next: number } {
  let next = from;
  let byte = bytes[next++] ?? 0;
  let length = byte & 0x7f;
  while ((byte & 0x80) !== 0) {
    byte = bytes[next++] ?? 0;
    length = ((length + 1) << 7) | (byte & 0x7f);
  }
  return { length, next };
}

function committed(home: string, path: string): HoldfastError {
  const how = `git rm -r --cached ${shellWord(path)}`;
  return new HoldfastError("STORE_UNTRUSTED", `${home}: git tracks it, so any commit could have written it`, {
    hint: `If you did not create it, delete that folder. If you did: ${how}, and commit. Nothing was opened.`,
    data: { path: home, reason: "tracked" },
  });
}

function linked(path: string): HoldfastError {
  return new HoldfastError("STORE_UNTRUSTED", `${path}: it is a link, and hooks write to this folder`, {
    hint: `Look at where it leads, then remove the link: rm ${shellWord(path)}. Nothing was opened.`,
    data: { path, reason: "link" },
  });
}

function ofAnother(home: string, path: string, owner: number, uid: number): HoldfastError {
  const trust = `HOLDFAST_TRUST=${shellWord(dirname(home))}`;
  return new HoldfastError(
    "STORE_UNTRUSTED",
    `${path}: it belongs to user ${owner}, and you are user ${uid}`,
    {
      hint: `Run as its owner, or work in a folder of your own. If you trust that user, set ${trust}`,
      data: { path, reason: "owner", owner },
    },
  );
}

function writableByAll(home: string, path: string): HoldfastError {
  return new HoldfastError("STORE_UNTRUSTED", `${path}: every user of this machine can write it`, {
    hint: `If you trust its content: chmod -R o-w ${shellWord(home)}. If not, delete that folder.`,
    data: { path, reason: "mode" },
  });
}
