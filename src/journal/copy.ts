/**
 * Moves everything from one store to another, and closes the first behind it.
 *
 *     1 check for live leases ──▶ 2 source: leaving ──▶ 3 check again ──▶ 4 target: entering, and empty
 *       ──▶ 5 copy rows ──▶ 6 compare hashes ──▶ 7 source: left ──▶ 8 target: arrived
 *
 * From step 2 on the source takes no writes, so the rows of steps 5 and 6 do not change. Step 3 finds leases
 * that were taken between 1 and 2. A lease is live unless it was released, expired, or its holder is provably
 * dead. A live worker must stop first, because the outcome of an effect that it has in flight could not be
 * recorded any more.
 *
 * A process that is killed leaves:
 *
 *     killed     state                            the same call, made again
 *     before 2   nothing                          starts over
 *     2 to 7     source leaving, target partly    starts over and replaces the rows that are there; or names
 *                filled; both refuse writes       another target; or `abandonMove` opens the source again
 *     7 to 8     source left, target complete     does step 8
 *     after 8    done                             reports so
 *
 * An error, unlike a kill, undoes step 2 before it is thrown.
 *
 * The seal of each store is the only state, and every step is one conditional change of it:
 *
 *     source   none, arrived ──leave──▶ leaving ──depart──▶ left, for good
 *                     ▲──────stay─────────┘ └─leave again, as another move: restarts the copy
 *     target   none ──enter──▶ entering ──arrive──▶ arrived: an ordinary store that remembers its source
 *                                 └─enter again, from the same source: restarts the copy
 *
 * Every seal but `arrived` makes a store refuse all writes. Invariants:
 *
 *   - At most one of the two stores takes writes. The target opens only after the source has left, for that
 *     move.
 *   - While the source is `leaving`, no target of it has ever been open, so it may stay or leave for another
 *     target. A copy that a restart has overtaken finds another move in the seal, and can finish nothing.
 *   - A source that has left never takes writes again. Its users get an error that names the new store.
 */

import { createHash, randomUUID } from "node:crypto";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { finishCopyHint } from "../model/stream/index.ts";
import type { MovedRow, Moving, Seal, Store } from "../store.ts";
import { isProvablyDead } from "./process.ts";

/**
 * Options of `copy(from, to)`.
 *
 * @example
 * await copy(from, to, { onProgress: (rows) => console.log(rows), signal: AbortSignal.timeout(60_000) });
 */
export interface CopyOptions {
  /** Called after every page with the number of rows copied so far. */
  readonly onProgress?: (rows: number) => void;
  /** Stops the copy. Like any error, that leaves the source open for writes. */
  readonly signal?: AbortSignal;
}

/** The result of `copy`: proof that both stores hold the same. */
export interface CopyReport {
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

/** A store as one end of a copy. */
interface End {
  readonly address: string;
  readonly moving: Moving;
}

export async function copyStore(from: Side, to: Side, options: CopyOptions = {}): Promise<CopyReport> {
  const [source, target] = [endOf(from), endOf(to)];
  const [sourceSeal, targetSeal] = [await source.moving.seal(), await target.moving.seal()];
  if (sourceSeal?.phase === "left" && targetSeal?.move === sourceSeal.move) {
    return finish(source, target, targetSeal);
  }
  checkSource(source, sourceSeal);
  checkTarget(target, source, targetSeal, sourceSeal);
  await checkReady(source);
  const leaving: Seal = { phase: "leaving", move: randomUUID(), other: target.address };
  await reseal(source, sourceSeal, leaving);
  try {
    await checkNoLiveLeases(source);
    const rows = await transfer(source, target, targetSeal, leaving.move, options);
    await reseal(source, leaving, { ...leaving, phase: "left" });
    await arrive(source, target, leaving.move);
    return { from: source.address, to: target.address, rows };
  } catch (error) {
    // Changes nothing once the source has left, or another copy has begun.
    await source.moving.reseal(leaving, sourceSeal?.phase === "leaving" ? null : sourceSeal);
    throw error;
  }
}

/** Opens the target of a copy. Checks the source first, because opening a target may create it. */
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

/** Gives up an interrupted copy: the source takes writes again. The rows in the target are of no use. */
export async function abandonMove(store: Side): Promise<void> {
  const source = endOf(store);
  const seal = await source.moving.seal();
  if (seal === null || seal.phase === "arrived") return;
  checkSource(source, seal);
  await reseal(source, seal, null);
}

function endOf({ address, moving }: Side): End {
  if (moving) return { address, moving };
  throw new HoldfastError("INPUT_INVALID", `${address}: this kind of store cannot be copied`, {
    hint: "Use a store that has `moving`, as all stores of Holdfast do.",
    data: { address },
  });
}

/** Completes a copy that was killed between its last two steps, or after them. */
async function finish(source: End, target: End, targetSeal: Seal): Promise<CopyReport> {
  if (targetSeal.phase === "entering") await arrive(source, target, targetSeal.move);
  return { from: source.address, to: target.address, rows: await tally(source) };
}

async function arrive(source: End, target: End, move: string): Promise<void> {
  const entering: Seal = { phase: "entering", move, other: source.address };
  await reseal(target, entering, { ...entering, phase: "arrived" });
}

async function transfer(
  source: End,
  target: End,
  targetSeal: Seal | null,
  move: string,
  { onProgress, signal }: CopyOptions,
): Promise<Tallies> {
  await enter(source, target, targetSeal, move);
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
      hint: "Run `check` on the source, and copy it into a new store. Nothing was moved.",
      data: { differing },
    },
  );
}

async function enter(source: End, target: End, targetSeal: Seal | null, move: string): Promise<void> {
  if ((await target.moving.seal())?.move === move) throw notEmpty(target, "it is the store to be copied");
  const entering: Seal = { phase: "entering", move, other: source.address };
  await reseal(target, targetSeal, entering);
  if (targetSeal !== null || !(await hasRows(target))) return;
  await target.moving.reseal(entering, null);
  throw notEmpty(target, "it is not empty");
}

/** Throws if no copy can begin from a store with this seal. */
function checkSource(source: End, seal: Seal | null): void {
  if (seal?.phase === "entering") {
    throw new HoldfastError("STORE_READONLY", `${source.address} is itself being filled from ${seal.other}`, {
      hint: finishCopyHint(seal.other, source.address),
      data: { address: source.address, moved: "entering", from: seal.other },
    });
  }
  if (seal?.phase === "left") {
    throw new HoldfastError("STORE_MOVED", `${source.address} has moved to ${seal.other}`, {
      hint: "Copy from there. A store that has moved can only be read.",
      data: { address: source.address, moved: "left", to: seal.other },
    });
  }
}

/**
 * Throws if a target cannot be filled. One with a seal can be, if an earlier copy from the same source began
 * to fill it. The same source has the same address, or still the same move: addresses depend on the working
 * directory.
 */
function checkTarget(target: End, source: End, seal: Seal | null, sourceSeal: Seal | null): void {
  if (seal === null) return;
  const isSameSource = seal.other === source.address || seal.move === sourceSeal?.move;
  if (seal.phase === "entering" && isSameSource) return;
  const what = seal.phase === "entering" ? "is being filled from" : "was filled from";
  throw notEmpty(target, `it ${seal.phase === "left" ? "has moved to" : what} ${seal.other}`);
}

/** A mistyped address opens a new store; moving an empty store would use up the target for nothing. */
async function checkReady(source: End): Promise<void> {
  if (!(await hasRows(source))) {
    throw new HoldfastError("STORE_NOT_FOUND", `${source.address} holds nothing that could be copied`, {
      hint: "Check the address of the store to copy from.",
      data: { address: source.address },
    });
  }
  await checkNoLiveLeases(source);
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
      hint: "Stop these workers, or wait until their leases expire, then copy again. Nothing was changed.",
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
  return new HoldfastError("STREAM_EXISTS", `${target.address} cannot be copied into: ${why}`, {
    hint: "Name a new store: a copy never mixes two stores.",
    data: { address: target.address },
  });
}

/** Changes the seal if it is still `expect`; throws if another process was faster. */
async function reseal(end: End, expect: Seal | null, next: Seal | null): Promise<void> {
  if (await end.moving.reseal(expect, next)) return;
  throw new HoldfastError("STREAM_BUSY", `${end.address}: another copy has begun or ended in between`, {
    hint: "Find the copy that is running and let it finish, then try again.",
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
      if (!sum) throw new Error(`unknown kind of row in a copy: ${row.of}`);
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
