/**
 * Turns errors of Postgres and of the network into errors that name the store and say what to do. None
 * contains a password: addresses are shown without one, and messages of URL parsers are not passed on.
 *
 * A failure first of all says what happened to the transaction:
 *
 *     unsent        no connection was available: nothing happened
 *     rolled back   the server answered with an error
 *     unknown       the connection was lost, or no answer came in time: it may be committed
 */

import { HoldfastError } from "../../model/errors.ts";
import { sealedStore } from "../../model/stream/index.ts";
import { busyError, type Failure, failureError, unstorableError } from "../kit/index.ts";

type TransactionState = "unsent" | "rolled back" | "unknown";

export class StatementFailure extends Error {
  readonly transaction: TransactionState;
  /** SQLSTATE, if the server answered: five characters such as `40P01`. */
  readonly state: string | null;

  constructor(transaction: TransactionState, cause: unknown) {
    super(cause instanceof Error ? cause.message : String(cause), { cause });
    this.transaction = transaction;
    this.state = sqlState(cause);
  }
}

/** For `catch`: rethrows any other error, which is a bug in the program. */
export function asFailure(error: unknown): StatementFailure {
  if (error instanceof StatementFailure) return error;
  throw error;
}

export function sqlState(error: unknown): string | null {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^[0-9A-Z]{5}$/.test(code) && !/^E[A-Z]{4}$/.test(code) ? code : null;
}

const UNSTORABLE = /^(22|23|54|21)...$/;

/** Raised by the SQL functions that write. `HF004`, a lost lease, sends a group down the slow path. */
const ANOTHER_STORE = "HF001";
const NOT_DURABLE = "HF002";
const SEALED = "HF003";
const WRONG_ISOLATION = "HF005";

const rolledBackWith =
  (states: RegExp) =>
  ({ transaction, state }: StatementFailure): boolean =>
    transaction === "rolled back" && state !== null && states.test(state);

/** A serialization failure or a deadlock: the transaction can run again. */
export const isCollision = rolledBackWith(/^(40001|40P01)$/);
export const isLockTimeout = rolledBackWith(/^(55P03|57014)$/);
/** A standby answered. During a failover it takes writes a moment later. */
export const isStandby = rolledBackWith(/^25006$/);
/** The request has a value that cannot be stored; its neighbours in the group are fine. */
export const isUnstorable = rolledBackWith(UNSTORABLE);

/** The server is restarting, or has no connection left. */
export function isTransientState(state: string): boolean {
  return /^(08...|57P0[1235]|53300|53400)$/.test(state);
}

export function isTransient({ transaction, state }: StatementFailure): boolean {
  return transaction !== "rolled back" && (state === null || isTransientState(state));
}

/** The prepared statement is missing, is another one, or its result type has changed. */
export function isNotPrepared({ state }: StatementFailure): boolean {
  return state !== null && /^(26000|42P05|08P01|0A000)$/.test(state);
}

const REPLACED: Failure = {
  code: "STORE_REPLACED",
  what: "this is no longer the store that was opened",
  hint: "Stop all writers, find out which database is the right one, put it in place and start again.",
};
const REFUSED_LOGIN: Failure = {
  code: "STORE_IO",
  what: "the server refused the login",
  hint: "Check user and password in the address, in PGUSER and PGPASSWORD, and the server's pg_hba.conf.",
};
const FORBIDDEN: Failure = {
  code: "STORE_READONLY",
  what: "this user may not do that",
  hint: "Open the store once as a user who may create schemas, then GRANT this user tables and functions.",
};
const FULL: Failure = {
  code: "STORE_FULL",
  what: "the server has no space left",
  hint: "Free some space on the server's disk. The store works again as soon as a write succeeds.",
};
const DAMAGED: Failure = {
  code: "STORE_CORRUPT",
  what: "the server found damaged data",
  hint: "Stop all writers, keep a copy of the data directory, then restore a backup.",
};

const BY_STATE: Readonly<Record<string, Failure>> = {
  [ANOTHER_STORE]: REPLACED,
  "3F000": REPLACED,
  "42P01": REPLACED,
  "42883": REPLACED,
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
    hint: "It is a standby, or read only: connect to the primary.",
  },
  "42501": FORBIDDEN,
  "53100": FULL,
  "53200": { code: "STORE_IO", what: "the server is out of memory", hint: "See the server's log." },
  "58030": DAMAGED,
  XX001: DAMAGED,
  XX002: DAMAGED,
};

const UNTRUSTED =
  "This machine does not trust the server's certificate. Name the certificate that signed it with " +
  "`sslrootcert=path` in the address or with PGSSLROOTCERT. `sslmode=no-verify` encrypts without checking " +
  "the server's identity.";

const BY_SYSTEM_CODE: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID:
    "The server's certificate is for another name: use that name as the host in the address.",

  ENOTFOUND: "Check the host's name in the address.",
  EAI_AGAIN: "Check the host's name in the address, and that DNS works on this machine.",
  ECONNREFUSED: "Check host and port in the address, and that the server runs.",
  ENOENT: "Check the folder of the server's socket in the address, and that the server runs.",
  ETIMEDOUT: "Check host and port in the address, and whether a firewall blocks them.",
};

const UNREACHABLE: Failure = {
  code: "STORE_IO",
  what: "the server cannot be reached",
  hint: "Check that the server runs and that this machine can reach it, then try again.",
};
/** Messages of `pg` itself, which have no code. */
const BY_MESSAGE: readonly (readonly [RegExp, Failure])[] = [
  [
    /^SASL: .*client password must be/,
    {
      code: "STORE_IO",
      what: "the server asks for a password, but none is set",
      hint:
        "Put it into the address (postgres://user:password@host…), into PGPASSWORD, " +
        "or into ~/.pgpass with mode 600 (chmod 600 ~/.pgpass).",
    },
  ],
  [
    /^The server does not support SSL connections$/,
    {
      code: "STORE_IO",
      what: "the address asks for TLS, but the server does not support it",
      hint:
        "Switch TLS on in the server (ssl = on, with a certificate). " +
        "On a trusted network, write `sslmode=disable` into the address instead.",
    },
  ],
];
const OTHER: Failure = {
  code: "STORE_IO",
  what: "reading or writing failed",
  hint: "See the server's log for what happened.",
};

/** The error for the caller. `unknown`: the change may have been committed nevertheless. */
export function storeError(address: string, failure: unknown, unknown = false): HoldfastError {
  if (failure instanceof HoldfastError) return failure;
  const state = failure instanceof StatementFailure ? failure.state : sqlState(failure);
  if (state === NOT_DURABLE) return notDurable(address, failure);
  if (state === WRONG_ISOLATION) return wrongIsolation(address, detailOf(failure), failure);
  if (state === SEALED) return sealed(address, failure);
  if (state !== null && UNSTORABLE.test(state)) {
    const hint = "Check that numbers are whole and not negative, and that no value is larger than 1 GB.";
    return unstorableError({ address }, causeOf(failure), hint, messageOf(failure));
  }
  const explanation =
    (state !== null && BY_STATE[state]) || (failure instanceof StatementFailure && explain(failure));
  return failureError({ address }, explanation || OTHER, causeOf(failure), {
    unknown,
    data: { state },
    message: messageOf(failure),
  });
}

function explain(failure: StatementFailure): Failure | null {
  if (!isTransient(failure)) return null;
  const known = BY_MESSAGE.find(([pattern]) => pattern.test(messageOf(failure)));
  if (known) return known[1];
  const code = String((failure.cause as { code?: unknown } | null)?.code);
  return { ...UNREACHABLE, hint: BY_SYSTEM_CODE[code] ?? UNREACHABLE.hint };
}

function messageOf(failure: unknown): string {
  const error = failure instanceof StatementFailure ? failure.cause : failure;
  // If none of several addresses of a host answers, the messages are inside an empty AggregateError.
  const inner = error instanceof AggregateError ? error.errors.at(-1) : error;
  return inner instanceof Error ? inner.message : String(inner);
}

function causeOf(failure: unknown): unknown {
  return failure instanceof StatementFailure ? failure.cause : failure;
}

export function busy(address: string, waitedMs: number, failure: unknown): HoldfastError {
  const hint =
    "Look in pg_stat_activity for a transaction that was left open, for example in a psql shell. " +
    "Then try again.";
  return busyError({ address }, { locked: "the data", waitedMs, hint, cause: causeOf(failure) });
}

function detailOf(failure: unknown): string {
  return (causeOf(failure) as { detail: string }).detail;
}

function sealed(address: string, failure: unknown): HoldfastError {
  const seal = JSON.parse(detailOf(failure)) as Parameters<typeof sealedStore>[2];
  return sealedStore(`${address}: this store`, address, seal, { cause: causeOf(failure), data: { address } });
}

export function notDurable(address: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "STORE_NOT_DURABLE",
    `${address}: this server can lose acknowledged writes in a crash (fsync or synchronous_commit is off)`,
    {
      hint:
        "Set fsync = on and synchronous_commit = on for this server, database and user, " +
        "or open with `allowLoss: true`.",
      cause: causeOf(cause),
      data: { address },
    },
  );
}

export function wrongIsolation(address: string, level: string, cause?: unknown): HoldfastError {
  return new HoldfastError(
    "STORE_FOREIGN",
    `${address}: the isolation level of this user is ${level} (expected read committed, the default)`,
    {
      hint:
        "Reset it for this user and database: ALTER ROLE … RESET default_transaction_isolation " +
        "(or ALTER DATABASE …). Or set it for Holdfast alone: add " +
        "options=-c%20default_transaction_isolation%3Dread%5C%20committed to the address. " +
        "Nothing was changed.",
      cause: causeOf(cause),
      data: { address, level },
    },
  );
}
