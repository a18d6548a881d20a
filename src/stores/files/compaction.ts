/**
 * Compaction: the journal is rewritten without removed streams, earlier states of leases and collected
 * artifacts.
 *
 *     old one verified ─▶ new one written beside it ─▶ synced ─▶ read back and counted
 *                      ─▶ renamed over the old one ─▶ folder synced ─▶ marked
 *
 * All of it happens under the lock. A crash before the rename leaves a file that the next opener deletes. A
 * crash after it leaves one of two whole journals with the same content, and a mark for the old one, which
 * counts as none. Other processes see that the file at the journal's path is another one with the next
 * number, and read it.
 *
 * Every line here is a write of its own (`from` = `n`): if one is damaged, a later one proves that it was
 * synced.
 */

import { closeSync, fsyncSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { HoldfastError } from "../../model/errors.ts";
import { statOf, syncFolder, timelineOf } from "../kit/index.ts";
import type { Space, Stream } from "../memory/index.ts";
import { sweepArtifacts, sweepSnapshots } from "./blobs.ts";
import { corrupt, isFull, overwriteFileWithZeros, overwriteWithZeros, TEMPORARY, writeAll } from "./disk.ts";
import { encodeLine, firstLine, type JournaledWrite, JournalFile } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";
import type { JournalRecord, State } from "./state.ts";

interface Compacted {
  readonly journal: JournalFile;
  readonly state: State;
}

/** Called under the lock, settled, with nothing to write. False, with nothing changed, without room. */
export function compactIfRoom(folder: OpenFolder): boolean {
  try {
    compact(folder);
    return true;
  } catch (error) {
    if (!(error instanceof NoRoom)) throw error;
    return false;
  }
}

/** The same, but throws STORE_FULL without room. */
export function compact(folder: OpenFolder): void {
  replaceWith(folder, writeCompacted(folder), false);
}

/** The bytes of all files in the folder. */
export function sizeOf({ paths }: OpenFolder): number {
  const entries = readdirSync(paths.folder, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + (statOf(join(parentPath, name))?.size ?? 0), 0);
}

/** The same for bytes that must not stay on the disk: the old journal is overwritten before it goes. */
export function compactAndErase(folder: OpenFolder): void {
  replaceWith(folder, writeCompacted(folder), true);
}

/** Not thrown for a disk that fills up later, when the new journal already has the old one's name. */
class NoRoom extends HoldfastError {
  constructor(path: string, cause: unknown) {
    super("STORE_FULL", `${path}: there is no room to compact the journal`, {
      hint: "Free some space on this disk. The store continues with the journal that it has.",
      cause,
      data: { path },
    });
  }
}

function writeCompacted(folder: OpenFolder): Compacted {
  const temporary = `${folder.journal.path}${TEMPORARY}`;
  try {
    verify(folder.journal);
    writeJournal(folder, temporary);
    return readBack(folder, temporary);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw isFull(error) ? new NoRoom(folder.journal.path, error) : error;
  }
}

/** Finds damage that came since the old journal was read: a new checksum would hide it for ever. */
function verify({ path, end, lines }: JournalFile): void {
  const again = JournalFile.open(path, true);
  try {
    let count = 1;
    for (const { n } of again.read(end)) count = n;
    if (count !== lines) throw corrupt(path, count, `it has ${count} lines, but ${lines} were read`);
  } finally {
    again.close();
  }
}

function replaceWith(folder: OpenFolder, next: Compacted, erase: boolean): void {
  const { journal: old } = folder;
  renameSync(`${old.path}${TEMPORARY}`, old.path);
  next.journal.movedTo(old.path);
  syncFolder(folder.paths.folder);
  if (erase) overwriteWithZeros(old.descriptor, old.size);
  folder.adopt(next.journal, next.state);
  folder.setMark();
  sweepArtifacts(folder);
  sweepSnapshots(folder);
  // A crash left it: under the lock no process is writing one.
  const { unnamed } = folder.paths;
  if (erase && statOf(unnamed)) overwriteFileWithZeros(unnamed);
  rmSync(unnamed, { force: true });
}

const BUFFER_BYTES = 1024 * 1024;

class LineWriter {
  readonly #descriptor: number;
  #buffered: Buffer[] = [];
  #bytes = 0;
  #end = 0;
  #lines = 0;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  raw(line: Buffer): void {
    this.#buffered.push(line);
    this.#bytes += line.length;
    this.#lines += 1;
    if (this.#bytes >= BUFFER_BYTES) this.flush();
  }

  add(record: JournalRecord, segments: readonly Buffer[] = []): void {
    const n = this.#lines + 1;
    this.raw(encodeLine(n, n, record, segments).bytes);
  }

  flush(): void {
    writeAll(this.#descriptor, Buffer.concat(this.#buffered), this.#end);
    this.#end += this.#bytes;
    this.#buffered = [];
    this.#bytes = 0;
  }
}

function writeJournal(folder: OpenFolder, path: string): void {
  const { journal, state, options } = folder;
  const descriptor = openSync(path, "w", 0o600);
  try {
    const writer = new LineWriter(descriptor);
    writer.raw(firstLine(journal.store, journal.number + 1));
    if (state.data.seal) writer.add({ do: "seal", seal: state.data.seal });
    if (state.data.epoch) writer.add({ do: "epoch", epoch: state.data.epoch });
    for (const [namespace, space] of state.data.spaces) {
      for (const record of recordsOf(namespace, space, state, timelineOf(options.clock))) writer.add(record);
      for (const stream of space.streams.values()) writeStream(writer, namespace, stream);
    }
    writer.flush();
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

const KEYS_PER_LINE = 500;

function* recordsOf(namespace: string, space: Space, state: State, boot: string): Generator<JournalRecord> {
  for (const [name, { token, holder, ttlMs, deadline }] of space.leases) {
    const slot = state.slot(namespace, name);
    yield { do: "lease", namespace, name, token, holder, ttlMs, deadline, boot, slot };
  }
  for (const [hash, { putAt }] of space.artifacts) yield { do: "artifact", namespace, hash, at: putAt };
  const keys = [...space.keys].map(([key, { stream, seq }]) => [key, stream, seq] as const);
  for (let from = 0; from < keys.length; from += KEYS_PER_LINE) {
    yield { do: "keys", namespace, keys: keys.slice(from, from + KEYS_PER_LINE) };
  }
}

function writeStream(writer: LineWriter, namespace: string, stream: Stream): void {
  const { name, state, head, base, parent, createdAt, updatedAt, facets } = stream;
  const row = { state, head, base, parent, createdAt, updatedAt, facets };
  const [items, artifacts] = [[...stream.items.values()], [...stream.artifacts]];
  writer.add({ do: "stream", namespace, stream: name, ...row, items, artifacts });
  for (const write of stream.writes as JournaledWrite[]) {
    const { segment, form } = write;
    const record = { do: "write", namespace, stream: name, ...write, bytes: segment.length } as const;
    writer.add(form === "json" ? record : { ...record, form }, [segment]);
  }
}

/** A journal that cannot be read, or differs, must not take the old one's place. */
function readBack(folder: OpenFolder, path: string): Compacted {
  const journal = JournalFile.open(path, false);
  try {
    const state = folder.load(journal, journal.size);
    const [before, after] = [inventory(folder.state), inventory(state)];
    if (before !== after) throw new Error(`the compacted journal has ${after}, the old one ${before}`);
    return { journal, state };
  } catch (error) {
    journal.close();
    throw error;
  }
}

function inventory({ data }: State): string {
  const counts = { streams: 0, writes: 0, events: 0, items: 0, keys: 0, leases: 0, tokens: 0, artifacts: 0 };
  for (const { streams, keys, leases, artifacts } of data.spaces.values()) {
    for (const { head, writes, items } of streams.values()) {
      counts.streams += head.generation;
      counts.events += head.seq;
      counts.writes += writes.length;
      counts.items += items.size;
    }
    counts.keys += keys.size;
    counts.leases += leases.size;
    counts.artifacts += artifacts.size;
    for (const { token } of leases.values()) counts.tokens += token;
  }
  return JSON.stringify(counts);
}
