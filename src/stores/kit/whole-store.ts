/** Passes over a whole store: `check`, and the pages of a move. */

import { crc32 } from "node:zlib";
import { HoldfastError } from "../../model/errors.ts";
import type { MovedRow, Problem, Seal, StoredWrite } from "../../store.ts";
import { nameOf, type Where } from "./errors.ts";

/** `check` stops after this many problems: a damaged store could have millions. */
const MAX_PROBLEMS = 1_000;

export async function firstProblems(
  problems: AsyncIterable<Problem> | Iterable<Problem>,
): Promise<readonly Problem[]> {
  const found: Problem[] = [];
  for await (const problem of problems) {
    found.push(problem);
    if (found.length >= MAX_PROBLEMS) break;
  }
  return found;
}

type CheckedWrite = Pick<StoredWrite, "first" | "last" | "sum" | "payload">;

/** For `check`: the problems of the write that follows event `seq`. `where` names the stream. */
export function* writeProblems(where: string, seq: number, write: CheckedWrite): Generator<Problem> {
  const { first, last, sum, payload } = write;
  if (first !== seq + 1) yield { invariant: "I7", where, what: `event ${first} follows event ${seq}` };
  if (crc32(payload) !== sum) {
    yield { invariant: "I2", where, what: `events ${first} to ${last} do not match their checksum` };
  }
}

/** For `check`: the stream's last write ends at `seq`, and its row says `headSeq`. */
export function* headProblems(where: string, seq: number, headSeq: number): Generator<Problem> {
  const what = `it ends at event ${seq}, its head says ${headSeq}`;
  if (seq !== headSeq) yield { invariant: "I7", where, what };
}

/** The values of a row's key, by which the next page of a dump is found. */
export type DumpPosition = readonly (string | number)[];

interface DumpStep<Part> {
  readonly part: Part;
  readonly after: DumpPosition;
  /** The cursor of the next page. `last`: position of the last row of a full page, else null. */
  next(last: DumpPosition | null): string | null;
}

/**
 * Finds the part that the next page of a dump belongs to; null after the last.
 * A cursor is the number of the part among those that `only` wants, then the position in it.
 */
export function dumpStep<Part extends { readonly begin: DumpPosition }>(
  partsByKind: Readonly<Record<MovedRow["of"], Part>>,
  cursor: string | null,
  only?: readonly MovedRow["of"][],
): DumpStep<Part> | null {
  const kinds = Object.keys(partsByKind) as MovedRow["of"][];
  const parts = kinds.filter((of) => !only || only.includes(of)).map((of) => partsByKind[of]);
  const [number = 0, ...after] = (cursor === null ? [0] : JSON.parse(cursor)) as [number, ...DumpPosition];
  const part = parts[number];
  if (!part) return null;
  return {
    part,
    after: after.length > 0 ? after : part.begin,
    next: (last) => {
      if (last) return JSON.stringify([number, ...last]);
      return number + 1 < parts.length ? JSON.stringify([number + 1]) : null;
    },
  };
}

export function isSameSeal(a: Seal | null | undefined, b: Seal | null | undefined): boolean {
  return a?.move === b?.move && a?.phase === b?.phase;
}

/** Throws unless this move is filling this store. */
export function requireEntering(where: Where, move: string, seal: Seal | null | undefined): void {
  if (seal?.phase === "entering" && seal.move === move) return;
  throw new HoldfastError("STREAM_BUSY", `${nameOf(where)}: another move fills this store`, {
    hint: "Let that move finish, or run this one again into a store of its own.",
    data: where,
  });
}
