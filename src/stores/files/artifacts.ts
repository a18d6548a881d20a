/**
 * Artifacts: one file for each content, in a folder for each namespace. That one is there is a line of the journal;
 * the file comes first, durably, and goes last. A file that no line speaks of is cleared away when the journal is
 * rewritten.
 *
 * Names are hashes, so nothing that a caller says becomes a path.
 */

import { readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError } from "../../model/errors.ts";
import { statOf, systemCode } from "../kit/index.ts";
import { holdsBytes, makeFolder, replaceFile } from "./disk.ts";
import type { OpenedFolder } from "./opened-folder.ts";

const HASH = /^[0-9a-f]{64}$/;

function folderOf(folder: OpenedFolder, namespace: string): string {
  return join(folder.paths.artifacts, sha256(namespace).slice(0, 32));
}

/** The content's own hash, so that `sha256sum` can check it. What does not look like one is hashed. */
function fileOf(folder: OpenedFolder, namespace: string, hash: string): string {
  return join(folderOf(folder, namespace), HASH.test(hash) ? hash : `other-${sha256(hash)}`);
}

/** Whether the file is there, with these bytes: one that was damaged is written anew. */
export function hasArtifactFile(
  folder: OpenedFolder,
  namespace: string,
  hash: string,
  bytes: Uint8Array,
): boolean {
  return holdsBytes(fileOf(folder, namespace, hash), bytes);
}

/** Returns the folder that is to be synced. */
export function keepArtifact(
  folder: OpenedFolder,
  namespace: string,
  hash: string,
  bytes: Uint8Array,
): string {
  const home = folderOf(folder, namespace);
  makeFolder(home);
  replaceFile(fileOf(folder, namespace, hash), bytes, folder.paths.unnamed);
  return home;
}

export function readArtifact(folder: OpenedFolder, namespace: string, hash: string): Uint8Array {
  const path = fileOf(folder, namespace, hash);
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

export function dropArtifact(folder: OpenedFolder, namespace: string, hash: string): void {
  rmSync(fileOf(folder, namespace, hash), { force: true });
}

/** Files that no line speaks of: what crashes have left. Under the lock nobody is just writing one. */
export function sweepArtifacts(folder: OpenedFolder): void {
  const { spaces } = folder.state.data;
  const wanted = new Set<string>();
  for (const [namespace, { artifacts }] of spaces) {
    for (const hash of artifacts.keys()) wanted.add(fileOf(folder, namespace, hash));
  }
  for (const path of filesBelow(folder.paths.artifacts)) if (!wanted.has(path)) rmSync(path, { force: true });
}

/** Files two levels down: every file beside the journal lies in a folder of a folder. What else lies there is not ours. */
export function filesBelow(home: string): string[] {
  if (!statOf(home)) return [];
  const folders = readdirSync(home, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.flatMap(({ name }) => readdirSync(join(home, name)).map((file) => join(home, name, file)));
}
