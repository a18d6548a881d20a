/**
 * The server behind the proxy. Here it is a child process that is restarted when it exits; `http-server.ts`
 * has the server that is reached by an address.
 *
 *     starting ──(replay the handshake)──▶ ready ──exit──▶ drain its pipe ──▶ down ──backoff──▶ starting
 *
 * Messages for a server that is not ready wait in the outbox, in order. When the process exits:
 *
 *     answers in its pipe              are read before it counts as exited
 *     our own unanswered requests      fail with `ServerGone`: their outcome is unknown
 *     our own requests never written   fail with `NotSent`: nothing happened
 *     the client's requests            are reported to `onEnd`; the client is told that they failed
 *     the outbox                       is dropped: the client was told, and answers are for the old process
 *
 * A server that sends a line above the limit is killed: the start of its next message cannot be waited for.
 *
 * A restarted process gets the client's handshake, log level and subscriptions again.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { Id, Line } from "./json-rpc.ts";
import { isResponse, MAX_LINE, parseLine, readLines, requestText, writeLine } from "./json-rpc.ts";
import { flattened, withoutOurVoice } from "./untrusted-line.ts";

/** The request was never written: nothing can have happened. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** The request may have reached the server, and its answer will not come. */
export class ServerGone extends Error {
  override readonly name = "ServerGone";
}

/** The request was abandoned. `late` resolves if the server answers after all. */
export class GivenUp extends Error {
  override readonly name = "GivenUp";
  readonly late: Promise<Line>;

  constructor(why: string, late: Promise<Line>) {
    super(why);
    this.late = late;
  }
}

export interface DownstreamOptions {
  onLine(line: Line): void;
  onEnd(why: string): void;
  /** Must not write to stdout. */
  log(text: string): void;
  /** Backpressure: paused while the server is slow to read. */
  readonly feeding?: Readable;
}

const BACK_OFF_MS = 100;
const LONGEST_BACK_OFF_MS = 30_000;
/** A process that lived this long resets the backoff. */
const HEALTHY_MS = 10_000;
/** Longest wait of our own request for a server that is down. */
const PATIENCE_MS = 20_000;
const STOP_MS = 2_000;
/** A child of the server may keep the pipe open for ever, so draining ends after this long without output. */
const DRAIN_MS = 500;
const DRAIN_INTERVALS = 10;

export interface Asking {
  readonly id?: string;
  /** Called right before the write: from here on the request cannot be withdrawn. */
  begun?(): void;
  sent?(): void;
  /** Aborting it before `begun` prevents the request. */
  readonly signal?: AbortSignal;
}

/** A server that the proxy forwards to. */
export interface Downstream {
  start(): Promise<void>;
  /** Stdout of the server, to pause while the client is slow to read. */
  readonly output: Readable | undefined;
  /** Sends a message of the client as it is. */
  send(raw: string): void;
  /** Sends a request of our own. Rejects with `NotSent` if nothing can have happened. */
  request(method: string, params: unknown, asking?: Asking): Promise<Line>;
  /** Keeps a message of the client's introduction, to send it again to a server that has forgotten it. */
  remember(name: string, raw: string): void;
  forget(name: string): void;
  readonly own: OwnRequests;
  readonly isStopping: boolean;
  stop(): Promise<void>;
}

interface Pending {
  resolve(line: Line): void;
  reject(error: Error): void;
}

/** Our own requests to the server, and the messages of the server that answer them. */
export class OwnRequests {
  private readonly options: Pick<DownstreamOptions, "onLine" | "log">;
  private readonly pending = new Map<Id, Pending>();
  private readonly prefix = `holdfast-${randomBytes(6).toString("hex")}-`;
  private count = 0;

  constructor(options: Pick<DownstreamOptions, "onLine" | "log">) {
    this.options = options;
  }

  /** An id that neither client nor server uses. */
  newId(): string {
    this.count += 1;
    return `${this.prefix}${this.count}`;
  }

  isOwn(id: Id | undefined): boolean {
    return typeof id === "string" && id.startsWith(this.prefix);
  }

  isInFlight(id: string): boolean {
    return this.pending.has(id);
  }

  /** Waits for the answer of a request that `send` sends. */
  answerTo(id: string, send: () => void): Promise<Line> {
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      send();
    });
  }

  abandon(id: string, why: string): void {
    const pending = this.pending.get(id);
    if (!pending) return;
    const late = new Promise<Line>((resolve, reject) => this.pending.set(id, { resolve, reject }));
    // The server may never answer; `pending.reject` has already reported the request.
    late.catch(() => undefined);
    pending.reject(new GivenUp(why, late));
  }

  fail(id: Id, error: Error): void {
    const pending = this.pending.get(id);
    this.pending.delete(id);
    pending?.reject(error);
  }

  failAll(error: Error): void {
    for (const id of [...this.pending.keys()]) this.fail(id, error);
  }

  /** Reads a message of the server: an answer to us, or a line for the client. */
  read(raw: string): void {
    const flat = flattened(raw);
    const parsed = flat ?? parseLine(raw);
    if (!parsed || parsed === "unusable") {
      this.options.log(`the server printed a line that is not a message: ${raw.slice(0, 200)}`);
      return;
    }
    const line = withoutOurVoice(parsed);
    const { message } = line;
    if (!isResponse(message) || !this.isOwn(message.id)) {
      this.options.onLine(line);
      return;
    }
    const pending = this.pending.get(message.id);
    this.pending.delete(message.id);
    pending?.resolve(line);
  }
}

export interface ServerProcessOptions extends DownstreamOptions {
  readonly command: readonly string[];
}

export class ServerProcess implements Downstream {
  readonly own: OwnRequests;
  private readonly options: ServerProcessOptions;
  private process: ChildProcess | null = null;
  private isReady = false;
  isStopping = false;
  private failures = 0;
  private outbox: string[] = [];
  private readonly waiting = new Set<() => void>();
  private ending: Promise<void> = Promise.resolve();
  private restart: NodeJS.Timeout | undefined;
  private readonly introduction = new Map<string, string>();

  constructor(options: ServerProcessOptions) {
    this.options = options;
    this.own = new OwnRequests(options);
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
      killSoon(child);
    });
    const tooLong = (): void => {
      this.options.log(`the server sent a line above ${MAX_LINE >> 20} MB; it is stopped`);
      child.kill("SIGKILL");
    };
    const read = (raw: string): void => {
      if (this.process === child) this.own.read(raw);
    };
    readLines(child.stdout, read, tooLong);
    this.ending = new Promise((resolve) => {
      const end = (why: string): void => {
        if (this.process !== child) return;
        this.ended(why, Date.now() - startedAt);
        resolve();
      };
      child.once("error", (error) => end(`could not start: ${error.message}`));
      child.once("exit", (code, signal) => {
        if (this.process === child) this.isReady = false;
        void this.drain(child).then(() => end(`exited (${signal ?? `exit code ${code}`})`));
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

  get output(): Readable | undefined {
    return this.process?.stdout ?? undefined;
  }

  send(raw: string): void {
    if (this.isReady) void this.write(raw);
    else this.outbox.push(raw);
  }

  remember(name: string, raw: string): void {
    this.introduction.set(name, raw);
  }

  forget(name: string): void {
    this.introduction.delete(name);
  }

  async request(
    method: string,
    params: unknown,
    { id = this.own.newId(), begun, sent, signal }: Asking = {},
  ): Promise<Line> {
    await this.ready(signal);
    if (signal?.aborted) throw new NotSent("nothing was sent: the request was cancelled");
    begun?.();
    return this.ask(id, requestText(id, method, params), sent);
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    clearTimeout(this.restart);
    for (const wake of [...this.waiting]) wake();
    const { process: child } = this;
    if (!child) return;
    child.stdin?.end();
    // A client that stopped reading must not block the server's output, and with it its exit.
    child.stdout?.resume();
    killSoon(child);
    await this.ending;
    child.stdout?.destroy();
  }

  /** Resolves when all output of the exited process is read. Waits for a client that is slow to read. */
  private drain(child: ChildProcess): Promise<void> {
    return new Promise((resolve) => {
      const stdout = child.stdout as Socket | null;
      let left = DRAIN_INTERVALS;
      let heard = stdout?.bytesRead;
      const timer = setInterval(() => {
        if (stdout?.isPaused() && !this.isStopping) return;
        left -= 1;
        if (left === 0 || stdout?.bytesRead === heard) enough();
        heard = stdout?.bytesRead;
      }, DRAIN_MS);
      const enough = (): void => {
        clearInterval(timer);
        resolve();
      };
      child.once("close", enough);
    });
  }

  private ask(id: string, raw: string, sent?: () => void): Promise<Line> {
    if (!this.process?.stdin?.writable)
      return Promise.reject(new NotSent("nothing was sent: the server has closed its input"));
    return this.own.answerTo(id, () => void this.write(raw).then(sent));
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
      // The pipe's error event ends the process, and `ended` settles what was in flight.
      this.options.log(`a message did not reach the server: ${(error as Error).message}`);
    }
  }

  private async introduce(child: ChildProcess): Promise<void> {
    for (const raw of this.introduction.values()) {
      const line = parseLine(raw);
      if (!line || this.process !== child) return;
      if (line.message.id === undefined) await this.write(raw);
      else {
        const id = this.own.newId();
        const { method = "", params } = line.message;
        // `ended` restarts a server that exits during the handshake.
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

  private ended(why: string, livedMs: number): void {
    this.process = null;
    this.isReady = false;
    this.outbox = [];
    this.own.failAll(new ServerGone(`the server ${why} before it answered`));
    this.options.onEnd(why);
    if (this.isStopping) return;
    this.failures = livedMs >= HEALTHY_MS ? 1 : this.failures + 1;
    const pauseMs = Math.min(LONGEST_BACK_OFF_MS, BACK_OFF_MS * 2 ** (this.failures - 1));
    this.options.log(`the server ${why}; restarting it in ${pauseMs} ms`);
    // The timer keeps the proxy alive while the client's input is paused.
    this.restart = setTimeout(() => {
      this.start().catch((error: Error) =>
        this.options.log(`the server cannot be started: ${error.message}`),
      );
    }, pauseMs);
  }
}

function killSoon(child: ChildProcess): void {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const force = setTimeout(() => child.kill("SIGTERM"), STOP_MS);
  const last = setTimeout(() => child.kill("SIGKILL"), 2 * STOP_MS);
  child.once("exit", () => {
    clearTimeout(force);
    clearTimeout(last);
  });
}
