/**
 * A store in one file: a log of requests, one JSON line each.
 *
 *     request ──▶ append a line ──▶ fsync ──▶ replay the log up to that line ──▶ the answer
 *
 * The order of the lines decides everything. Each handle replays all lines, its own and those of other
 * processes, on a store in memory, which knows the rules of the port. So every handle comes to the same
 * state and the same answers.
 *
 * After a crash:
 *
 *     the line is incomplete                it is skipped: the next line begins with a line break
 *     the line is complete, not answered    it counts: sending the batch again answers `resent`
 */

import { randomUUID } from "node:crypto";
import { closeSync, fstatSync, fsyncSync, openSync, readSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { HoldfastError, type Store } from "../../src/index.ts";
import { openMemory } from "../../src/testing/index.ts";

/** The verbs that change something, and their requests. */
type Change = "append" | "put" | "lease" | "remove";
type Verb = Change | "read" | "get" | "watch";
type Request<Of extends Verb> = Parameters<Store[Of]>[0];
type Answer<Of extends Verb> = Awaited<ReturnType<Store[Of]>>;

interface Line {
  readonly id: string;
  /** When it was written. Leases expire by this clock, in every handle alike. */
  readonly now: number;
  readonly verb: Change;
  readonly request: unknown;
}

const POLL_MS = 100;

export function openLogStore(file: string, clock: () => number = Date.now): Store {
  return new LogStore(file, clock);
}

class LogStore implements Store {
  readonly address: string;
  readonly #clock: () => number;
  readonly #file: number;
  readonly #memory: Store;
  readonly #timers = new Set<NodeJS.Timeout>();
  #now = 0;
  /** Everything before this byte is replayed. */
  #offset = 0;
  #isClosed = false;

  constructor(file: string, clock: () => number) {
    this.address = `log ${file}`;
    this.#clock = clock;
    this.#file = openSync(file, "a+", 0o600);
    syncFolder(dirname(file));
    this.#memory = openMemory({ clock: () => this.#now });
    this.#catchUp();
  }

  append(batch: Request<"append">) {
    return this.#change("append", batch);
  }

  put(request: Request<"put">) {
    return this.#change("put", request);
  }

  lease(request: Request<"lease">) {
    return this.#change("lease", request);
  }

  remove(request: Request<"remove">) {
    return this.#change("remove", request);
  }

  async read(request: Request<"read">) {
    return this.#current().read(request);
  }

  list: Store["list"] = async (request) => this.#current().list(request);

  async get(request: Request<"get">) {
    return this.#current().get(request);
  }

  async check() {
    return this.#current().check();
  }

  /** Replaying a line of another process calls the watchers of the store in memory. */
  watch(request: Request<"watch">, changed: () => void): () => void {
    const stop = this.#current().watch(request, changed);
    const timer = setInterval(() => this.#catchUp(), POLL_MS).unref();
    this.#timers.add(timer);
    return () => {
      clearInterval(timer);
      this.#timers.delete(timer);
      stop();
    };
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const timer of this.#timers) clearInterval(timer);
    await this.#memory.close();
    closeSync(this.#file);
  }

  /** The store in memory, with all lines that are in the file by now. */
  #current(): Store {
    this.#assertOpen();
    this.#catchUp();
    this.#now = this.#clock();
    return this.#memory;
  }

  async #change<Of extends Change>(verb: Of, request: Request<Of>): Promise<Answer<Of>> {
    this.#assertOpen();
    const line: Line = { id: randomUUID(), now: this.#clock(), verb, request };
    const bytes = Buffer.from(`\n${JSON.stringify(line, encodeBytes)}\n`);
    try {
      // One `write` with O_APPEND, so that lines of several processes do not mix.
      if (writeSync(this.#file, bytes) < bytes.length) throw new Error("only a part was written");
      fsyncSync(this.#file);
    } catch (cause) {
      throw new HoldfastError("STORE_IO", `${this.address}: writing failed (${cause})`, {
        hint: "Check the disk and its free space, then send the same request again.",
        cause,
        unknown: true,
      });
    }
    return this.#catchUp(line.id) as Promise<Answer<Of>>;
  }

  /** Replays all complete lines behind `#offset`, and returns the answer to the line `id`. */
  #catchUp(id?: string): unknown {
    let answer: unknown;
    const bytes = Buffer.alloc(fstatSync(this.#file).size - this.#offset);
    readSync(this.#file, bytes, 0, bytes.length, this.#offset);
    const end = bytes.lastIndexOf("\n") + 1;
    this.#offset += end;
    for (const text of bytes.toString("utf8", 0, end).split("\n")) {
      const line = parseLine(text);
      if (!line) continue;
      this.#now = line.now;
      const verb = this.#memory[line.verb] as (request: unknown) => unknown;
      const result = Promise.resolve(verb.call(this.#memory, line.request));
      // A request that was rejected is rejected again, in every handle.
      result.catch(() => undefined);
      if (line.id === id) answer = result;
    }
    return answer;
  }

  #assertOpen(): void {
    if (!this.#isClosed) return;
    throw new HoldfastError("STORE_CLOSED", `${this.address}: the store was closed`, {
      hint: "Open it again, or close it later than its last use.",
    });
  }
}

/** Null for an empty line, and for one that a crash has cut short. */
function parseLine(text: string): Line | null {
  try {
    return text === "" ? null : (JSON.parse(text, decodeBytes) as Line);
  } catch {
    return null;
  }
}

/** JSON has no bytes: they become `{ "$bytes": "base64" }`. */
function encodeBytes(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const original = this[key];
  return original instanceof Uint8Array ? { $bytes: Buffer.from(original).toString("base64") } : value;
}

function decodeBytes(_key: string, value: unknown): unknown {
  const { $bytes } = (value ?? {}) as { $bytes?: unknown };
  return typeof $bytes === "string" ? new Uint8Array(Buffer.from($bytes, "base64")) : value;
}

/** Makes the name of a new file durable. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  fsyncSync(descriptor);
  closeSync(descriptor);
}
