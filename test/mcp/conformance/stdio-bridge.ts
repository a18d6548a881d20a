// Serves a program that speaks MCP on stdin and stdout as Streamable HTTP. The conformance tool speaks HTTP
// only. Messages pass unread, except for ids: requests of one program get distinct ones.
//
//     a session of the older protocols     a program of its own
//     requests of 2026-07-28               one program for all

import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";

interface Message {
  readonly id?: string | number;
  readonly method?: string;
  readonly params?: { readonly _meta?: Readonly<Record<string, unknown>>; readonly requestId?: unknown };
}

const VERSION = "io.modelcontextprotocol/protocolVersion";

class Program {
  private readonly child: ChildProcess;
  private readonly asked = new Map<string, { readonly id: Message["id"]; readonly stream: ServerResponse }>();
  private listener: ServerResponse | null = null;
  private readonly unheard: string[] = [];
  private count = 0;

  constructor([command = "", ...args]: readonly string[], cwd: string) {
    this.child = spawn(command, args, { cwd, stdio: ["pipe", "pipe", "ignore"] });
    // A program that is gone takes no more messages.
    this.child.stdin?.on("error", () => undefined);
    if (this.child.stdout)
      createInterface({ input: this.child.stdout }).on("line", (line) =>
        this.hear(JSON.parse(line) as Message),
      );
  }

  tell(message: Message): void {
    this.child.stdin?.write(`${JSON.stringify(message)}\n`);
  }

  ask(message: Message, stream: ServerResponse): void {
    const id = `bridge-${++this.count}`;
    this.asked.set(id, { id: message.id, stream });
    stream.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" });
    stream.flushHeaders();
    stream.once("close", () => {
      if (!this.asked.delete(id) || message.params?._meta?.[VERSION] === undefined) return;
      this.tell({ method: "notifications/cancelled", params: { requestId: id }, ...RPC });
    });
    this.tell({ ...message, id });
  }

  listen(stream: ServerResponse): void {
    stream.writeHead(200, { "Content-Type": "text/event-stream" });
    stream.flushHeaders();
    this.listener = stream;
    stream.once("close", () => {
      if (this.listener === stream) this.listener = null;
    });
    for (const event of this.unheard.splice(0)) stream.write(event);
  }

  end(): void {
    for (const { stream } of this.asked.values()) stream.destroy();
    this.listener?.end();
    this.child.stdin?.end();
    this.child.kill();
  }

  private hear(message: Message): void {
    const own = message.method === undefined ? this.asked.get(String(message.id)) : undefined;
    if (own) {
      this.asked.delete(String(message.id));
      own.stream.end(event({ ...message, id: own.id }));
      return;
    }
    const stream = [...this.asked.values()].at(-1)?.stream ?? this.listener;
    if (stream) stream.write(event(message));
    else this.unheard.push(event(message));
  }
}

const RPC = { jsonrpc: "2.0" } as const;

function event(message: object): string {
  return `event: message\ndata: ${JSON.stringify(message)}\n\n`;
}

export class Bridge {
  url = "";
  private readonly server: Server;
  private readonly command: readonly string[];
  private readonly cwd: () => string;
  private readonly sessions = new Map<string, Program>();
  private modern: Program | undefined;

  /** `cwd` is called for each program: two proxies must not share a session. */
  constructor(command: readonly string[], cwd: () => string) {
    this.command = command;
    this.cwd = cwd;
    this.server = createServer((request, response) => void this.serve(request, response));
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/mcp`;
    return this.url;
  }

  async stop(): Promise<void> {
    for (const program of [...this.sessions.values(), this.modern]) program?.end();
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = "";
    for await (const chunk of request) text += String(chunk);
    const message = (text === "" ? {} : JSON.parse(text)) as Message;
    const program = this.programOf(request, message, response);
    if (!program) response.writeHead(404).end();
    else if (request.method === "GET") program.listen(response);
    else if (request.method === "DELETE") {
      this.sessions.delete(String(request.headers["mcp-session-id"]));
      program.end();
      response.writeHead(200).end();
    } else if (message.method !== undefined && message.id !== undefined) program.ask(message, response);
    else {
      program.tell(message);
      response.writeHead(202).end();
    }
  }

  private programOf(
    request: IncomingMessage,
    message: Message,
    response: ServerResponse,
  ): Program | undefined {
    const { "mcp-session-id": session } = request.headers;
    if (message.method === "initialize") {
      const id = randomUUID();
      const made = new Program(this.command, this.cwd());
      this.sessions.set(id, made);
      response.setHeader("Mcp-Session-Id", id);
      return made;
    }
    if (typeof session === "string") return this.sessions.get(session);
    if (message.params?._meta?.[VERSION] === undefined) return undefined;
    this.modern ??= new Program(this.command, this.cwd());
    return this.modern;
  }
}
