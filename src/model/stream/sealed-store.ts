/**
 * The error of a store that a copy has sealed, the same for every kind of store: where the other store is,
 * and the commands that lead out. After an interrupted copy both stores name the same commands, because
 * neither takes writes.
 */

import { HoldfastError } from "../errors.ts";
import { shellWord } from "../names.ts";

interface Sealed {
  readonly phase: "leaving" | "left" | "entering";
  /** The address of the other store: `sqlite /srv/new.db`. */
  readonly other: string;
}

interface SealedDetail {
  readonly cause?: unknown;
  readonly data?: Readonly<Record<string, unknown>>;
}

const WHAT = {
  left: "has moved to",
  leaving: "is being copied to",
  entering: "is being filled from",
} as const;

/** `what` names the store in the message; `address` is its own. */
export function sealedStore(
  what: string,
  address: string,
  { phase, other }: Sealed,
  { data, ...detail }: SealedDetail = {},
): HoldfastError {
  const code = phase === "left" ? "STORE_MOVED" : "STORE_READONLY";
  const [from, to] = phase === "entering" ? [other, address] : [address, other];
  return new HoldfastError(code, `${what} ${WHAT[phase]} ${other}`, {
    hint:
      phase === "left" ? "Open the other store: this one takes no more writes." : finishCopyHint(from, to),
    data: { ...data, moved: phase, to: other },
    ...detail,
  });
}

export function finishCopyHint(from: string, to: string): string {
  const [source, target] = [typedAddress(from), typedAddress(to)];
  const until = "Neither store takes writes until that copy is finished.";
  if (source === null || target === null) {
    return `${until} If it was interrupted, run copy() again, or give it up with abandonCopy().`;
  }
  const commands = `holdfast copy ${source} ${target}; or give it up: holdfast copy --abandon ${source}`;
  return `${until} If it was interrupted, finish it: ${commands}`;
}

/** The address of a store as a user types it in a shell; null if no command can reach the store. */
function typedAddress(address: string): string | null {
  const [, kind, place = ""] = /^(sqlite|files|postgres) (.+)$/.exec(address) ?? [];
  if (kind === undefined) return null;
  if (kind === "sqlite") return shellWord(place);
  if (kind === "files") return shellWord(`${place}/`);
  const [, server = "", schema = ""] = /^(.*) (\S+)$/.exec(place) ?? [];
  // A server that listens on a socket has a folder, which goes into a URL parameter.
  const [, folder, database] = /^(\/.*)\/([^/]*)$/.exec(server) ?? [];
  const host = folder === undefined ? "" : `host=${folder}&`;
  return shellWord(`postgres://${folder === undefined ? server : `/${database}`}?${host}schema=${schema}`);
}
