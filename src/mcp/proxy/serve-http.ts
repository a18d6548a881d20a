/**
 * The proxy over Streamable HTTP, for clients that do not start a process of their own.
 *
 *     a session of the older protocols     a connection and a server process of its own
 *     requests of 2026-07-28               one connection for all: they carry everything they need
 *
 * All of them share the calls of one ledger session. A message passes as the text it came as; only the ids of
 * requests of 2026-07-28 are replaced, because two clients may use the same one.
 *
 * Over HTTP a client whose stream breaks sends the request again. So neither a next request nor a closed
 * stream says anything about an answer:
 *
 *     the next request on the same socket     the answers before it were read: HTTP/1.1 has no other order
 *     any other request                       proves nothing
 *     a closed stream                         a call continues; anything else is cancelled
 */

import { randomUUID } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { Refusal } from "../../loopback-http.ts";
import { type HttpAddress, serveRequests } from "../http-front.ts";
import { headersOf } from "./http-headers.ts";
import type { Id, Line } from "./json-rpc.ts";
import {
  errorText,
  idText,
  isRequest,
  isResponse,
  notificationText,
  parseLine,
  readLines,
  withId,
} from "./json-rpc.ts";
import { DurableProxy, type ProxyOptions } from "./proxy.ts";

const MAX_SESSIONS = 64;
const HEADER_MISMATCH = -32_020;
const SESSION_UNKNOWN = -32_001;
const TOO_MANY_UNHEARD = 1_000;

type Sides = Omit<ProxyOptions, "input" | "output" | "delivery">;

/** Serves until a signal arrives or `ended` resolves. */
export async function serveProxyHttp(
  sides: Sides,
  address: HttpAddress,
  ended: Promise<void>,
): Promise<void> {
  const connections = new Connections(sides);
  try {
    await serveRequests(
      address,
      "holdfast mcp proxy --http",
      (request, _body, incoming) => connections.fetch(request, incoming),
      ended,
    );
  } finally {
    await connections.close();
  }
}

class Connections {
  private readonly sides: Sides;
  private readonly sessions = new Map<string, Promise<Connection>>();
  private modern: Promise<Connection> | undefined;
  private readonly answered = new WeakMap<Socket, { readonly connection: Connection; readonly id: Id }[]>();

  constructor(sides: Sides) {
    this.sides = sides;
  }

  async fetch(request: Request, { socket }: IncomingMessage): Promise<Response> {
    for (const { connection, id } of this.answered.get(socket) ?? []) connection.wasRead(id);
    this.answered.delete(socket);
    const session = request.headers.get("mcp-session-id");
    if (request.method === "GET") return (await this.known(session)).listen();
    if (request.method === "DELETE") return this.end(session);
    // A message is one line for the server. JSON has line ends only between its tokens.
    const raw = (await request.text()).replace(/[\r\n]+/g, " ").trim();
    const line = parseLine(raw);
    if (!line) return Response.json(JSON.parse(errorText(null, NOT_A_MESSAGE)), { status: 400 });
    const mismatch = wrongHeader(request, line);
    if (mismatch !== null) {
      const error = { code: HEADER_MISMATCH, message: `the header ${mismatch} differs from the body` };
      return new Response(errorText(line.message.id ?? null, error), { ...JSON_TYPE, status: 400 });
    }
    const isModern = Object.keys(headersOf(line.message)).length > 0;
    const connection = await this.connectionOf(line, session, isModern);
    if (!isRequest(line.message)) return connection.tell(raw);
    const { id, response } = connection.ask(line, isModern, request.signal);
    const read = this.answered.get(socket) ?? [];
    this.answered.set(socket, [...read, { connection, id }]);
    if (line.message.method !== "initialize" || isModern) return response;
    response.headers.set("Mcp-Session-Id", connection.session);
    return response;
  }

  async close(): Promise<void> {
    const open = await Promise.allSettled([...this.sessions.values(), ...(this.modern ? [this.modern] : [])]);
    await Promise.all(open.flatMap((each) => (each.status === "fulfilled" ? [each.value.close()] : [])));
  }

  private async connectionOf(
    { message }: Line,
    session: string | null,
    isModern: boolean,
  ): Promise<Connection> {
    if (isModern) {
      this.modern ??= Connection.start(this.sides);
      return this.modern;
    }
    if (message.method !== "initialize" || session !== null) return this.known(session);
    const made = await Connection.start(this.sides);
    this.sessions.set(made.session, Promise.resolve(made));
    const [oldest] = this.sessions.size > MAX_SESSIONS ? this.sessions.keys() : [];
    if (oldest !== undefined) await this.end(oldest);
    return made;
  }

  private async known(session: string | null): Promise<Connection> {
    if (session === null) throw new Refusal(400, "send Mcp-Session-Id, or initialize first");
    const found = this.sessions.get(session);
    if (!found) throw new Refusal(404, `${SESSION_UNKNOWN}: the session is not known: initialize again`);
    // The session that was idle longest makes room for a new one.
    this.sessions.delete(session);
    this.sessions.set(session, found);
    return found;
  }

  private async end(session: string | null): Promise<Response> {
    const found = await this.known(session);
    this.sessions.delete(found.session);
    await found.close();
    return new Response(null, { status: 200 });
  }
}

const NOT_A_MESSAGE = { code: -32_700, message: "the body is not one message as JSON" };
const JSON_TYPE = { headers: { "Content-Type": "application/json" } };

/** The name of a header that contradicts the body, as the protocol of 2026-07-28 forbids. */
function wrongHeader(request: Request, { message }: Line): string | null {
  const wrong = Object.entries(headersOf(message)).find(
    ([name, value]) => request.headers.get(name) !== value,
  );
  return wrong?.[0] ?? null;
}

interface Asked {
  readonly id: Id;
  readonly stream: EventStream;
}

/** A client, or all clients of 2026-07-28, on one proxy. */
class Connection {
  readonly session = randomUUID();
  private readonly proxy: DurableProxy;
  private readonly input = new PassThrough();
  private readonly output = new PassThrough();
  private readonly asked = new Map<Id, Asked>();
  private listener: EventStream | null = null;
  private readonly unheard: string[] = [];
  private count = 0;

  private constructor(sides: Sides) {
    const { input, output } = this;
    this.proxy = new DurableProxy({ ...sides, input, output, delivery: "confirmed" });
    readLines(output, (raw) => this.hear(raw));
  }

  static async start(sides: Sides): Promise<Connection> {
    const made = new Connection(sides);
    await made.proxy.start();
    return made;
  }

  async close(): Promise<void> {
    this.input.end();
    await this.proxy.close();
    for (const { stream } of this.asked.values()) stream.end();
    this.listener?.end();
  }

  wasRead(id: Id): void {
    this.proxy.wasRead(id);
  }

  tell(raw: string): Response {
    this.input.write(`${raw}\n`);
    return new Response(null, { status: 202 });
  }

  ask({ raw, message }: Line, isModern: boolean, signal: AbortSignal): { id: Id; response: Response } {
    const given = message.id as Id;
    this.count += 1;
    const id = isModern ? `http-${this.count}` : given;
    const stream = new EventStream();
    this.asked.set(id, { id: given, stream });
    const isCall = message.method === "tools/call";
    signal.addEventListener("abort", () => {
      if (!this.asked.delete(id) || !isModern || isCall) return;
      this.input.write(`${notificationText("notifications/cancelled", { requestId: id })}\n`);
    });
    this.input.write(`${isModern ? withId(raw, idText(id)) : raw}\n`);
    return { id, response: stream.response };
  }

  listen(): Response {
    this.listener?.end();
    this.listener = new EventStream();
    for (const raw of this.unheard.splice(0)) this.listener.send(raw);
    return this.listener.response;
  }

  /** A message of the server: an answer, or something for the stream of a request. */
  private hear(raw: string): void {
    const message = parseLine(raw)?.message;
    const id = message?.id;
    if (message && isResponse(message) && id !== undefined) {
      const asked = this.asked.get(id);
      this.asked.delete(id);
      asked?.stream.send(withId(raw, idText(asked.id)));
      asked?.stream.end();
      return;
    }
    const stream = [...this.asked.values()].at(-1)?.stream ?? this.listener;
    if (stream) stream.send(raw);
    else if (this.unheard.length < TOO_MANY_UNHEARD) this.unheard.push(raw);
  }
}

/** A response whose body is a stream of events, one for each message. */
class EventStream {
  readonly response: Response;
  private controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  private readonly encoder = new TextEncoder();

  constructor() {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.controller = controller;
      },
      cancel: () => {
        this.controller = undefined;
      },
    });
    const headers = { "Content-Type": "text/event-stream", "Cache-Control": "no-cache" };
    this.response = new Response(body, { headers });
  }

  send(raw: string): void {
    this.controller?.enqueue(this.encoder.encode(`event: message\ndata: ${raw}\n\n`));
  }

  end(): void {
    this.controller?.close();
    this.controller = undefined;
  }
}
