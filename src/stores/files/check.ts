/**
 * Verifies everything that needs no knowledge of the events. Every line of the journal is read from the disk
 * again, with its checksum and its number.
 *
 *  - payloads and artifacts are unchanged (I2)
 *  - streams have no gaps, tokens only grow, no guarded write follows a newer grant (I7)
 *  - keys, items, references and forks point at something
 *
 * A large journal is read in pieces, with a turn of the event loop between them, so that heartbeats pass.
 */

import { setImmediate as nextTurn } from "node:timers/promises";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import type { Problem } from "../../store.ts";
import { firstProblems } from "../kit/index.ts";
import { check as checkStreams, type MemoryData, type Space, streamOf } from "../memory/index.ts";
import { damagedSnapshots, readArtifact } from "./blobs.ts";
import { JournalFile } from "./journal-file.ts";
import type { OpenFolder } from "./open-folder.ts";
import { type JournalRecord, State } from "./state.ts";

type Read = <Result>(act: (state: State, folder: OpenFolder) => Result) => Promise<Result>;

const LINES_PER_PIECE = 500;
/** A journal that is compacted while it is checked is checked again. */
const TRIES = 3;

export async function check(read: Read): Promise<readonly Problem[]> {
  for (let tries = 1; ; tries++) {
    const folder = await read((_, opened) => opened);
    const { journal } = folder;
    const problems = await firstProblems(allProblems(folder));
    if (tries >= TRIES || journal.isInPlace()) return problems;
  }
}

async function* allProblems(folder: OpenFolder): AsyncGenerator<Problem> {
  const state = new State(folder.options.clock, () => undefined);
  const { end } = folder.journal;
  const journal = JournalFile.open(folder.paths.journal, true);
  try {
    let count = 0;
    for (const line of journal.read(end)) {
      yield* zombieWrites(state, line.act as JournalRecord);
      state.apply(line, journal);
      count += 1;
      if (count % LINES_PER_PIECE === 0) await nextTurn();
    }
    yield* streamProblems(state.data);
    yield* pointerProblems(state.data);
    yield* artifactProblems(folder, state.data);
  } catch (error) {
    if (!isHoldfastError(error, "STORE_CORRUPT")) throw error;
    yield { invariant: "I2", where: "the journal", what: `it could be read no further: ${error.message}` };
  } finally {
    journal.close();
  }
  for (const path of damagedSnapshots(folder)) {
    yield { invariant: "medium", where: path, what: "the snapshot does not match its checksum" };
  }
}

/** One stream at a time: this reads every payload from the disk. */
async function* streamProblems({ spaces }: MemoryData): AsyncGenerator<Problem> {
  for (const [namespace, space] of spaces) {
    for (const [name, stream] of space.streams) {
      const alone = { ...space, streams: new Map([[name, stream]]) };
      yield* checkStreams({ spaces: new Map([[namespace, alone]]) });
      await nextTurn();
    }
  }
}

function* zombieWrites(state: State, act: JournalRecord): Generator<Problem> {
  if (act.do !== "append") return;
  const { leases } = state.space(act.namespace);
  for (const { stream, guards = [], expect } of act.writes) {
    for (const { lease, token } of guards) {
      const now = leases.get(lease);
      if (now?.token === token && now.holder) continue;
      const found = `has token ${token} of ${lease}, which was at ${now?.token}`;
      const what = `the write after event ${expect.seq} ${found}`;
      yield { invariant: "I7", where: `${act.namespace} ${stream}`, what };
    }
  }
}

async function* artifactProblems(folder: OpenFolder, { spaces }: MemoryData): AsyncGenerator<Problem> {
  for (const [namespace, space] of spaces) {
    for (const hash of space.artifacts.keys()) {
      const where = `${namespace} artifact ${hash}`;
      const wrong = artifactProblem(folder, namespace, hash);
      // Another process may have collected it since the journal was read.
      if (wrong && folder.state.space(namespace).artifacts.has(hash)) {
        yield { invariant: "I2", where, what: wrong };
      }
      await nextTurn();
    }
  }
}

function artifactProblem(folder: OpenFolder, namespace: string, hash: string): string | null {
  try {
    const bytes = readArtifact(folder, namespace, hash);
    return sha256(bytes) === hash ? null : "its bytes do not match its hash";
  } catch (error) {
    if (error instanceof HoldfastError) return error.message;
    throw error;
  }
}

function pointerProblems({ spaces }: MemoryData): Problem[] {
  return [...spaces].flatMap(([namespace, space]) => [
    ...streamPointers(namespace, space),
    ...keyPointers(namespace, space),
    ...tokens(namespace, space),
  ]);
}

function streamPointers(namespace: string, space: Space): Problem[] {
  const problems: Problem[] = [];
  for (const stream of space.streams.values()) {
    const { state, head, base, parent, items, facets } = stream;
    const where = `${namespace} ${stream.name}`;
    const say = (invariant: string, what: string) => problems.push({ invariant, where, what });
    const past = parent && streamOf(space, parent.stream);
    if (past) {
      const isThere = past.state !== "gone" && past.head.generation === parent.generation;
      if (!isThere || past.head.seq < base) say("I7", "the stream it forked from is gone");
    }
    for (const hash of stream.artifacts)
      if (!space.artifacts.has(hash)) say("I2", "an artifact it refers to is gone");
    for (const item of items.values()) {
      if ((item.seq ?? 0) > head.seq || (item.endSeq ?? 0) > head.seq) {
        say("I2", `${item.kind} ${item.id} points at an event that is not there`);
      }
    }
    const open = [...items.values()].filter((item) => item.kind === "call" && item.doneAt === null).length;
    if (state === "live" && open !== facets.openCalls) {
      say("I7", `it says ${facets.openCalls} calls are open, but ${open} are`);
    }
  }
  return problems;
}

function keyPointers(namespace: string, { keys, streams }: Space): Problem[] {
  return [...keys]
    .filter(([, { stream }]) => !streams.has(stream))
    .map(([key]) => `${namespace} key ${key}`)
    .map((where) => ({ invariant: "I2", where, what: "no stream of its namespace holds it" }));
}

function tokens(namespace: string, { leases }: Space): Problem[] {
  return [...leases]
    .filter(([, { token }]) => !Number.isSafeInteger(token) || token < 1)
    .map(([name, { token }]) => {
      return { invariant: "I7", where: `${namespace} ${name}`, what: `its token is ${token}` };
    });
}
