/**
 * The error of a store that a move has sealed, the same for every kind of store: where the other store is,
 * and the commands that lead out. After an interrupted move both stores name the same commands, because
 * neither takes writes.
 */

import { HoldfastError } from "../errors.ts";
import { shellWord } from "../names.ts";

interface Sealed {
  readonly phase: "leaving" | "left" | "entering" | "returning";
  /** The address of the other store: `sqlite /srv/new.db`. */
  readonly other: string;
}

interface SealedDetail {
  readonly cause?: unknown;
  readonly data?: Readonly<Record<string, unknown>>;
}

const WHAT = {
  left: "has moved to",
  leaving: "is being moved to",
  entering: "is being filled from",
  returning: "was given back to",
} as const;

/** `what` names the store in the message; `address` is its own. */
export function sealedStore(
  what: string,
  address: string,
  { phase, other }: Sealed,
  { data, ...detail }: SealedDetail = {},
): HoldfastError {
  const code = phase === "left" ? "STORE_MOVED" : "STORE_READONLY";
  const [from, to] = phase === "entering" || phase === "returning" ? [other, address] : [address, other];
  return new HoldfastError(code, `${what} ${WHAT[phase]} ${other}`, {
    hint: HINTS[phase](from, to),
    data: { ...data, moved: phase, to: other },
    ...detail,
  });
}

const HINTS = {
  left: movedHint,
  leaving: finishMoveHint,
  entering: finishMoveHint,
  returning: finishUndoHint,
};

function movedHint(from: string, to: string): string {
  const [source, target] = [typedAddress(from), typedAddress(to)];
  const back = source === null || target === null ? "undoMove()" : `holdfast move --undo ${source} ${target}`;
  return `Open the other store: this one takes no writes. To go back before the new one has writes: ${back}`;
}

export function finishMoveHint(from: string, to: string): string {
  const [source, target] = [typedAddress(from), typedAddress(to)];
  const until =
    "A target takes no writes until its move is finished, nor does a source that has begun to move.";
  if (source === null || target === null) {
    return `${until} If the move was interrupted, run move() again, or give it up with abandonMove().`;
  }
  const commands = [`holdfast move --yes ${source} ${target}`, `holdfast move --abandon ${source}`];
  return `${until} If the move was interrupted, finish it: ${commands.join("; or give it up: ")}`;
}

export function finishUndoHint(from: string, to: string): string {
  const [source, target] = [typedAddress(from), typedAddress(to)];
  const again =
    source === null || target === null ? "undoMove()" : `holdfast move --undo ${source} ${target}`;
  return `Its move was undone: open the other store. If the undo was interrupted, finish it: ${again}`;
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

interface Rewound {
  readonly lastWriteAt: number;
  readonly streams: readonly Readonly<{ stream: string; head: { seq: number }; known: { seq: number } }>[];
  readonly items: readonly { readonly kind: string }[];
}

const STREAMS_NAMED = 3;

/** The error of a store that is older than it was: a backup was restored over it. */
export function rewoundStore(what: string, { lastWriteAt, streams, items }: Rewound): HoldfastError {
  const when = new Date(lastWriteAt).toISOString();
  const named = streams.map(({ stream, head, known }) => `${stream} ends at ${head.seq}, not ${known.seq}`);
  const more = named.length > STREAMS_NAMED ? " …" : "";
  const details = named.length > 0 ? ` (${named.slice(0, STREAMS_NAMED).join(", ")}${more})` : "";
  const calls = items.filter(({ kind }) => kind === "call").length;
  const message = `${what}: this is an older copy of the store, without writes up to ${when}${details}`;
  const known = calls > 0 ? `, ${calls} known call${calls === 1 ? "" : "s"} among them` : "";
  return new HoldfastError("STORE_REWOUND", message, {
    hint:
      `Effects since then would happen again${known}. Put the newer store back. ` +
      "Or list what may have happened since: holdfast restore; then accept it: holdfast restore --accept",
    data: { lastWriteAt, streams: streams.length, calls },
  });
}
