/**
 * A store that `copy` moved elsewhere can still be read, and shows for ever how things were then. Whoever reads it has to
 * be told: nothing else would tell a person, or an agent, that the work went on in another place. So has whoever reads one
 * end of a copy that was not finished: neither takes writes, and one of them may hold only a part. One look at the seal.
 */

import { isAbsolute, join, resolve } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import { finishCopyHint } from "../model/stream/index.ts";
import type { Store } from "../store.ts";
import { findStore } from "./store-place.ts";

export interface MovedStore {
  /** As that store names itself: `sqlite /srv/new.db`. */
  readonly to: string;
  /** The last change before it moved; null where there was none. */
  readonly asOf: string | null;
}

/** Null for a store that is where it always was. */
export async function movedStore(
  store: Pick<Store, "moving" | "list">,
  namespace: string,
): Promise<MovedStore | null> {
  const seal = await store.moving?.seal();
  if (seal?.phase !== "left") return null;
  const { rows } = await store.list<"streams">({ of: "streams", namespace, limit: 1 });
  const last = rows[0]?.updatedAt;
  return { to: seal.other, asOf: last === undefined ? null : new Date(last).toISOString() };
}

export function movedLine({ to, asOf }: MovedStore): string {
  return `this store has moved to ${to}${asOf === null ? "" : `; what it shows is as of ${asOf}`}`;
}

/** For whoever reads it; whoever writes is refused by the store itself. */
export function movedNote(address: string, moved: MovedStore): HoldfastError {
  return new HoldfastError("STORE_MOVED", `${address}: ${movedLine(moved)}`, {
    hint: whereNow(moved.to),
    data: { moved: "left", to: moved.to },
  });
}

/** Both as they name themselves, and from any folder. */
export interface UnfinishedCopy {
  readonly from: string;
  readonly to: string;
  /** Whether it is this store that was being filled: it may lack anything. */
  readonly isTarget: boolean;
}

/** Null for a store that takes part in no copy; one that is under way is not finished either. */
export async function unfinishedCopy({
  address,
  moving,
}: Pick<Store, "address" | "moving">): Promise<UnfinishedCopy | null> {
  const seal = await moving?.seal();
  if (seal?.phase !== "leaving" && seal?.phase !== "entering") return null;
  const here = fromAnywhere(address, process.cwd());
  const isTarget = seal.phase === "entering";
  return isTarget ? { from: seal.other, to: here, isTarget } : { from: here, to: seal.other, isTarget };
}

/** Each store remembers the other by its address, and is asked from any folder. */
export function fromAnywhere(address: string, cwd: string): string {
  return address.replace(/^(sqlite|files) (.*)$/, (_, kind, path) => `${kind} ${resolve(cwd, path)}`);
}

export function unfinishedLine({ from, to, isTarget }: UnfinishedCopy): string {
  const what = isTarget ? `a copy into this store from ${from}` : `a copy of this store to ${to}`;
  return `${what} was not finished: ${isTarget ? "what it shows may be a part only" : "it takes no writes until then"}`;
}

export function unfinishedNote(address: string, copy: UnfinishedCopy): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${address}: ${unfinishedLine(copy)}`, {
    hint: finishCopyHint(copy.from, copy.to),
    data: { moved: copy.isTarget ? "entering" : "leaving", from: copy.from, to: copy.to },
  });
}

/** What has to be said of the seal, if anything; the hint says what to do about it. */
export async function sealNote(
  store: Pick<Store, "address" | "moving" | "list">,
  namespace: string,
): Promise<HoldfastError | null> {
  const moved = await movedStore(store, namespace);
  if (moved !== null) return movedNote(store.address, moved);
  const copy = await unfinishedCopy(store);
  return copy && unfinishedNote(store.address, copy);
}

/** The same for whoever sees a text alone. */
export async function sealLine(
  store: Pick<Store, "address" | "moving" | "list">,
  namespace: string,
): Promise<string | null> {
  const moved = await movedStore(store, namespace);
  if (moved !== null) return movedLine(moved);
  const copy = await unfinishedCopy(store);
  return copy && unfinishedLine(copy);
}

/** What is half there must not be taken for the whole. */
export async function refuseHalfFilled(store: Pick<Store, "address" | "moving">): Promise<void> {
  const copy = await unfinishedCopy(store);
  if (copy?.isTarget) throw unfinishedNote(store.address, copy);
}

/** Whether that store is in the usual place, which is looked at where none is named. */
export function isFoundByItself(to: string): boolean {
  const { home } = findStore(undefined, process.cwd());
  return to === `files ${home}` || to === `sqlite ${join(home, "store.db")}`;
}

/** How everything finds the new store. Unless it is in the usual place, nothing looks for it by itself. */
export function whereNow(to: string): string {
  if (isFoundByItself(to)) {
    const first = process.env["HOLDFAST_STORE"] ? "Unset HOLDFAST_STORE. " : "";
    return `${first}open() and holdfast find it by themselves: it is where they look first.`;
  }
  const path = /^(?:sqlite|files) (.+)$/.exec(to)?.[1];
  const address = path !== undefined && isAbsolute(path) ? `HOLDFAST_STORE=${path}` : "HOLDFAST_STORE";
  return `Set ${address} for agents and commands, or say --store: until then open() and holdfast find the old one.`;
}
