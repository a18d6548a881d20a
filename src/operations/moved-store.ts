/**
 * Warnings for readers of a sealed store. A store that `copy` moved stays readable as it was then. The two
 * stores of an unfinished copy take no writes and may be partial.
 */

import { isAbsolute, join, resolve } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import { finishCopyHint } from "../model/stream/index.ts";
import type { Store } from "../store.ts";
import type { Source } from "./current-goal.ts";
import type { Status } from "./status-view.ts";
import { findStore } from "./store-place.ts";

/** The state of a store's seal; both fields are null for most stores. */
type Seal = Pick<Status, "address" | "moved" | "unfinishedCopy">;

export async function readSeal({ store, namespace }: Source): Promise<Seal> {
  const { address } = store;
  const seal = await store.moving?.seal();
  if (seal?.phase !== "left") return { address, moved: null, unfinishedCopy: await unfinishedCopy(store) };
  const { rows } = await store.list<"streams">({ of: "streams", namespace, limit: 1 });
  const last = rows[0]?.updatedAt;
  const asOf = last === undefined ? null : new Date(last).toISOString();
  return { address, moved: { to: seal.other, asOf }, unfinishedCopy: null };
}

/** Null for a store that takes part in no copy. A copy in progress counts as unfinished. */
export async function unfinishedCopy({
  address,
  moving,
}: Pick<Store, "address" | "moving">): Promise<Status["unfinishedCopy"]> {
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

/** The seal in one line, or null if there is nothing to say. */
export function sealNotice({ moved, unfinishedCopy: copy }: Seal): string | null {
  if (moved !== null)
    return `this store has moved to ${moved.to}${moved.asOf ? `; its data is as of ${moved.asOf}` : ""}`;
  if (copy === null) return null;
  return copy.isTarget
    ? `a copy into this store from ${copy.from} is unfinished: data may be missing`
    : `a copy of this store to ${copy.to} is unfinished: it takes no writes until then`;
}

/** The same as a warning with a hint. */
export function sealWarning(seal: Seal): HoldfastError | null {
  const { address, moved, unfinishedCopy: copy } = seal;
  const message = `${address}: ${sealNotice(seal)}`;
  if (moved !== null) {
    const data = { moved: "left", to: moved.to };
    return new HoldfastError("STORE_MOVED", message, { hint: howToReach(moved.to), data });
  }
  if (copy === null) return null;
  const { from, to, isTarget } = copy;
  return new HoldfastError("STORE_READONLY", message, {
    hint: finishCopyHint(from, to),
    data: { moved: isTarget ? "entering" : "leaving", from, to },
  });
}

export async function refuseIncomplete(store: Pick<Store, "address" | "moving">): Promise<void> {
  const copy = await unfinishedCopy(store);
  if (copy?.isTarget) throw sealWarning({ address: store.address, moved: null, unfinishedCopy: copy });
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
