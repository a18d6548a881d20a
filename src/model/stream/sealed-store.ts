/**
 * What a store that a copy has sealed says, whichever kind it is: where the rest is, and the commands that lead out. Of a
 * copy that was broken off both stores name the same ones: neither of them is where work could go on.
 */

import { HoldfastError } from "../errors.ts";

interface Sealed {
  readonly phase: "leaving" | "left" | "entering";
  /** The other store of the copy, as it names itself: `sqlite /srv/new.db`. */
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

/** `what`: the store in the sentence; `address`: as it names itself. */
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
  const until = "Until that copy is finished neither store takes writes.";
  if (source === null || target === null) {
    return `${until} If it was broken off, make it again with copy(), or give it up with abandonCopy().`;
  }
  return `${until} If it was broken off, finish it: holdfast copy ${source} ${target}; or give it up: holdfast copy --abandon ${source}`;
}

/** The address of a store, as one types it; null for one that no command reaches. A password is in none. */
export function typedAddress(address: string): string | null {
  const [, kind, place = ""] = /^(sqlite|files|postgres) (.+)$/.exec(address) ?? [];
  if (kind === undefined) return null;
  if (kind === "sqlite") return shellWord(place);
  if (kind === "files") return shellWord(`${place}/`);
  const [, server = "", schema = ""] = /^(.*) (\S+)$/.exec(place) ?? [];
  // The server's socket is a folder, which a URL takes as a parameter.
  const [, folder, database] = /^(\/.*)\/([^/]*)$/.exec(server) ?? [];
  const host = folder === undefined ? "" : `host=${folder}&`;
  return shellWord(`postgres://${folder === undefined ? server : `/${database}`}?${host}schema=${schema}`);
}

/** As a shell reads it as one. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
