/**
 * Artifacts and snapshots: files beside the journal. All names are hashes, so no caller's text becomes a
 * path.
 *
 *     artifacts/<hash of namespace>/<hash of the content>
 *     snapshots/<hash of namespace and stream>/<generation>-<seq>-<hash of the fold's name>.json
 *
 * An artifact exists once the journal has a line for it. Its file comes first, durably, and goes last;
 * compaction deletes files without a line.
 *
 * A snapshot is a cached fold, never truth: one line like those of the journal, with its checksum. A damaged
 * one is skipped for an older one or none. The folder itself is the index.
 */

import { readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import type { Blob, GetRequest, Head, Payload, PutRequest, SnapshotRow } from "../../store.ts";
import { statOf, syncFolder, systemCode } from "../kit/index.ts";
import { streamOf } from "../memory/index.ts";
import type { Flush } from "./append.ts";
import { holdsBytes, makeFolder, overwriteFileWithZeros, replaceFile, TEMPORARY } from "./disk.ts";
import { encodeLine, type Form, fromSegment, parseLine, toSegment } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";

const HASH = /^[0-9a-f]{64}$/;

function artifactFolder(folder: OpenFolder, namespace: string): string {
  return join(folder.paths.artifacts, sha256(namespace).slice(0, 32));
}

/** Named by the content's hash, so that `sha256sum` can check it. Any other name is hashed. */
function artifactFile(folder: OpenFolder, namespace: string, hash: string): string {
  return join(artifactFolder(folder, namespace), HASH.test(hash) ? hash : `other-${sha256(hash)}`);
}

/** The file of every artifact that the journal names, as a path below the folder. */
export function* artifactPaths(folder: OpenFolder): Generator<string> {
  for (const [namespace, { artifacts }] of folder.state.data.spaces) {
    for (const hash of artifacts.keys()) {
      yield relative(folder.paths.folder, artifactFile(folder, namespace, hash));
    }
  }
}

type ArtifactRequest = Extract<PutRequest, { of: "artifact" }>;

/** Whether the file exists with these bytes: a damaged one is written anew. */
export function hasArtifactFile(folder: OpenFolder, { namespace, hash, bytes }: ArtifactRequest): boolean {
  return holdsBytes(artifactFile(folder, namespace, hash), bytes);
}

/**
 * Returns the folders that have to be synced. An earlier process may have made those above and ended before
 * their names were durable, so the first write of a handle includes them.
 */
export function writeArtifact(folder: OpenFolder, { namespace, hash, bytes }: ArtifactRequest): string[] {
  const { paths, synced } = folder;
  const home = artifactFolder(folder, namespace);
  makeFolder(home);
  replaceFile(artifactFile(folder, namespace, hash), bytes, paths.unnamed);
  return synced.has(home) ? [home] : [home, paths.artifacts, paths.folder];
}

export function readArtifact(folder: OpenFolder, namespace: string, hash: string): Uint8Array {
  const path = artifactFile(folder, namespace, hash);
  try {
    return new Uint8Array(readFileSync(path));
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
    throw new HoldfastError("ARTIFACT_CORRUPT", `${path}: the file of this artifact is gone`, {
      hint: "Restore the file from a backup, or put the artifact again.",
      data: { path, hash },
    });
  }
}

export function dropArtifact(folder: OpenFolder, namespace: string, hash: string, erase: boolean): void {
  const path = artifactFile(folder, namespace, hash);
  if (erase && statOf(path)) overwriteFileWithZeros(path);
  rmSync(path, { force: true });
}

/** Deletes files without a line, which crashes have left. Under the lock no process is writing one. */
export function sweepArtifacts(folder: OpenFolder): void {
  const wanted = new Set<string>();
  for (const [namespace, { artifacts }] of folder.state.data.spaces) {
    for (const hash of artifacts.keys()) wanted.add(artifactFile(folder, namespace, hash));
  }
  for (const path of filesBelow(folder.paths.artifacts)) if (!wanted.has(path)) rmSync(path, { force: true });
}

/** Files two levels down. Anything else in the folder is not ours. */
function filesBelow(home: string): string[] {
  if (!statOf(home)) return [];
  const folders = readdirSync(home, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.flatMap(({ name }) => readdirSync(join(home, name)).map((file) => join(home, name, file)));
}

type SnapshotRequest = Extract<PutRequest, { of: "snapshot" }>;

interface SnapshotRecord extends Omit<SnapshotRequest, "of" | "payload"> {
  readonly do: "snapshot";
  readonly form: Form;
  readonly bytes: number;
}

function snapshotFolder(folder: OpenFolder, namespace: string, stream: string): string {
  return join(folder.paths.snapshots, sha256(JSON.stringify([namespace, stream])).slice(0, 40));
}

const foldHash = (fold: string): string => sha256(fold).slice(0, 32);

const SNAPSHOT_NAME = /^(\d+)-(\d+)-([0-9a-f]{32})\.json$/;

/** Ignored if the stream is not live, or has moved on to another life. */
export function putSnapshot(flush: Flush, request: SnapshotRequest): void {
  const { namespace, stream, generation, seq, fold, codec, payload } = request;
  const { folder } = flush;
  const { state, head } = streamOf(folder.state.space(namespace), stream);
  if (state !== "live" || head.generation !== generation) return;
  const { form, segment } = toSegment(payload);
  const bytes = segment.length;
  const snapshot = { do: "snapshot", namespace, stream, generation, seq, fold, codec, form, bytes } as const;
  const line = encodeLine(1, 1, snapshot satisfies SnapshotRecord, [segment]);
  const home = snapshotFolder(folder, namespace, stream);
  makeFolder(home);
  const file = join(home, `${generation}-${seq}-${foldHash(fold)}.json`);
  replaceFile(file, line.bytes, folder.paths.unnamed);
  flush.foldersToSync.add(home);
}

export function getSnapshot(
  folder: OpenFolder,
  request: Extract<GetRequest, { of: "snapshot" }>,
): Blob | null {
  const { namespace, stream, fold, upTo } = request;
  const wanted = foldHash(fold);
  const usable = snapshotFiles(folder, namespace, stream)
    .filter((file) => file.foldHash === wanted && file.seq <= upTo)
    .sort((a, b) => b.seq - a.seq);
  for (const { path } of usable) {
    const found = readSnapshot(path);
    if (found?.record.fold === fold) {
      const { codec, seq, generation } = found.record;
      return { payload: found.payload, codec, seq, generation };
    }
  }
  return null;
}

export function listSnapshots(folder: OpenFolder, namespace: string, stream: string): SnapshotRow[] {
  const rows = snapshotFiles(folder, namespace, stream).flatMap(({ path }) => {
    const found = readSnapshot(path);
    if (!found) return [];
    return [{ seq: found.record.seq, fold: found.record.fold, bytes: Buffer.byteLength(found.payload) }];
  });
  return rows.sort((a, b) => a.seq - b.seq || (a.fold < b.fold ? -1 : 1));
}

function snapshotFiles(folder: OpenFolder, namespace: string, stream: string) {
  const { state, head } = streamOf(folder.state.space(namespace), stream);
  if (state !== "live") return [];
  const home = snapshotFolder(folder, namespace, stream);
  return namesIn(home).flatMap((name) => {
    const [, , seq, hash = ""] = SNAPSHOT_NAME.exec(name) ?? [];
    return isUpTo(head, name) ? [{ path: join(home, name), seq: Number(seq), foldHash: hash }] : [];
  });
}

/** False for events that the journal does not have: a backup was put back over a later folder. */
function isUpTo(head: Head, name: string): boolean {
  const [, generation, seq] = SNAPSHOT_NAME.exec(name) ?? [];
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

function readSnapshot(path: string): { record: SnapshotRecord; payload: Payload } | null {
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
  const record = line.act as SnapshotRecord;
  const segment = bytes.subarray(line.eventsAt, line.eventsAt + record.bytes);
  return { record, payload: fromSegment(segment, record.form) };
}

/** Returns how many there were. `erase` overwrites their bytes first. */
export function deleteSnapshots(
  folder: OpenFolder,
  namespace: string,
  stream: string,
  erase = false,
): number {
  const home = snapshotFolder(folder, namespace, stream);
  const names = namesIn(home);
  if (names.length === 0) return 0;
  for (const name of names) {
    if (erase) overwriteFileWithZeros(join(home, name));
    rmSync(join(home, name), { force: true });
  }
  rmdirSync(home);
  syncFolder(folder.paths.snapshots);
  return names.filter((name) => SNAPSHOT_NAME.test(name)).length;
}

/**
 * Deletes files that crashes have left: of removed streams, of earlier lives, half-written ones. Also files
 * of events that the journal does not have: once the stream has grown that far again, they would be wrong.
 */
export function sweepSnapshots(folder: OpenFolder): void {
  const files = filesBelow(folder.paths.snapshots);
  // Most folders have none. Then no name has to be hashed.
  if (files.length === 0) return;
  const heads = new Map<string, Head>();
  for (const [namespace, { streams }] of folder.state.data.spaces) {
    for (const { name, state, head } of streams.values()) {
      if (state === "live") heads.set(snapshotFolder(folder, namespace, name), head);
    }
  }
  for (const path of files) {
    const head = heads.get(dirname(path));
    if (!head || !isUpTo(head, basename(path))) rmSync(path, { force: true });
  }
}

/** For `check`: every file that has changed since it was written. */
export function damagedSnapshots(folder: OpenFolder): string[] {
  return filesBelow(folder.paths.snapshots).filter(
    (path) => !path.endsWith(TEMPORARY) && statOf(path) && !readSnapshot(path),
  );
}
