/**
 * The server behind the proxy: a process that is started again when it ends.
 *
 *     starting ──(handshake replayed, if the client has made one)──▶ ready ──exit──▶ read out ──▶ down ──back-off──▶ starting
 *
 * A process that has ended may have left answers in its pipe: they are read before it counts as ended.
 *
 * What is said to it while it is not ready waits in the outbox, in order. What it was asked and had not answered when it
 * ended is lost: our own requests fail with `ServerGone`, because nobody knows whether they took effect; the client's
 * are reported to `onEnd`, and those that still wait in the outbox are not sent to its successor: their client has been told,
 * and an answer to a question is of no use to a process that has not asked it. A request that was never written fails with
 * `NotSent`: nothing can have happened.
 *
 * The client shook hands with the first process only. A later one is given the same handshake, the log level and the
 * subscriptions again; the client does not notice.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import { type Id, isResponse, type Line, parseLine, readLines, requestText, writeLine } from "./json-rpc.ts";

/** It was never written: nothing can have happened. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** It was written, and the server ended without an answer. */
class ServerGone extends Error {
  override readonly name = "ServerGone";
}

/** Nobody waits for the answer any more. `lazySchema` is the answer all the same, if one comes. */
export class GivenUp extends Error {
  override readonly name = "GivenUp";
  readonly late: Promise<Line>;

  constructor(why: string, late: Promise<Line>) {
    super(why);
    this.late = late;
  }
}

export interface DownstreamOptions {
  readonly command: readonly string[];
  /** What the server says that is no answer to a request of ours. */
  onLine(line: Line): void;
  /** The process ended; nothing that it had not answered will be answered. */
  onEnd(why: string): void;
  /** For people: never to stdout. */
  log(text: string): void;
  /** Paused while the server is slow to read. */
  readonly feeding?: Readable;
}

const BACK_OFF_MS = 100;
const LONGEST_BACK_OFF_MS = 30_000;
/** A process that lived this long counts as healthy, and the next pause is short again. */
const HEALTHY_MS = 10_000;
/** How long a request of ours waits for a server that is down. */
const PATIENCE_MS = 20_000;
const STOP_MS = 2_000;
/** A process that it started may hold its pipe open for ever: after this long without a word, nothing is awaited any more. */
const LAST_WORDS_MS = 500;
/** … and so often at most, however much is said. */
const LAST_WORDS = 10;

export interface Asking {
  readonly id?: string;
  /** Called in the moment in which it is written: from there on nobody can call it back. */
  begun?(): void;
  /** Called when it is with the system. */
  sent?(): void;
  /** Aborted before that, it is not sent. */
  readonly signal?: AbortSignal;
}

interface Pending {
  resolve(line: Line): void;
  reject(error: Error): void;
}

export class Downstream {
  private readonly options: DownstreamOptions;
  private process: ChildProcess | null = null;
  private isReady = false;
  private isStopping = false;
  private failures = 0;
  private outbox: string[] = [];
  private readonly waiting = new Set<() => void>();
  private readonly pending = new Map<Id, Pending>();
  private readonly prefix = `holdfast-${randomBytes(6).toString("hex")}-`;
  private count = 0;
  private ending: Promise<void> = Promise.resolve();
  private restart: NodeJS.Timeout | undefined;
  /** What the client said to introduce itself, in the order in which it is repeated. */
  private readonly introduction = new Map<string, string>();

  constructor(options: DownstreamOptions) {
    this.options = options;
  }

  /** An id that no request of the client or the server has. */
  newId(): string {
    this.count += 1;
    return `${this.prefix}${this.count}`;
  }

  isOwn(id: Id | undefined): boolean {
    return typeof id === "string" && id.startsWith(this.prefix);
  }

  /** Resolves when the process runs; rejects when the command cannot be started at all. */
  start(): Promise<void> {
    const [command = "", ...args] = this.options.command;
    const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    this.process = child;
    const startedAt = Date.now();
    child.stdin.on("error", (error) => {
      this.options.log(`cannot write to the server: ${error.message}`);
      if (this.process === child) this.isReady = false;
      endSoon(child);
    });
    readLines(child.stdout, (raw) => {
      if (this.process === child) this.read(raw);
    });
    this.ending = new Promise((resolve) => {
      const end = (why: string): void => {
        if (this.process !== child) return;
        this.ended(why, Date.now() - startedAt);
        resolve();
      };
      child.once("error", (error) => end(`could not be started: ${error.message}`));
      child.once("exit", (code, signal) => {
        if (this.process === child) this.isReady = false;
        void this.lastWords(child).then(() => end(`ended (${signal ?? `exit code ${code}`})`));
      });
    });
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("spawn", () => {
        resolve();
        void this.introduce(child);
      });
    });
  }

  /** What it says, to be paused while the client is slow to read. */
  get output(): Readable | undefined {
    return this.process?.stdout ?? undefined;
  }

  /** Passes a line of the client on, as it is. */
  send(raw: string): void {
    if (this.isReady) void this.write(raw);
    else this.outbox.push(raw);
  }

  /** Part of what a later process has to be told before anything else; the same name again replaces it. */
  remember(name: string, raw: string): void {
    this.introduction.set(name, raw);
  }

  forget(name: string): void {
    this.introduction.delete(name);
  }

  /** A request of our own. */
  async request(
    method: string,
    params: unknown,
    { id = this.newId(), begun, sent, signal }: Asking = {},
  ): Promise<Line> {
    await this.ready(signal);
    if (signal?.aborted) throw new NotSent("nothing was sent: it was given up before");
    begun?.();
    return this.ask(id, requestText(id, method, params), sent);
  }

  /** Whether a request of ours is with the process that runs now, and not answered. */
  isUnderWay(id: string): boolean {
    return this.pending.has(id);
  }

  /** Gives up waiting for the answer to a request of ours. */
  abandon(id: string, why: string): void {
    const pending = this.pending.get(id);
    if (!pending) return;
    const late = new Promise<Line>((resolve, reject) => this.pending.set(id, { resolve, reject }));
    // A server that ends without it: nobody has to be told again.
    late.catch(() => undefined);
    pending.reject(new GivenUp(why, late));
  }

  /** Closes its input, and ends it if it does not end by itself. */
  async stop(): Promise<void> {
    this.isStopping = true;
    clearTimeout(this.restart);
    for (const wake of [...this.waiting]) wake();
    const { process: child } = this;
    if (!child) return;
    child.stdin?.end();
    // A client that reads no more must not keep what the server has to say, and with it the server.
    child.stdout?.resume();
    endSoon(child);
    await this.ending;
    child.stdout?.destroy();
  }

  /** Resolves when all that a process said before its end has been read; a client that is slow to read is waited for. */
  private lastWords(child: ChildProcess): Promise<void> {
    return new Promise((resolve) => {
      const stdout = child.stdout as Socket | null;
      let left = LAST_WORDS;
      let heard = stdout?.bytesRead;
      const timer = setInterval(() => {
        if (stdout?.isPaused() && !this.isStopping) return;
        left -= 1;
        if (left === 0 || stdout?.bytesRead === heard) enough();
        heard = stdout?.bytesRead;
      }, LAST_WORDS_MS);
      const enough = (): void => {
        clearInterval(timer);
        resolve();
      };
      child.once("close", enough);
    });
  }

  private ask(id: string, raw: string, sent?: () => void): Promise<Line> {
    return new Promise((resolve, reject) => {
      if (!this.process?.stdin?.writable) {
        reject(new NotSent("nothing was sent: the server has closed its input"));
        return;
      }
      this.pending.set(id, { resolve, reject });
      void this.write(raw).then(sent);
    });
  }

  private async ready(signal: AbortSignal | undefined): Promise<void> {
    if (this.isReady || signal?.aborted) return;
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, PATIENCE_MS);
      this.waiting.add(wake);
      signal?.addEventListener("abort", wake, { once: true });
    });
    if (!this.isReady && !signal?.aborted) throw new NotSent("nothing was sent: the server is not running");
  }

  private async write(raw: string): Promise<void> {
    const stdin = this.process?.stdin;
    if (!stdin?.writable) return;
    try {
      await writeLine(stdin, raw, this.options.feeding);
    } catch (error) {
      // Reported by the pipe's own error event; the end of the process decides about what was under way.
      this.options.log(`a message did not reach the server: ${(error as Error).message}`);
    }
  }

  private async introduce(child: ChildProcess): Promise<void> {
    for (const raw of this.introduction.values()) {
      const line = parseLine(raw);
      if (!line || this.process !== child) return;
      if (line.message.id === undefined) await this.write(raw);
      else {
        const id = this.newId();
        const { method = "", params } = line.message;
        // A server that ends during the handshake is started again, and introduced again, by `ended`.
        const answer = await this.ask(id, requestText(id, method, params)).catch(() => null);
        if (!answer) return;
      }
    }
    if (this.process !== child) return;
    this.isReady = true;
    const outbox = this.outbox;
    this.outbox = [];
    for (const raw of outbox) void this.write(raw);
    for (const wake of [...this.waiting]) wake();
  }

  private read(raw: string): void {
    const line = parseLine(raw);
    if (!line) {
      this.options.log(`the server printed what is no message: ${raw.slice(0, 200)}`);
      return;
    }
    const { message } = line;
    if (!isResponse(message) || !this.isOwn(message.id)) {
      this.options.onLine(line);
      return;
    }
    const pending = this.pending.get(message.id);
    this.pending.delete(message.id);
    pending?.resolve(line);
  }

  private ended(why: string, livedMs: number): void {
    this.process = null;
    this.isReady = false;
    this.outbox = [];
    const lost = [...this.pending.values()];
    this.pending.clear();
    for (const { reject } of lost) reject(new ServerGone(`the server ${why} before it answered`));
    this.options.onEnd(why);
    if (this.isStopping) return;
    this.failures = livedMs >= HEALTHY_MS ? 1 : this.failures + 1;
    const pauseMs = Math.min(LONGEST_BACK_OFF_MS, BACK_OFF_MS * 2 ** (this.failures - 1));
    this.options.log(`the server ${why}; it is started again in ${pauseMs} ms`);
    // Kept running by this: a proxy whose client's input is paused has nothing else that would.
    this.restart = setTimeout(() => {
      this.start().catch((error: Error) =>
        this.options.log(`the server cannot be started: ${error.message}`),
      );
    }, pauseMs);
  }
}

/** A process that cannot be told anything any more is of no use, even if it lives on: it is ended if it does not end itself. */
function endSoon(child: ChildProcess): void {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const force = setTimeout(() => child.kill("SIGTERM"), STOP_MS);
  const last = setTimeout(() => child.kill("SIGKILL"), 2 * STOP_MS);
  child.once("exit", () => {
    clearTimeout(force);
    clearTimeout(last);
  });
}
