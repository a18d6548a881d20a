/**
 * Warnings for readers of a sealed store. A store that has moved stays readable as it was then. The two
 * stores of an unfinished move take no writes and may be partial.
 */

import { isAbsolute, join, resolve } from "node:path";
import { HoldfastError } from "../model/errors.ts";
import { finishMoveHint } from "../model/stream/index.ts";
import type { Store } from "../store.ts";
import type { Source } from "./current-goal.ts";
import type { Status } from "./status-view.ts";
import { findStore } from "./store-place.ts";

/** The state of a store's seal; both fields are null for most stores. */
type Seal = Pick<Status, "address" | "moved" | "unfinishedMove" | "rewound">;

export async function readSeal({ store, namespace }: Source): Promise<Seal> {
  const { address } = store;
  const seal = await store.moving?.seal();
  const rewound = store.rewind ? new Date(store.rewind.lastWriteAt).toISOString() : null;
  if (seal?.phase !== "left") {
    return { address, moved: null, unfinishedMove: await unfinishedMove(store), rewound };
  }
  const { rows } = await store.list<"streams">({ of: "streams", namespace, limit: 1 });
  const last = rows[0]?.updatedAt;
  const asOf = last === undefined ? null : new Date(last).toISOString();
  return { address, moved: { to: seal.other, asOf }, unfinishedMove: null, rewound };
}

/** Null for a store that takes part in no move. A move in progress counts as unfinished. */
export async function unfinishedMove({
  address,
  moving,
}: Pick<Store, "address" | "moving">): Promise<Status["unfinishedMove"]> {
  const seal = await moving?.seal();
  if (!seal || seal.phase === "left" || seal.phase === "arrived") return null;
  const here = absoluteAddress(address, process.cwd());
  const isTarget = seal.phase !== "leaving";
  return isTarget ? { from: seal.other, to: here, isTarget } : { from: here, to: seal.other, isTarget };
}

/** Each store remembers the other's address, and may be opened from any folder. */
export function absoluteAddress(address: string, cwd: string): string {
  return address.replace(/^(sqlite|files) (.*)$/, (_, kind, path) => `${kind} ${resolve(cwd, path)}`);
}

/** The seal in one line, or null if there is nothing to say. */
export function sealNotice({ moved, unfinishedMove: move, rewound }: Seal): string | null {
  if (rewound !== null) return `this is an older copy of the store, without writes up to ${rewound}`;
  if (moved !== null)
    return `this store has moved to ${moved.to}${moved.asOf ? `; its data is as of ${moved.asOf}` : ""}`;
  if (move === null) return null;
  return move.isTarget
    ? `a move into this store from ${move.from} is unfinished or undone: data may be missing`
    : `a move of this store to ${move.to} is unfinished: it takes no writes until then`;
}

/** The same as a warning with a hint. */
export function sealWarning(seal: Seal): HoldfastError | null {
  const { address, moved, unfinishedMove: move, rewound } = seal;
  const message = `${address}: ${sealNotice(seal)}`;
  if (rewound !== null) {
    const hint = "Put the newer store back. Or see what may have happened since: holdfast restore";
    return new HoldfastError("STORE_REWOUND", message, { hint, data: { rewound } });
  }
  if (moved !== null) {
    const data = { moved: "left", to: moved.to };
    return new HoldfastError("STORE_MOVED", message, { hint: howToReach(moved.to), data });
  }
  if (move === null) return null;
  const { from, to, isTarget } = move;
  return new HoldfastError("STORE_READONLY", message, {
    hint: finishMoveHint(from, to),
    data: { moved: isTarget ? "entering" : "leaving", from, to },
  });
}

export async function refuseIncomplete(store: Pick<Store, "address" | "moving">): Promise<void> {
  const move = await unfinishedMove(store);
  if (move?.isTarget)
    throw sealWarning({ address: store.address, moved: null, unfinishedMove: move, rewound: null });
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
