/**
 * What the processes of this machine tell each other without syncing: how far the journal is known to be durable, who
 * waits for the lock, and until when each lease runs.
 *
 *     {"crc":"…","store":"…","journal":3,"end":81734,"boot":"…"}           the mark, 256 bytes
 *     {"crc":"…","waiter":"…","at":1731700000000}                          who waits, 128 bytes
 *     {"crc":"…","slot":0,"token":4,"deadline":5531200,"ttlMs":30000, …}   a row for each lease, 192 bytes
 *
 * The mark is written after each sync of the journal and before anybody is answered. So everything before it was once
 * synced, whenever it is read; and within one boot everything acknowledged is before it. Readers stop there: what
 * they have seen cannot be lost. After a power cut the mark may be an old one, which is why a writer also looks at what
 * lies behind it.
 *
 * Heartbeats need to be seen but not to be durable: a lease of another boot has run out, since its holder cannot have
 * survived. So a renewal is one small write here and nothing in the journal. Tokens are in the journal only; a row
 * counts while it carries its lease's token, and one that is damaged or missing leaves the time that the grant gave.
 * The lock knows no queue, so a process that writes without a pause would starve the others and their heartbeats. Whoever
 * does not get the lock says so here; whoever has had it then lets others go first. That is a courtesy and only a hint.
 *
 * Losing this file ends leases early, which fencing makes harmless, and loses nothing else.
 */

import { closeSync, constants, fstatSync, fsyncSync, openSync } from "node:fs";
import { crc32 } from "node:zlib";
import { type FileIdentity, identityOf, isSameFile, statOf } from "../kit/index.ts";
import { readUpTo, writeAll } from "./disk.ts";

export interface Mark {
  readonly store: string;
  readonly journal: number;
  readonly end: number;
  readonly boot: string;
}

interface Waiting {
  readonly waiter: string;
  readonly at: number;
}

export interface LeaseTime {
  readonly token: number;
  readonly deadline: number;
  readonly ttlMs: number;
  readonly boot: string;
}

const MARK_BYTES = 256;
const WAITER_BYTES = 128;
const ROWS_AT = MARK_BYTES + WAITER_BYTES;
const ROW_BYTES = 192;
/** How long it counts that somebody waits. By the wall clock: a wrong one costs some courtesy. */
const WAITING_MS = 50;
/** A reader may meet a mark in the middle of being written. */
const TRIES = 5;

export class LiveFile {
  readonly #path: string;
  readonly #descriptor: number;
  readonly #identity: FileIdentity;

  private constructor(path: string, descriptor: number) {
    this.#path = path;
    this.#descriptor = descriptor;
    this.#identity = identityOf(fstatSync(descriptor));
  }

  static open(path: string): LiveFile {
    return new LiveFile(path, openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600));
  }

  /** Null where there is none, which a reader can do without. */
  static openForReading(path: string): LiveFile | null {
    return statOf(path) ? new LiveFile(path, openSync(path, "r")) : null;
  }

  isInPlace(): boolean {
    return isSameFile(this.#identity, statOf(this.#path));
  }

  mark(): Mark | null {
    for (let tries = 0; tries < TRIES; tries++) {
      const mark = decode<Mark>(readUpTo(this.#descriptor, 0, MARK_BYTES));
      if (mark) return mark;
    }
    return null;
  }

  setMark(mark: Mark): void {
    writeAll(this.#descriptor, encode(mark, MARK_BYTES), 0);
  }

  /** Whether anybody but this one waits for the lock. */
  isAwaited(but: string): boolean {
    const waiting = decode<Waiting>(readUpTo(this.#descriptor, MARK_BYTES, WAITER_BYTES));
    return waiting !== null && waiting.waiter !== but && Date.now() - waiting.at < WAITING_MS;
  }

  setWaiting(waiter: string): void {
    writeAll(this.#descriptor, encode({ waiter, at: Date.now() }, WAITER_BYTES), MARK_BYTES);
  }

  /** It waits no longer. */
  clearWaiting(waiter: string): void {
    const waiting = decode<Waiting>(readUpTo(this.#descriptor, MARK_BYTES, WAITER_BYTES));
    if (waiting?.waiter === waiter)
      writeAll(this.#descriptor, encode({ waiter, at: 0 }, WAITER_BYTES), MARK_BYTES);
  }

  time(slot: number): LeaseTime | null {
    const row = decode<LeaseTime & { slot: number }>(
      readUpTo(this.#descriptor, ROWS_AT + slot * ROW_BYTES, ROW_BYTES),
    );
    return row?.slot === slot ? row : null;
  }

  setTime(slot: number, { token, deadline, ttlMs, boot }: LeaseTime): void {
    const row = encode({ slot, token, deadline, ttlMs, boot }, ROW_BYTES);
    writeAll(this.#descriptor, row, ROWS_AT + slot * ROW_BYTES);
  }

  /** So that what a clean end leaves does not depend on when the system writes by itself. */
  sync(): void {
    fsyncSync(this.#descriptor);
  }

  close(): void {
    closeSync(this.#descriptor);
  }
}

const BODY_AT = '{"crc":"00000000",'.length;

function encode(value: object, width: number): Buffer {
  const body = JSON.stringify(value).slice(1);
  const crc = crc32(body).toString(16).padStart(8, "0");
  const line = `{"crc":"${crc}",${body}`;
  if (Buffer.byteLength(line) >= width) throw new RangeError(`${line} does not fit into ${width} bytes`);
  return Buffer.from(`${line.padEnd(width - 1)}\n`);
}

function decode<Value>(bytes: Buffer): Value | null {
  const line = bytes.toString("latin1").trimEnd();
  const crc = /^\{"crc":"([0-9a-f]{8})",/.exec(line)?.[1];
  if (crc === undefined || crc32(line.slice(BODY_AT)) !== Number.parseInt(crc, 16)) return null;
  return JSON.parse(line) as Value;
}
