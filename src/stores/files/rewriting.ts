/**
 * Rewriting the journal without what nobody needs: removed streams, earlier states of leases, collected artifacts. The
 * folder does not grow for ever, and opening reads what there is rather than what there ever was.
 *
 *     old one verified ──▶ written beside it ──▶ synced ──▶ read back and counted ──▶ renamed over it ──▶ folder synced ──▶ marked
 *
 * All of it under the lock. A crash before the rename leaves a file that the next opener throws away; after it, one of
 * two whole journals that say the same, and a mark for the old one, which counts as none. Other processes see that the
 * file at the journal's path is another one with the next number, and read that.
 *
 * Every line here is a write of its own (`from` = `n`): whatever damage one of them gets, a later one proves that it
 * was synced once.
 */

import { closeSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs";
import { HoldfastError } from "../../model/errors.ts";
import { statOf, syncFolder, timelineOf } from "../kit/index.ts";
import { sweepArtifacts } from "./artifacts.ts";
import { blacken, blackenFile, TEMPORARY, writeAll } from "./disk.ts";
import { corrupt, isFull } from "./failures.ts";
import type { Space, Stream } from "./foundations.ts";
import { firstLine, JournalFile, type KeptWrite } from "./journal-file.ts";
import { encodeLine } from "./line.ts";
import type { OpenedFolder } from "./opened-folder.ts";
import { sweepSnapshots } from "./snapshots.ts";
import type { Act, State } from "./state.ts";

interface Rewritten {
  readonly journal: JournalFile;
  readonly state: State;
}

/** Under the lock, settled, with nothing else to write. False, and nothing changed, when the disk has no room for it. */
export function rewriteIfRoom(folder: OpenedFolder): boolean {
  try {
    replaceWith(folder, write(folder), false);
    return true;
  } catch (error) {
    if (!(error instanceof NoRoom)) throw error;
    return false;
  }
}

/** The same for what must not stay on the disk: the old journal is overwritten before it goes. */
export function rewriteAndErase(folder: OpenedFolder): void {
  replaceWith(folder, write(folder), true);
}

/** Told apart from a disk that fills up later, when the new journal already has the old one's name. */
class NoRoom extends HoldfastError {
  constructor(path: string, cause: unknown) {
    super("STORE_FULL", `${path}: there is no room to rewrite the journal`, {
      hint: "Free some space on this disk. The store goes on with the journal that it has.",
      cause,
      data: { path },
    });
  }
}

function write(folder: OpenedFolder): Rewritten {
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

/** Damage that came since the old journal was read must be found now: a new checksum would hide it for ever. */
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

function replaceWith(folder: OpenedFolder, next: Rewritten, erase: boolean): void {
  const { journal: old } = folder;
  renameSync(`${old.path}${TEMPORARY}`, old.path);
  next.journal.movedTo(old.path);
  syncFolder(folder.paths.folder);
  if (erase) blacken(old.descriptor, old.size);
  folder.adopt(next.journal, next.state);
  folder.setMark();
  sweepArtifacts(folder);
  sweepSnapshots(folder);
  dropUnnamed(folder, erase);
}

/** Somebody died over it: under the lock nobody is just writing one. */
function dropUnnamed({ paths }: OpenedFolder, erase: boolean): void {
  if (erase && statOf(paths.unnamed)) blackenFile(paths.unnamed);
  rmSync(paths.unnamed, { force: true });
}

const BUFFER_BYTES = 1024 * 1024;

/** Collects lines and writes them in large pieces. */
class LineWriter {
  readonly #descriptor: number;
  #waiting: Buffer[] = [];
  #bytes = 0;
  #end = 0;
  #lines = 0;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  raw(line: Buffer): void {
    this.#waiting.push(line);
    this.#bytes += line.length;
    this.#lines += 1;
    if (this.#bytes >= BUFFER_BYTES) this.flush();
  }

  add(act: Act, segments: readonly Buffer[] = []): void {
    const n = this.#lines + 1;
    this.raw(encodeLine(n, n, act, segments).bytes);
  }

  flush(): void {
    writeAll(this.#descriptor, Buffer.concat(this.#waiting), this.#end);
    this.#end += this.#bytes;
    this.#waiting = [];
    this.#bytes = 0;
  }
}

function writeJournal(folder: OpenedFolder, path: string): void {
  const { journal, state, place } = folder;
  const descriptor = openSync(path, "w", 0o600);
  try {
    const writer = new LineWriter(descriptor);
    writer.raw(firstLine(journal.store, journal.number + 1));
    if (state.data.seal) writer.add({ do: "seal", seal: state.data.seal });
    for (const [namespace, space] of state.data.spaces) {
      for (const act of actsOf(namespace, space, state, timelineOf(place.clock))) writer.add(act);
      for (const stream of space.streams.values()) writeStream(writer, namespace, stream);
    }
    writer.flush();
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

const KEYS_PER_LINE = 500;

function* actsOf(namespace: string, space: Space, state: State, boot: string): Generator<Act> {
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
  writer.add({
    do: "stream",
    namespace,
    stream: name,
    state,
    head,
    base,
    parent,
    createdAt,
    updatedAt,
    facets,
    items: [...stream.items.values()],
    artifacts: [...stream.artifacts],
  });
  for (const write of stream.writes as KeptWrite[]) {
    const { segment, form } = write;
    const what = { do: "write", namespace, stream: name, ...write, bytes: segment.length } as const;
    writer.add(form === "json" ? what : { ...what, form }, [segment]);
  }
}

/** What cannot be read, or says anything else, must not take the old journal's place. */
function readBack(folder: OpenedFolder, path: string): Rewritten {
  const journal = JournalFile.open(path, false);
  try {
    const state = folder.load(journal, journal.size);
    const [before, after] = [inventory(folder.state), inventory(state)];
    if (before !== after) throw new Error(`the rewritten journal has ${after}, the old one ${before}`);
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
