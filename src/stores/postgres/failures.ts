/**
 * From what Postgres and the network say to an error that names the store and tells what to do. A password is in none
 * of them: addresses are shown without, and what a URL parser says is not passed on.
 *
 * What matters most about a failure is what it says of the transaction:
 *
 *   unsent   no connection could be had: nothing has happened
 *   refused  the server answered with an error: the transaction is undone
 *   lost     the connection ended, or nothing was heard in time: it may or may not be committed
 */

import { type ErrorCode, HoldfastError } from "../../model/errors.ts";
import { sealedStore } from "../../model/stream/index.ts";

export type Fate = "unsent" | "refused" | "lost";

/** A statement that failed, before anybody decided what to make of it. */
export class StatementFailure extends Error {
  readonly fate: Fate;
  /** The five characters of SQLSTATE, where the server answered. */
  readonly state: string | null;

  constructor(fate: Fate, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.fate = fate;
    this.state = sqlState(cause);
  }
}

/** For `catch`: anything else is a mistake in the program, and goes on as it is. */
export function asFailure(error: unknown): StatementFailure {
  if (error instanceof StatementFailure) return error;
  throw error;
}

export function sqlState(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code) ? code : null;
}

/** The server is not there for the moment, or has no room: what a restart and a crowd look like. */
const PASSING = /^(08...|57P0[1235]|53300|53400)$/;
/** Others were faster, or stood in the way: the transaction is undone and may simply run again. */
const COLLISION = /^(40001|40P01)$/;
/** A lock could not be had in time. */
const LOCKED = /^(55P03|57014)$/;
/** There is no prepared statement of that name, or another, or one whose result has changed since. */
const NOT_KEPT = /^(26000|42P05|08P01|0A000)$/;
/** The request itself does not fit; its neighbours are not to blame. */
const UNFIT = /^(22|23|54|21)...$/;

/** Raised by the functions that change something. `HF004` sends a flight the long way (`queue.ts`). */
const ANOTHER_STORE = "HF001";
const NOT_DURABLE = "HF002";
const SEALED = "HF003";
const SEES_TOO_LITTLE = "HF005";

export function isPassingState(state: string): boolean {
  return PASSING.test(state);
}

export function isPassing({ fate, state }: StatementFailure): boolean {
  return fate !== "refused" && (state === null || isPassingState(state));
}

export function isCollision({ fate, state }: StatementFailure): boolean {
  return fate === "refused" && state !== null && COLLISION.test(state);
}

export function isLocked({ fate, state }: StatementFailure): boolean {
  return fate === "refused" && state !== null && LOCKED.test(state);
}

/** A standby answered: during a failover it is about to become the server, and takes writes a moment later. */
export function isStandby({ fate, state }: StatementFailure): boolean {
  return fate === "refused" && state === "25006";
}

export function isNotKept({ state }: StatementFailure): boolean {
  return state !== null && NOT_KEPT.test(state);
}

export function isUnfit({ fate, state }: StatementFailure): boolean {
  return fate === "refused" && state !== null && UNFIT.test(state);
}

interface Kind {
  readonly code: ErrorCode;
  readonly what: string;
  readonly hint: string;
}

const GONE: Kind = {
  code: "STORE_REPLACED",
  what: "this is no longer the store that was opened",
  hint: "Stop all writers, find out which database is the right one, put it in place and start again.",
};
const REFUSED_LOGIN: Kind = {
  code: "STORE_IO",
  what: "the server refused the login",
  hint: "Check the user and the password in the address, in PGUSER and PGPASSWORD, and the server's pg_hba.conf.",
};
const FORBIDDEN: Kind = {
  code: "STORE_READONLY",
  what: "this user may not do that",
  hint: "Let a user who may create a schema open the store once, then GRANT this one its tables and functions.",
};
const FULL: Kind = {
  code: "STORE_FULL",
  what: "the server has no space left",
  hint: "Free some space on the server's disk. The store goes on by itself once a write succeeds again.",
};
const DAMAGED: Kind = {
  code: "STORE_CORRUPT",
  what: "the server found damaged data",
  hint: "Stop all writers, keep a copy of the data directory, then restore a backup.",
};

const BY_STATE: Readonly<Record<string, Kind>> = {
  [ANOTHER_STORE]: GONE,
  "3F000": GONE,
  "42P01": GONE,
  "42883": GONE,
  "28000": REFUSED_LOGIN,
  "28P01": REFUSED_LOGIN,
  "3D000": {
    code: "STORE_NOT_FOUND",
    what: "there is no such database",
    hint: "Check the name at the end of the address, or create it: createdb NAME.",
  },
  "25006": {
    code: "STORE_READONLY",
    what: "the server takes no writes",
    hint: "It is a standby, or set to read only: connect to the primary.",
  },
  "42501": FORBIDDEN,
  "53100": FULL,
  "53200": { code: "STORE_IO", what: "the server is out of memory", hint: "See the server's log." },
  "58030": DAMAGED,
  XX001: DAMAGED,
  XX002: DAMAGED,
};

const UNTRUSTED =
  "The server's certificate is not one that this machine trusts. Name the certificate that signed it with `sslrootcert=path` in the address or PGSSLROOTCERT; `sslmode=no-verify` encrypts without knowing to whom.";

const BY_SYSTEM_CODE: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID:
    "The server's certificate is for another name: use the name that stands in it as the host of the address.",

  ENOTFOUND: "Check the host's name in the address.",
  EAI_AGAIN: "Check the host's name in the address, and that names can be looked up here.",
  ECONNREFUSED: "Check host and port in the address, and that the server runs.",
  ENOENT: "Check the folder of the server's socket in the address, and that the server runs.",
  ETIMEDOUT: "Check host and port in the address, and whether a firewall is in between.",
};

const OUT_OF_REACH: Kind = {
  code: "STORE_IO",
  what: "the server cannot be reached",
  hint: "Check that the server runs and that the network leads there, then try again.",
};
/** What `pg` itself says of a login that the server never got to refuse, without a code. */
const BY_WORDS: readonly (readonly [RegExp, Kind])[] = [
  [
    /^SASL: .*client password must be/,
    {
      code: "STORE_IO",
      what: "the server asks for a password, and none was given",
      hint: "Put it into the address (postgres://user:password@host…), into PGPASSWORD or into ~/.pgpass, which only its owner may read (chmod 600).",
    },
  ],
  [
    /^The server does not support SSL connections$/,
    {
      code: "STORE_IO",
      what: "TLS was asked for, and the server speaks none",
      hint: "Switch TLS on in the server (ssl = on, with a certificate), or leave it out where the network may be trusted: no sslmode and no ssl in the address, no PGSSLMODE.",
    },
  ],
];
const OTHER: Kind = {
  code: "STORE_IO",
  what: "reading or writing failed",
  hint: "See the server's log for what happened.",
};

/** An error of ours for whatever came out of a statement. `unknown`: the act may have happened nevertheless. */
export function storeError(address: string, failure: unknown, unknown = false): HoldfastError {
  if (failure instanceof HoldfastError) return failure;
  const state = failure instanceof StatementFailure ? failure.state : sqlState(failure);
  if (state === NOT_DURABLE) return notDurable(address, failure);
  if (state === SEES_TOO_LITTLE) return wrongIsolation(address, detailOf(failure), failure);
  if (state === SEALED) return sealed(address, failure);
  if (state !== null && UNFIT.test(state)) return unfit(address, failure);
  const kind =
    (state !== null && BY_STATE[state]) || (failure instanceof StatementFailure && kindOf(failure));
  const { code, what, hint } = kind || OTHER;
  return new HoldfastError(code, `${address}: ${what} (${said(failure)})`, {
    hint,
    cause: causeOf(failure),
    unknown,
    data: { address, state },
  });
}

function kindOf(failure: StatementFailure): Kind | null {
  if (!isPassing(failure)) return null;
  const named = BY_WORDS.find(([words]) => words.test(said(failure)));
  if (named) return named[1];
  const code = String((failure.cause as { code?: unknown } | null)?.code);
  return { ...OUT_OF_REACH, hint: BY_SYSTEM_CODE[code] ?? OUT_OF_REACH.hint };
}

function said(failure: unknown): string {
  const error = failure instanceof StatementFailure ? failure.cause : failure;
  // Where a name has several addresses and none answers, Node puts the reasons inside and leaves the outside empty.
  const inner = error instanceof AggregateError ? error.errors.at(-1) : error;
  return inner instanceof Error ? inner.message : String(inner);
}

function causeOf(failure: unknown): unknown {
  return failure instanceof StatementFailure ? failure.cause : failure;
}

export function busy(address: string, waitedMs: number, failure: unknown): HoldfastError {
  return new HoldfastError(
    "STORE_BUSY",
    `${address}: others have kept this locked for ${Math.round(waitedMs)} ms`,
    {
      hint: "Look in pg_stat_activity for a transaction that was left open, such as in a psql shell. Then try again.",
      cause: causeOf(failure),
      data: { address, waitedMs },
    },
  );
}

function unfit(address: string, failure: unknown): HoldfastError {
  return new HoldfastError("BATCH_INVALID", `${address}: the store cannot keep this (${said(failure)})`, {
    hint: "Check that numbers are whole and not negative, and that no value is larger than 1 GB.",
    cause: causeOf(failure),
  });
}

function detailOf(failure: unknown): string {
  return (causeOf(failure) as { detail: string }).detail;
}

/** What the schema says of its seal, in the words of every store. */
function sealed(address: string, failure: unknown): HoldfastError {
  const seal = JSON.parse(detailOf(failure)) as Parameters<typeof sealedStore>[2];
  return sealedStore(`${address}: this store`, address, seal, { cause: causeOf(failure), data: { address } });
}

export function notDurable(address: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "STORE_NOT_DURABLE",
    `${address}: this server forgets acknowledged writes when it crashes (fsync or synchronous_commit is off)`,
    {
      hint: "Set fsync = on and synchronous_commit = on for this server, database and user, or open with `allowLoss: true`.",
      cause: cause === undefined ? undefined : causeOf(cause),
      data: { address },
    },
  );
}

export function wrongIsolation(address: string, level: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "STORE_FOREIGN",
    `${address}: transactions of this user are ${level} here; Holdfast needs read committed, the server's own default`,
    {
      hint: "Take it back for this user and database: ALTER ROLE … RESET default_transaction_isolation (or ALTER DATABASE …), or set it for Holdfast alone: add options=-c%20default_transaction_isolation%3Dread%5C%20committed to the address. Nothing was changed.",
      cause: cause === undefined ? undefined : causeOf(cause),
      data: { address, level },
    },
  );
}

export function closed(address: string): HoldfastError {
  return new HoldfastError("STORE_CLOSED", `${address}: the store was closed`, {
    hint: "Open it again, or close it later than its last use.",
    data: { address },
  });
}
