/**
 * The server behind the proxy: a process that is started again when it ends.
 *
 *     starting ──(handshake replayed, if the client has made one)──▶ ready ──exit──▶ down ──back-off──▶ starting
 *
 * What is said to it while it is not ready waits in the outbox, in order. What it was asked and had not answered when it
 * ended is lost: our own requests fail with `ServerGone`, because nobody knows whether they took effect; the client's
 * are reported to `onEnd`. A request that was never written fails with `NotSent`: nothing can have happened.
 *
 * The client shook hands with the first process only. A later one is given the same handshake, the log level and the
 * subscriptions again; the client does not notice.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import type { Readable } from "node:stream";
import {
  type Id,
  isResponse,
  type Line,
  type Message,
  parseLine,
  readLines,
  requestText,
  writeLine,
} from "./json-rpc.ts";

/** It was never written: nothing can have happened. */
export class NotSent extends Error {
  override readonly name = "NotSent";
}

/** It was written, and the server ended without an answer. */
class ServerGone extends Error {
  override readonly name = "ServerGone";
}

/** Nobody waits for the answer any more. `late` is the answer all the same, if one comes. */
export class GivenUp extends Error {
  override readonly name = "GivenUp";
  readonly late: Promise<Message>;

  constructor(why: string, late: Promise<Message>) {
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

interface Pending {
  resolve(message: Message): void;
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
    // A pipe that broke is followed by the end of its process, which says more.
    child.stdin.on("error", (error) => this.options.log(`cannot write to the server: ${error.message}`));
    readLines(child.stdout, (raw) => this.read(raw));
    this.ending = new Promise((resolve) => {
      const end = (why: string): void => {
        if (this.process !== child) return;
        this.ended(why, Date.now() - startedAt);
        resolve();
      };
      child.once("error", (error) => end(`could not be started: ${error.message}`));
      child.once("exit", (code, signal) => end(`ended (${signal ?? `exit code ${code}`})`));
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

  /** A request of our own. `sent` is called when it is with the system: from there on nobody can call it back. */
  async request(
    method: string,
    params: unknown,
    { id = this.newId(), sent, signal }: { id?: string; sent?: () => void; signal?: AbortSignal } = {},
  ): Promise<Message> {
    await this.ready(signal);
    return this.ask(id, requestText(id, method, params), sent);
  }

  /** Gives up waiting for the answer to a request of ours. */
  abandon(id: string, why: string): void {
    const pending = this.pending.get(id);
    if (!pending) return;
    const late = new Promise<Message>((resolve, reject) => this.pending.set(id, { resolve, reject }));
    // A server that ends without it: nobody has to be told again.
    late.catch(() => undefined);
    pending.reject(new GivenUp(why, late));
  }

  /** Closes its input, and ends it if it does not end by itself. */
  async stop(): Promise<void> {
    this.isStopping = true;
    for (const wake of [...this.waiting]) wake();
    const { process: child } = this;
    if (!child) return;
    child.stdin?.end();
    const force = setTimeout(() => child.kill("SIGTERM"), STOP_MS);
    const last = setTimeout(() => child.kill("SIGKILL"), 2 * STOP_MS);
    await this.ending;
    clearTimeout(force);
    clearTimeout(last);
  }

  private ask(id: string, raw: string, sent?: () => void): Promise<Message> {
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
    if (this.isReady) return;
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
    if (!this.isReady) throw new NotSent("nothing was sent: the server is not running");
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
    pending?.resolve(message);
  }

  private ended(why: string, livedMs: number): void {
    this.process = null;
    this.isReady = false;
    const lost = [...this.pending.values()];
    this.pending.clear();
    for (const { reject } of lost) reject(new ServerGone(`the server ${why} before it answered`));
    this.options.onEnd(why);
    if (this.isStopping) return;
    this.failures = livedMs >= HEALTHY_MS ? 1 : this.failures + 1;
    const pauseMs = Math.min(LONGEST_BACK_OFF_MS, BACK_OFF_MS * 2 ** (this.failures - 1));
    this.options.log(`the server ${why}; it is started again in ${pauseMs} ms`);
    setTimeout(() => {
      if (this.isStopping) return;
      this.start().catch((error: Error) =>
        this.options.log(`the server cannot be started: ${error.message}`),
      );
    }, pauseMs).unref();
  }
}
