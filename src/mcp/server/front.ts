/**
 * Gives the first answers of `holdfast mcp` before the SDK and the operations are loaded. An agent waits for
 * these answers at its start, and loading takes several times as long as starting Node.
 *
 *     initialize, tools/list ──▶ answered from `first-answers.json`
 *     anything else, or the list was answered, or a pause ──▶ load ──▶ the SDK's server takes over
 *
 * The server gets every message that the front has read, the handshake included, so its state is as if the
 * front were not there. Only its answer to the handshake is dropped: the client has that one. The messages
 * come in their order, and nothing is answered twice.
 *
 * `first-answers.json` is what the server itself answers (`npm run reference` writes it). A message that is
 * not exactly of the expected kind goes to the server: another protocol version, an unknown field, a batch.
 */

import { PassThrough, type Readable } from "node:stream";
import answers from "./first-answers.json" with { type: "json" };

/** The connection of a client, from its first byte on. */
export interface Handover {
  readonly input: Readable;
  /** The ids of requests in `input` that were answered already. */
  readonly answered: Set<number | string>;
}

interface Message {
  readonly jsonrpc?: unknown;
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: { readonly protocolVersion?: unknown; readonly _meta?: unknown };
}

/** A client that does not list the tools at once needs the server next. */
const PAUSE_MS = 500;
/** A longer message is none that the front answers. */
const MAX_BYTES = 64 << 10;
const NEWLINE = 10;

export class Front {
  private readonly stdin: Readable;
  private readonly stdout: NodeJS.WritableStream;
  private readonly answered = new Set<number | string>();
  /** Messages for the server. */
  private kept: Buffer[] = [];
  /** The beginning of a message. */
  private rest: Buffer = Buffer.alloc(0);
  private timer: NodeJS.Timeout | undefined;
  private isNeeded = false;
  private end: (whether: "needed" | "gone") => void = () => undefined;
  /** `gone`: the client has left, and nothing waits for an answer. */
  readonly ended = new Promise<"needed" | "gone">((resolve) => {
    this.end = resolve;
  });

  constructor(stdin: Readable, stdout: NodeJS.WritableStream) {
    this.stdin = stdin;
    this.stdout = stdout;
    stdin.on("data", this.read).once("end", this.leave);
  }

  /** Called once the server is loaded. Until then the front answers what it can. */
  handOver(): Handover {
    const { stdin, answered } = this;
    clearTimeout(this.timer);
    stdin.off("data", this.read).off("end", this.leave);
    const input = new PassThrough();
    input.write(Buffer.concat([...this.kept, this.rest]));
    if (stdin.readableEnded) input.end();
    else stdin.pipe(input);
    return { input, answered };
  }

  private readonly leave = (): void => {
    clearTimeout(this.timer);
    // The server reports a message that was cut.
    this.end(this.isNeeded || this.rest.length > 0 ? "needed" : "gone");
  };

  private readonly need = (): void => {
    this.isNeeded = true;
    clearTimeout(this.timer);
    this.end("needed");
  };

  private readonly read = (chunk: Buffer): void => {
    this.rest = Buffer.concat([this.rest, chunk]);
    for (let end = this.rest.indexOf(NEWLINE); end >= 0; end = this.rest.indexOf(NEWLINE)) {
      const line = this.rest.subarray(0, end + 1);
      this.rest = this.rest.subarray(end + 1);
      this.take(line);
    }
    if (this.rest.length <= MAX_BYTES) return;
    this.kept.push(this.rest);
    this.rest = Buffer.alloc(0);
    this.need();
  };

  private take(line: Buffer): void {
    const did = this.answer(line.toString());
    if (did !== "whole") this.kept.push(line);
    if (did === "no") this.need();
    if (this.isNeeded) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(this.need, did === "whole" ? 0 : PAUSE_MS);
  }

  /** `half`: the server must see the message, too. `no`: only the server can answer. */
  private answer(line: string): "whole" | "half" | "no" {
    const message = line.length > MAX_BYTES ? null : parsed(line);
    if (message?.jsonrpc !== "2.0" || message.params?._meta !== undefined) return "no";
    const { id, method, params } = message;
    const isGreeted = this.answered.size > 0;
    if (id === undefined) return isGreeted && method === "notifications/initialized" ? "half" : "no";
    if (typeof id !== "string" && typeof id !== "number") return "no";
    if (method === "tools/list" && isGreeted && Object.keys(params ?? {}).length === 0) {
      this.say(id, answers.tools);
      return "whole";
    }
    const version = params?.protocolVersion;
    if (method !== "initialize" || isGreeted || !answers.versions.includes(String(version))) return "no";
    this.answered.add(id);
    this.say(id, { protocolVersion: version, ...answers.hello });
    return "half";
  }

  private say(id: number | string, result: object): void {
    this.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
  }
}

function parsed(line: string): Message | null {
  try {
    return JSON.parse(line) as Message | null;
  } catch {
    // The server says what is wrong with it.
    return null;
  }
}
