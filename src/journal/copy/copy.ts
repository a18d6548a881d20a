/**
 * Moves everything from one store to another, and closes the first behind it.
 *
 *     1 look for live leases ──▶ 2 source: leaving ──▶ 3 look again ──▶ 4 target: entering, and empty
 *       ──▶ 5 rows ──▶ 6 compare hashes ──▶ 7 source: left ──▶ 8 target: arrived
 *
 * From 2 on the source takes no writes, so what is read in 5 and 6 stands still. The second look is for whoever took
 * a lease between 1 and 2. A lease is live unless it was released, ran out, or its holder is provably dead: a
 * worker that lives must be stopped first, because an effect that it has under way could not be recorded any more.
 *
 * What a kill leaves, and what the same call does when it is made again:
 *
 *     before 2   nothing                          begins
 *     2 to 7     source leaving, target partly    begins again: rows are put over those that came before; or another
 *                filled; both refuse writes       target is named; or `abandonMove` gives it up and opens the source
 *     7 to 8     source left, target whole        8 alone
 *     after 8    done                             says so
 *
 * An error, unlike a kill, undoes step 2 before it is thrown.
 */

import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import type { MovedRow, Seal, Store } from "../../store.ts";
import { isProvablyDead } from "../process.ts";
import { type End, endOf, newMove, notEmpty, refuseSource, refuseTarget, step } from "./phases.ts";
import { differences, rowsOf, type Tallies, tally } from "./rows.ts";

/** For `copy(from, to)`. Stopped by `signal`, it leaves the source open for writes, as any error does. */
export interface CopyOptions {
  /** Told after every page how many rows have come so far. */
  readonly onProgress?: (rows: number) => void;
  readonly signal?: AbortSignal;
}

/** What `copy` moved: the proof that both stores hold the same. */
export interface CopyReport {
  readonly from: string;
  readonly to: string;
  /** What was copied, by kind, with the hashes that both stores agree on. */
  readonly rows: Tallies;
}

type Side = Pick<Store, "address" | "moving">;

export async function copyStore(from: Side, to: Side, options: CopyOptions = {}): Promise<CopyReport> {
  const [source, target] = [endOf(from), endOf(to)];
  const [before, there] = [await source.moving.seal(), await target.moving.seal()];
  if (before?.phase === "left" && there?.move === before.move) return finish(source, target, there);
  refuseSource(source, before);
  refuseTarget(target, source, there, before);
  await refuseNotReady(source);
  const leaving: Seal = { phase: "leaving", move: newMove(), other: target.address };
  await step(source, before, leaving);
  try {
    await refuseLiveLeases(source);
    const rows = await transfer(source, target, there, leaving.move, options);
    await step(source, leaving, { ...leaving, phase: "left" });
    await arrive(source, target, leaving.move);
    return { from: source.address, to: target.address, rows };
  } catch (error) {
    // Does nothing once the source has left, or another copy has begun.
    await source.moving.reseal(leaving, before?.phase === "leaving" ? null : before);
    throw error;
  }
}

/** Opening a target may make it, so the source is looked at before: a copy that is refused leaves nothing behind. */
export async function openTarget<To>(
  from: Side,
  open: (options: { readonly mustExist: boolean }) => Promise<To>,
): Promise<To> {
  const source = endOf(from);
  const seal = await source.moving.seal();
  if (seal?.phase !== "left") {
    refuseSource(source, seal);
    await refuseNotReady(source);
    return open({ mustExist: false });
  }
  try {
    // At most the last step is left to do, in a target that is there.
    return await open({ mustExist: true });
  } catch (error) {
    if (isHoldfastError(error, "STORE_NOT_FOUND")) refuseSource(source, seal);
    throw error;
  }
}

async function refuseNotReady(source: End): Promise<void> {
  if (!(await hasRows(source))) throw nothingThere(source);
  await refuseLiveLeases(source);
}

/** Gives up a copy that was broken off: the source takes writes again. What came into the target is of no use. */
export async function abandonMove(store: Side): Promise<void> {
  const source = endOf(store);
  const seal = await source.moving.seal();
  if (seal === null || seal.phase === "arrived") return;
  refuseSource(source, seal);
  await step(source, seal, null);
}

/** The copy was killed between its last two steps, or after them. */
async function finish(source: End, target: End, there: Seal): Promise<CopyReport> {
  if (there.phase === "entering") await arrive(source, target, there.move);
  return { from: source.address, to: target.address, rows: await tally(source) };
}

async function arrive(source: End, target: End, move: string): Promise<void> {
  const entering: Seal = { phase: "entering", move, other: source.address };
  await step(target, entering, { ...entering, phase: "arrived" });
}

async function transfer(
  source: End,
  target: End,
  there: Seal | null,
  move: string,
  { onProgress, signal }: CopyOptions,
): Promise<Tallies> {
  await enter(source, target, there, move);
  let count = 0;
  for await (const rows of rowsOf(source)) {
    signal?.throwIfAborted();
    await target.moving.restore(move, rows);
    count += rows.length;
    onProgress?.(count);
  }
  const [here, arrived] = [await tally(source), await tally(target)];
  signal?.throwIfAborted();
  const differing = differences(here, arrived);
  if (differing.length === 0) return here;
  throw new HoldfastError(
    "STORE_CORRUPT",
    `${target.address} does not hold what ${source.address} does: ${differing.join(", ")} differ`,
    {
      hint: "Run `check` on the source, and copy it into a store that is new. Nothing was moved.",
      data: { differing },
    },
  );
}

async function enter(source: End, target: End, there: Seal | null, move: string): Promise<void> {
  if ((await target.moving.seal())?.move === move) throw notEmpty(target, "it is the store to be copied");
  const entering: Seal = { phase: "entering", move, other: source.address };
  await step(target, there, entering);
  if (there !== null || !(await hasRows(target))) return;
  await target.moving.reseal(entering, null);
  throw notEmpty(target, "it is not empty");
}

/** A mistyped address opens a new store; moving that would use up the target for nothing. */
function nothingThere({ address }: End): HoldfastError {
  return new HoldfastError("STORE_NOT_FOUND", `${address} holds nothing that could be copied`, {
    hint: "Check the address of the store to copy from.",
    data: { address },
  });
}

async function hasRows(end: End): Promise<boolean> {
  for await (const _rows of rowsOf(end)) return true;
  return false;
}

async function refuseLiveLeases(source: End): Promise<void> {
  const live: LeaseMoved[] = [];
  for await (const rows of rowsOf(source)) {
    live.push(...rows.filter(isLive));
    // Leases come first.
    if (rows.some(({ of }) => of !== "lease")) break;
  }
  if (live.length === 0) return;
  const holders = live.map(holderText);
  const more = live.length > 3 ? ` and ${live.length - 3} more` : "";
  throw new HoldfastError(
    "STREAM_BUSY",
    `${source.address} is in use: ${holders.slice(0, 3).join(", ")}${more}`,
    {
      hint: "Stop these workers, or wait until their leases run out, then copy again. Nothing was changed.",
      data: { leases: holders, names: live.map(({ name }) => name) },
    },
  );
}

type LeaseMoved = Extract<MovedRow, { of: "lease" }>;

function isLive(row: MovedRow): row is LeaseMoved {
  return row.of === "lease" && row.holder !== null && row.remainingMs > 0 && !isProvablyDead(row.holder);
}

function holderText({ name, holder }: LeaseMoved): string {
  return `${name} by ${holder?.label} (${holder?.host}, pid ${holder?.pid})`;
}
