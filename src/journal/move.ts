/**
 * Moves everything from one store to another, and closes the first behind it.
 *
 *     1 check source and target ──▶ 2 target: entering ──▶ 3 source: leaving ──▶ 4 check the source again
 *       ──▶ 5 copy rows ──▶ 6 compare hashes ──▶ 7 source: left ──▶ 8 target: arrived
 *
 * The target is sealed first: a worker that already points at it must never find an empty store that takes
 * writes. From step 3 on the source takes no writes, so the rows of steps 5 and 6 do not change. Steps 1 and
 * 4 refuse a source with a live lease, or one that another process has open. A lease is live unless it was
 * released, expired, or its holder is provably dead. A live worker must stop first, because the outcome of an
 * effect that it has in flight could not be recorded any more.
 *
 * A process that is killed leaves:
 *
 *     killed     state                            the same call, made again
 *     before 2   nothing                          starts over
 *     2 to 3     target entering and empty; the   starts over
 *                source takes writes
 *     3 to 7     source leaving, target partly    starts over and replaces the rows that are there; or names
 *                filled; both refuse writes       another target; or `abandonMove` opens the source again
 *     7 to 8     source left, target complete     does step 8
 *     after 8    done                             reports so
 *
 * An error, unlike a kill, undoes steps 2 and 3 before it is thrown. A target that has rows stays sealed.
 *
 * The seal of each store is the only state, and every step is one conditional change of it:
 *
 *     source   none, arrived ──leave──▶ leaving ──depart──▶ left ──undo──▶ none
 *                     ▲──────stay─────────┘ └─leave again, as another move: restarts the copy
 *     target   none ──enter──▶ entering ──arrive──▶ arrived: an ordinary store that remembers its source
 *               ▲                 └─enter again, from the same source: restarts the copy
 *               └─ a restart reseals the source before the target: both are sealed already, and the move that
 *                  it overtakes must not leave the source
 *
 * `undoMove` reopens the source while the target has no new writes:
 *
 *     1 check target ──▶ 2 target: returning ──▶ 3 compare hashes ──▶ 4 source: none
 *
 * The target was `arrived`, for the move with which the source `left`. Step 3 compares two sealed stores. If
 * they differ and the source is still sealed, the target goes back to `arrived`. After a kill between 2 and 4
 * neither takes writes, and the same call starts over. After step 4 the target refuses writes for good,
 * unless the source moves there again.
 *
 * Every seal but `arrived` makes a store refuse all writes. Invariants:
 *
 *   - At most one of the two stores takes writes. The target opens only after the source has left, for that
 *     move; the source opens again only while the target is `returning`.
 *   - While the source is `leaving`, no target of it has ever been open, so it may stay or leave for another
 *     target. A move that a restart has overtaken finds another move in the seal, and can finish nothing.
 *   - A target that is `returning` never arrives by `moveStore`: only an undo that fails opens it.
 */

import { createHash, randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { finishMoveHint, finishUndoHint } from "../model/stream/index.ts";
import type { MovedRow, Moving, Seal, Store } from "../store.ts";
import { isProvablyDead } from "./process.ts";

/**
 * Options of `move(from, to)`.
 *
 * @example
 * await move(from, to, { onProgress: (rows) => console.log(rows), signal: AbortSignal.timeout(60_000) });
 */
export interface MoveOptions {
  /** Called after every page with the number of rows copied so far. */
  readonly onProgress?: (rows: number) => void;
  /** Stops the move. Like any error, that leaves the source open for writes. */
  readonly signal?: AbortSignal;
}

/** The result of `move`: proof that both stores hold the same. */
export interface MoveReport {
  readonly from: string;
  readonly to: string;
  /** Number of copied rows by kind, with the hashes that both stores agree on. */
  readonly rows: Tallies;
}

interface Tally {
  readonly count: number;
  /** Sum of the hashes of all rows, in hex. */
  readonly digest: string;
}

type Tallies = Readonly<Record<MovedRow["of"], Tally>>;

type Side = Pick<Store, "address" | "moving">;

/** A store as one end of a move. */
interface End {
  readonly address: string;
  readonly moving: Moving;
}

/** Moves all rows of `from` to `to`, which must be empty. */
export async function moveStore(from: Side, to: Side, options: MoveOptions = {}): Promise<MoveReport> {
  const [source, target] = [endOf(from), endOf(to)];
  const [sourceSeal, targetSeal] = [await source.moving.seal(), await target.moving.seal()];
  if (sourceSeal?.phase === "left" && targetSeal?.move === sourceSeal.move) {
    return finish(source, target, targetSeal);
  }
  checkSource(source, sourceSeal);
  checkTarget(target, source, targetSeal, sourceSeal);
  // Before it is sealed: a kill must not leave a seal on a store of another use.
  if (targetSeal === null && (await hasRows(target))) throw notEmpty(target, "it is not empty");
  await checkReady(source);
  const move = randomUUID();
  const leaving: Seal = { phase: "leaving", move, other: target.address };
  const entering: Seal = { phase: "entering", move, other: source.address };
  if (targetSeal === null) await enter(target, entering);
  try {
    await reseal(source, sourceSeal, leaving);
    if (targetSeal !== null) await reseal(target, targetSeal, entering);
    await checkUnused(source);
    const rows = await transfer(source, target, move, options);
    await reseal(source, leaving, { ...leaving, phase: "left" });
    await reseal(target, entering, { ...entering, phase: "arrived" });
    return { from: source.address, to: target.address, rows };
  } catch (error) {
    // Both change nothing once the source has left, or another move has begun.
    await source.moving.reseal(leaving, sourceSeal?.phase === "leaving" ? null : sourceSeal);
    const hasBegun = (await source.moving.seal())?.move === move;
    if (targetSeal === null && !hasBegun && !(await hasRows(target))) {
      await target.moving.reseal(entering, null);
    }
    throw error;
  }
}

/** Seals a target that has no seal yet. */
async function enter(target: End, entering: Seal): Promise<void> {
  await reseal(target, null, entering);
  if (!(await hasRows(target))) return;
  await target.moving.reseal(entering, null);
  throw notEmpty(target, "it is not empty");
}

/**
 * Reopens the source of a finished move, while the target has no new writes. The target takes no more writes.
 */
export async function undoMove(from: Side, to: Side): Promise<MoveReport> {
  const [source, target] = [endOf(from), endOf(to)];
  const [sourceSeal, targetSeal] = [await source.moving.seal(), await target.moving.seal()];
  const report = { from: source.address, to: target.address };
  if (sourceSeal?.phase !== "left") {
    if (sourceSeal === null && targetSeal?.phase === "returning")
      return { ...report, rows: await tally(target) };
    throw nothingToUndo(source, target, "no finished move from it is known there");
  }
  const { move } = sourceSeal;
  const isReturning = targetSeal?.phase === "returning" && targetSeal.of === move;
  if (!isReturning && (targetSeal?.phase !== "arrived" || targetSeal.move !== move)) {
    throw nothingToUndo(source, target, `it has moved to ${sourceSeal.other}`);
  }
  await checkUnused(target);
  const returning: Seal = { phase: "returning", move: randomUUID(), of: move, other: source.address };
  await reseal(target, targetSeal, returning);
  const [before, now] = [await tally(source), await tally(target)];
  const differing = differences(before, now);
  if (differing.length === 0) {
    await reseal(source, sourceSeal, null);
    return { ...report, rows: before };
  }
  // Only while the source is still sealed: otherwise another undo has just opened it, and it changed since.
  const arrived: Seal = { phase: "arrived", move, other: source.address };
  if (isSame(await source.moving.seal(), sourceSeal)) await target.moving.reseal(returning, arrived);
  throw new HoldfastError(
    "STREAM_BUSY",
    `${target.address} has new writes since the move from ${source.address}: ${differing.join(", ")} differ`,
    {
      hint: "Go on with the new store, or move it back into a third one. Nothing was changed.",
      data: { differing },
    },
  );
}

function isSame(a: Seal | null, b: Seal): boolean {
  return a?.phase === b.phase && a.move === b.move;
}

function nothingToUndo(source: End, target: End, why: string): HoldfastError {
  return new HoldfastError(
    "INPUT_INVALID",
    `${source.address}: its move to ${target.address} cannot be undone: ${why}`,
    { hint: "Name both stores as in the move: holdfast move --undo <from> <to>", data: { why } },
  );
}

/** Opens the target of a move. Checks the source first, because opening a target may create it. */
export async function openTarget<To>(
  from: Side,
  open: (options: { readonly mustExist: boolean }) => Promise<To>,
): Promise<To> {
  const source = endOf(from);
  const seal = await source.moving.seal();
  if (seal?.phase !== "left") {
    checkSource(source, seal);
    await checkReady(source);
    return open({ mustExist: false });
  }
  try {
    // At most the last step is missing, and its target exists.
    return await open({ mustExist: true });
  } catch (error) {
    if (isHoldfastError(error, "STORE_NOT_FOUND")) checkSource(source, seal);
    throw error;
  }
}

/** Gives up an interrupted move: the source takes writes again. The rows in the target are of no use. */
export async function abandonMove(store: Side): Promise<void> {
  const source = endOf(store);
  const seal = await source.moving.seal();
  if (seal === null || seal.phase === "arrived") return;
  checkSource(source, seal);
  await reseal(source, seal, null);
}

function endOf({ address, moving }: Side): End {
  if (moving) return { address, moving };
  throw new HoldfastError("INPUT_INVALID", `${address}: this kind of store cannot be moved`, {
    hint: "Use a store that has `moving`, as all stores of Holdfast do.",
    data: { address },
  });
}

/** Completes a move that was killed between its last two steps, or after them. */
async function finish(source: End, target: End, targetSeal: Seal): Promise<MoveReport> {
  if (targetSeal.phase === "entering") await reseal(target, targetSeal, { ...targetSeal, phase: "arrived" });
  return { from: source.address, to: target.address, rows: await tally(source) };
}

async function transfer(
  source: End,
  target: End,
  move: string,
  { onProgress, signal }: MoveOptions,
): Promise<Tallies> {
  let count = 0;
  for await (const rows of rowsOf(source)) {
    signal?.throwIfAborted();
    await target.moving.restore(move, rows);
    count += rows.length;
    onProgress?.(count);
  }
  const [expected, arrived] = [await tally(source), await tally(target)];
  signal?.throwIfAborted();
  const differing = differences(expected, arrived);
  if (differing.length === 0) return expected;
  throw new HoldfastError(
    "STORE_CORRUPT",
    `${target.address} does not hold what ${source.address} does: ${differing.join(", ")} differ`,
    {
      hint: "Run `check` on the source, and move it into a new store. Nothing was moved.",
      data: { differing },
    },
  );
}

/** Throws if no move can begin from a store with this seal. */
function checkSource(source: End, seal: Seal | null): void {
  if (seal?.phase === "entering") {
    throw new HoldfastError("STORE_READONLY", `${source.address} is itself being filled from ${seal.other}`, {
      hint: finishMoveHint(seal.other, source.address),
      data: { address: source.address, moved: "entering", from: seal.other },
    });
  }
  if (seal?.phase === "returning") {
    throw new HoldfastError("STORE_READONLY", `${source.address} was given back to ${seal.other}`, {
      hint: finishUndoHint(seal.other, source.address),
      data: { address: source.address, moved: "returning", from: seal.other },
    });
  }
  if (seal?.phase === "left") {
    throw new HoldfastError("STORE_MOVED", `${source.address} has moved to ${seal.other}`, {
      hint: "Move from there. A store that has moved can only be read.",
      data: { address: source.address, moved: "left", to: seal.other },
    });
  }
}

/**
 * Throws if a target cannot be filled. One with a seal can be, if an earlier move from the same source began
 * to fill it or was undone. The same source has the same address, or still the same move: addresses depend on
 * the working directory.
 */
function checkTarget(target: End, source: End, seal: Seal | null, sourceSeal: Seal | null): void {
  if (seal === null) return;
  const isSameSource = seal.other === source.address || seal.move === sourceSeal?.move;
  if ((seal.phase === "entering" || seal.phase === "returning") && isSameSource) return;
  throw notEmpty(target, `it ${WHAT[seal.phase]} ${seal.other}`);
}

const WHAT: Readonly<Record<Seal["phase"], string>> = {
  leaving: "is moving to",
  left: "has moved to",
  entering: "is being filled from",
  arrived: "was filled from",
  returning: "was given back to",
};

/** A mistyped address opens a new store; moving an empty store would use up the target for nothing. */
async function checkReady(source: End): Promise<void> {
  if (!(await hasRows(source))) {
    throw new HoldfastError("STORE_NOT_FOUND", `${source.address} holds nothing that could be moved`, {
      hint: "Check the address of the store to move from.",
      data: { address: source.address },
    });
  }
  await checkUnused(source);
}

/** How long a short command, such as a hook, may have the store open before the move gives up. */
const IN_USE_MS = 1_000;

/** Throws if a worker holds a lease, or another process has the store open and may be about to take one. */
async function checkUnused(end: End): Promise<void> {
  await checkNoLiveLeases(end);
  let user = await end.moving.otherUser?.();
  for (const begun = performance.now(); user && performance.now() - begun < IN_USE_MS; ) {
    await setTimeout(IN_USE_MS / 20);
    user = await end.moving.otherUser?.();
  }
  if (!user) return;
  throw new HoldfastError("STREAM_BUSY", `${end.address} is in use: ${user}`, {
    hint: "Stop every program that has it open, then try again. Nothing was changed.",
    data: { address: end.address },
  });
}

async function checkNoLiveLeases(source: End): Promise<void> {
  const live: LeaseRow[] = [];
  for await (const rows of rowsOf(source)) {
    live.push(...rows.filter(isLive));
    // `dump` returns leases first.
    if (rows.some(({ of }) => of !== "lease")) break;
  }
  if (live.length === 0) return;
  const holders = live.map(holderText);
  const more = live.length > 3 ? ` and ${live.length - 3} more` : "";
  throw new HoldfastError(
    "STREAM_BUSY",
    `${source.address} is in use: ${holders.slice(0, 3).join(", ")}${more}`,
    {
      hint: "Stop these workers, or wait until their leases expire, then try again. Nothing was changed.",
      data: { leases: holders, names: live.map(({ name }) => name) },
    },
  );
}

type LeaseRow = Extract<MovedRow, { of: "lease" }>;

function isLive(row: MovedRow): row is LeaseRow {
  return row.of === "lease" && row.holder !== null && row.remainingMs > 0 && !isProvablyDead(row.holder);
}

function holderText({ name, holder }: LeaseRow): string {
  return `${name} by ${holder?.label} (${holder?.host}, pid ${holder?.pid})`;
}

function notEmpty(target: End, why: string): HoldfastError {
  return new HoldfastError("STREAM_EXISTS", `${target.address} cannot be moved into: ${why}`, {
    hint: "Name a new store: a move never mixes two stores.",
    data: { address: target.address },
  });
}

/** Changes the seal if it is still `expect`; throws if another process was faster. */
async function reseal(end: End, expect: Seal | null, next: Seal | null): Promise<void> {
  if (await end.moving.reseal(expect, next)) return;
  throw new HoldfastError("STREAM_BUSY", `${end.address}: another move has begun or ended in between`, {
    hint: "Find the move that is running and let it finish, then try again.",
    data: { address: end.address },
  });
}

async function* rowsOf(end: End): AsyncGenerator<readonly MovedRow[]> {
  let cursor: string | null = null;
  do {
    const page: { rows: readonly MovedRow[]; cursor: string | null } = await end.moving.dump(cursor);
    if (page.rows.length > 0) yield page.rows;
    cursor = page.cursor;
  } while (cursor !== null);
}

async function hasRows(end: End): Promise<boolean> {
  for await (const _rows of rowsOf(end)) return true;
  return false;
}

const KINDS = ["lease", "artifact", "stream", "write", "item", "key"] as const;
const MODULUS = 1n << 256n;

/**
 * Counts rows by kind and adds up their hashes. Stores return rows in different orders; a sum does not depend
 * on the order, so nothing has to be sorted.
 */
async function tally(end: End): Promise<Tallies> {
  const sums = new Map(KINDS.map((kind) => [kind as MovedRow["of"], { count: 0, sum: 0n }]));
  for await (const rows of rowsOf(end)) {
    for (const row of rows) {
      const sum = sums.get(row.of);
      if (!sum) throw new Error(`unknown kind of row in a move: ${row.of}`);
      sum.count += 1;
      sum.sum = (sum.sum + BigInt(`0x${hashOf(row)}`)) % MODULUS;
    }
  }
  const entries = [...sums].map(([kind, { count, sum }]) => [kind, { count, digest: sum.toString(16) }]);
  return Object.fromEntries(entries) as Tallies;
}

/** The kinds of rows in which two stores differ. */
function differences(a: Tallies, b: Tallies): MovedRow["of"][] {
  return KINDS.filter((kind) => a[kind].count !== b[kind].count || a[kind].digest !== b[kind].digest);
}

function hashOf(row: MovedRow): string {
  return createHash("sha256")
    .update(JSON.stringify(comparable(row)))
    .digest("hex");
}

/** A row with its fields sorted and bytes distinct from text, without the field that a clock changes. */
function comparable(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: createHash("sha256").update(value).digest("hex") };
  if (Array.isArray(value)) return value.map(comparable);
  if (value === null || typeof value !== "object") return value;
  const fields = Object.entries(value).filter(([name]) => name !== "remainingMs");
  return fields.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, field]) => [name, comparable(field)]);
}
