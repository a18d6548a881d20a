/**
 * Snapshots: cached folds, never truth, one file each, in a folder for each stream. The folder itself is the index:
 *
 *     snapshots/<hash of namespace and stream>/<generation>-<seq>-<hash of the fold's name>.json
 *
 * A file holds one line as the journal's lines are, with its checksum, so that `check` can tell a damaged one. Whoever
 * asks for a damaged one gets an older one or none, as if it had never been taken: a fold can always be made again.
 * Names are hashes, so nothing that a caller says becomes a path.
 */

import { readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { sha256 } from "../../model/digest.ts";
import type { Blob, GetRequest, Head, Payload, PutRequest, SnapshotRow } from "../../store.ts";
import { statOf, syncFolder, systemCode } from "../kit/index.ts";
import type { Turn } from "./append.ts";
import { filesBelow } from "./artifacts.ts";
import { blackenFile, makeFolder, replaceFile, TEMPORARY } from "./disk.ts";
import { streamOf } from "./foundations.ts";
import { encodeLine, type Form, fromSegment, parseLine, toSegment } from "./line.ts";
import type { OpenedFolder } from "./opened-folder.ts";

interface SnapshotAct {
  readonly do: "snapshot";
  readonly namespace: string;
  readonly stream: string;
  readonly generation: number;
  readonly seq: number;
  readonly fold: string;
  readonly codec: string | null;
  readonly form: Form;
  readonly bytes: number;
}

function homeOf(folder: OpenedFolder, namespace: string, stream: string): string {
  return join(folder.paths.snapshots, sha256(JSON.stringify([namespace, stream])).slice(0, 40));
}

function fileName(generation: number, seq: number, fold: string): string {
  return `${generation}-${seq}-${sha256(fold).slice(0, 32)}.json`;
}

const FILE_NAME = /^(\d+)-(\d+)-([0-9a-f]{32})\.json$/;

/** A stream that is removed, also if forks keep it, or has moved on to another life, needs none of its last. */
export function putSnapshot(turn: Turn, request: Extract<PutRequest, { of: "snapshot" }>): void {
  const { namespace, stream, generation, seq, fold, codec, payload } = request;
  const { folder } = turn;
  const { state, head } = streamOf(folder.state.space(namespace), stream);
  if (state !== "live" || head.generation !== generation) return;
  const { form, segment } = toSegment(payload);
  const bytes = segment.length;
  const act: SnapshotAct = { do: "snapshot", namespace, stream, generation, seq, fold, codec, form, bytes };
  const line = encodeLine(1, 1, act, [segment]);
  const home = homeOf(folder, namespace, stream);
  makeFolder(home);
  replaceFile(join(home, fileName(generation, seq, fold)), line.bytes, folder.paths.unnamed);
  turn.folders.add(home);
}

export function getSnapshot(
  folder: OpenedFolder,
  request: Extract<GetRequest, { of: "snapshot" }>,
): Blob | null {
  const { namespace, stream, fold, upTo } = request;
  const wanted = sha256(fold).slice(0, 32);
  const usable = filesOf(folder, namespace, stream)
    .filter((file) => file.fold === wanted && file.seq <= upTo)
    .sort((a, b) => b.seq - a.seq);
  for (const { path } of usable) {
    const found = readSnapshot(path);
    if (found?.act.fold === fold) {
      const { codec, seq, generation } = found.act;
      return { payload: found.payload, codec, seq, generation };
    }
  }
  return null;
}

export function listSnapshots(folder: OpenedFolder, namespace: string, stream: string): SnapshotRow[] {
  const rows = filesOf(folder, namespace, stream).flatMap(({ path }) => {
    const found = readSnapshot(path);
    if (!found) return [];
    return [{ seq: found.act.seq, fold: found.act.fold, bytes: Buffer.byteLength(found.payload) }];
  });
  return rows.sort((a, b) => a.seq - b.seq || (a.fold < b.fold ? -1 : 1));
}

interface SnapshotFile {
  readonly path: string;
  readonly seq: number;
  readonly fold: string;
}

/** Those of the stream's present life, as far as that has come. */
function filesOf(folder: OpenedFolder, namespace: string, stream: string): SnapshotFile[] {
  const { state, head } = streamOf(folder.state.space(namespace), stream);
  if (state !== "live") return [];
  const home = homeOf(folder, namespace, stream);
  return namesIn(home).flatMap((name) => {
    const [, , seq, fold = ""] = FILE_NAME.exec(name) ?? [];
    return isOf(head, name) ? [{ path: join(home, name), seq: Number(seq), fold }] : [];
  });
}

/** Where a backup was put back over the folder, there are also files of events that the journal does not have. */
function isOf(head: Head, name: string): boolean {
  const [, generation, seq] = FILE_NAME.exec(name) ?? [];
  return Number(generation) === head.generation && Number(seq) <= head.seq;
}

function namesIn(home: string): string[] {
  try {
    return readdirSync(home);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

function readSnapshot(path: string): { act: SnapshotAct; payload: Payload } | null {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch (error) {
    // Another process may have removed it just now.
    if (systemCode(error) === "ENOENT") return null;
    throw error;
  }
  const line = bytes.at(-1) === 10 ? parseLine(bytes.subarray(0, -1)) : null;
  if (!line) return null;
  const act = line.act as SnapshotAct;
  const segment = bytes.subarray(line.eventsAt, line.eventsAt + act.bytes);
  return { act, payload: fromSegment(segment, act.form) };
}

/** Returns how many there were. `erase`: what they held is overwritten first. */
export function dropSnapshots(
  folder: OpenedFolder,
  namespace: string,
  stream: string,
  erase = false,
): number {
  const home = homeOf(folder, namespace, stream);
  const names = namesIn(home);
  if (names.length === 0) return 0;
  for (const name of names) {
    if (erase) blackenFile(join(home, name));
    rmSync(join(home, name), { force: true });
  }
  rmdirSync(home);
  syncFolder(folder.paths.snapshots);
  return names.filter((name) => FILE_NAME.test(name)).length;
}

/**
 * Files of streams that are removed, of earlier lives, and half-written ones: what crashes have left. And of events that the
 * journal does not have: the stream may grow as long again, so they go before anything is appended.
 */
export function sweepSnapshots(folder: OpenedFolder): void {
  for (const path of strayFiles(folder)) rmSync(path, { force: true });
}

function strayFiles(folder: OpenedFolder): string[] {
  const files = filesBelow(folder.paths.snapshots);
  // Most folders have none; then no name need be hashed.
  if (files.length === 0) return files;
  const heads = new Map<string, Head>();
  for (const [namespace, { streams }] of folder.state.data.spaces) {
    for (const { name, state, head } of streams.values()) {
      if (state === "live") heads.set(homeOf(folder, namespace, name), head);
    }
  }
  return files.filter((path) => {
    const head = heads.get(dirname(path));
    return !head || !isOf(head, basename(path));
  });
}

/** For `check`: every file that is not what it was when it was written. */
export function damagedSnapshots(folder: OpenedFolder): string[] {
  return filesBelow(folder.paths.snapshots).filter(
    (path) => !path.endsWith(TEMPORARY) && statOf(path) && !readSnapshot(path),
  );
}
