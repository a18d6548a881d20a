/**
 * A store that `copy` moved elsewhere can still be read, and shows for ever how things were then. Whoever reads it has to
 * be told: nothing else would tell a person, or an agent, that the work went on in another place. One look at the seal.
 */

import { isAbsolute, join } from "node:path";
import { HoldfastError } from "../model/index.ts";
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
