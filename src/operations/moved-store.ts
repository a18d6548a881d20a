/**
 * Warnings for readers of a store that `copy` moved, which stays readable as it was then, or of the two
 * stores of an unfinished copy, which take no writes and may be partial. The store's seal tells.
 */

import { isAbsolute, join, resolve } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import { finishCopyHint } from "../model/stream/index.ts";
import type { Store } from "../store.ts";
import type { Source } from "./current-goal.ts";
import type { MovedStore, UnfinishedCopy } from "./status-view.ts";
import { findStore } from "./store-place.ts";

export async function movedStore({ store, namespace }: Source): Promise<MovedStore | null> {
  const seal = await store.moving?.seal();
  if (seal?.phase !== "left") return null;
  const { rows } = await store.list<"streams">({ of: "streams", namespace, limit: 1 });
  const last = rows[0]?.updatedAt;
  return { to: seal.other, asOf: last === undefined ? null : new Date(last).toISOString() };
}

export function movedNotice({ to, asOf }: MovedStore): string {
  return `this store has moved to ${to}${asOf === null ? "" : `; its data is as of ${asOf}`}`;
}

export function movedWarning(address: string, moved: MovedStore): HoldfastError {
  return new HoldfastError("STORE_MOVED", `${address}: ${movedNotice(moved)}`, {
    hint: howToReach(moved.to),
    data: { moved: "left", to: moved.to },
  });
}

/** Null for a store that takes part in no copy. A copy in progress counts as unfinished. */
export async function unfinishedCopy({
  address,
  moving,
}: Pick<Store, "address" | "moving">): Promise<UnfinishedCopy | null> {
  const seal = await moving?.seal();
  if (seal?.phase !== "leaving" && seal?.phase !== "entering") return null;
  const here = absoluteAddress(address, process.cwd());
  const isTarget = seal.phase === "entering";
  return isTarget ? { from: seal.other, to: here, isTarget } : { from: here, to: seal.other, isTarget };
}

/** Each store remembers the other's address, and may be opened from any folder. */
export function absoluteAddress(address: string, cwd: string): string {
  return address.replace(/^(sqlite|files) (.*)$/, (_, kind, path) => `${kind} ${resolve(cwd, path)}`);
}

export function unfinishedNotice({ from, to, isTarget }: UnfinishedCopy): string {
  const what = isTarget ? `a copy into this store from ${from}` : `a copy of this store to ${to}`;
  return `${what} is unfinished: ${isTarget ? "data may be missing" : "it takes no writes until then"}`;
}

export function unfinishedWarning(address: string, copy: UnfinishedCopy): HoldfastError {
  return new HoldfastError("STORE_READONLY", `${address}: ${unfinishedNotice(copy)}`, {
    hint: finishCopyHint(copy.from, copy.to),
    data: { moved: copy.isTarget ? "entering" : "leaving", from: copy.from, to: copy.to },
  });
}

export async function sealWarning(source: Source): Promise<HoldfastError | null> {
  const { store } = source;
  const moved = await movedStore(source);
  if (moved !== null) return movedWarning(store.address, moved);
  const copy = await unfinishedCopy(store);
  return copy && unfinishedWarning(store.address, copy);
}

/** The same as one line of text, for briefings. */
export async function sealNotice(source: Source): Promise<string | null> {
  const moved = await movedStore(source);
  if (moved !== null) return movedNotice(moved);
  const copy = await unfinishedCopy(source.store);
  return copy && unfinishedNotice(copy);
}

export async function refuseIncomplete(store: Pick<Store, "address" | "moving">): Promise<void> {
  const copy = await unfinishedCopy(store);
  if (copy?.isTarget) throw unfinishedWarning(store.address, copy);
}

/** Whether this store is in the default place, where it is found without being named. */
export function isDefaultStore(to: string): boolean {
  const { home } = findStore(undefined, process.cwd());
  return to === `files ${home}` || to === `sqlite ${join(home, "store.db")}`;
}

export function howToReach(to: string): string {
  if (isDefaultStore(to)) {
    const first = process.env["HOLDFAST_STORE"] ? "Unset HOLDFAST_STORE. " : "";
    return `${first}open() and holdfast find it without an address: it is in the default place.`;
  }
  const path = /^(?:sqlite|files) (.+)$/.exec(to)?.[1];
  const address = path !== undefined && isAbsolute(path) ? `HOLDFAST_STORE=${path}` : "HOLDFAST_STORE";
  const until = "Until then open() and holdfast use the old one.";
  return `Set ${address} for agents and commands, or pass --store. ${until}`;
}
