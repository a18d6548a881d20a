/**
 * The proxy over Streamable HTTP, for clients that do not start a process of their own.
 *
 *     a session of the older protocols     a connection and a server process of its own
 *     requests of 2026-07-28               one connection for all: they carry everything they need
 *
 * All of them share the calls of one ledger session. A message passes as the text it came as. Only requests
 * of 2026-07-28 get other ids and progress tokens, because two clients may use the same ones. Each message of
 * the server has a stream that it belongs to:
 *
 *     an answer                       the stream of its request
 *     progress                        the stream of the request with that progress token
 *     a change of a subscription      the stream of its `subscriptions/listen`
 *     a log message                   names no request: the only one that asked for log messages, else none
 *     anything else                   2025: the newest stream, or that of GET    2026-07-28: none
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
import { setTimeout as pause } from "node:timers/promises";
import { Refusal } from "../../loopback-http.ts";
import { type HttpAddress, serveRequests } from "../http-front.ts";
import { headersOf, mismatch, ParameterHeaders, refusedFor } from "./http-headers.ts";
import type { Id, Line, Message, RpcError } from "./json-rpc.ts";
import {
  errorText,
  HEADER_MISMATCH,
  INVALID_REQUEST,
  idText,
  isRequest,
  isResponse,
  METHOD_NOT_FOUND,
  MISSING_CAPABILITY,
  notificationText,
  PARSE_ERROR,
  parseLine,
  readLines,
  textAt,
  UNSUPPORTED_VERSION,
  withId,
  withTextAt,
} from "./json-rpc.ts";
import { DurableProxy, type ProxyOptions } from "./proxy.ts";

const MAX_SESSIONS = 64;
const SESSION_UNKNOWN = -32_001;
const TOO_MANY_UNHEARD = 1_000;
const VERSION = "io.modelcontextprotocol/protocolVersion";
const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";
const LOG_LEVEL = "io.modelcontextprotocol/logLevel";
/** HTTP statuses for errors of 2026-07-28. Any other error is an answer with status 200. */
const STATUS: Readonly<Record<number, number>> = {
  [PARSE_ERROR]: 400,
  [INVALID_REQUEST]: 400,
  [METHOD_NOT_FOUND]: 404,
  [HEADER_MISMATCH]: 400,
  [MISSING_CAPABILITY]: 400,
  [UNSUPPORTED_VERSION]: 400,
};
/** A later error comes as an event. Until then the status is open, and the client hears nothing. */
const STATUS_OPEN_MS = 5_000;
const LEARN_MS = 5_000;
/** Clients and gateways close a stream that is silent for minutes. */
const KEEP_ALIVE_MS = 15_000;

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
    if (!line) return refusal(null, NOT_A_MESSAGE, 400);
    const { message } = line;
    const refused = refusedFor(request.headers, message);
    if (refused) return refusal(message.id ?? null, refused, 400);
    const isModern = Object.keys(headersOf(message)).length > 0;
    const connection = await this.connectionOf(line, session, isModern);
    if (!isRequest(message)) return connection.tell(line);
    const unserved = isModern ? await connection.unserved(request.headers, message) : null;
    if (unserved) return refusal(message.id, unserved, 400);
    const { id, response } = connection.ask(line, request.signal);
    const read = this.answered.get(socket) ?? [];
    this.answered.set(socket, [...read, { connection, id }]);
    const answer = await response;
    if (message.method === "initialize" && !isModern)
      answer.headers.set("Mcp-Session-Id", connection.session);
    return answer;
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
      this.modern ??= Connection.start(this.sides, true);
      return this.modern;
    }
    if (message.method !== "initialize" || session !== null) return this.known(session);
    const made = await Connection.start(this.sides, false);
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

const NOT_A_MESSAGE = { code: PARSE_ERROR, message: "the body is not one message as JSON" };

function refusal(id: Id | null, error: RpcError, status: number): Response {
  return jsonResponse(errorText(id, error), status);
}

function jsonResponse(text: string, status: number): Response {
  return new Response(text, { status, headers: { "Content-Type": "application/json" } });
}

/** A request that is not answered yet. */
interface Asked {
  /** The client's own id. */
  readonly id: Id;
  readonly message: Message;
  /** The client's progress token, as JSON. */
  readonly token: string | undefined;
  readonly stream: AnswerStream;
}

/** A client, or all clients of 2026-07-28, on one proxy. */
class Connection {
  readonly session = randomUUID();
  private readonly isModern: boolean;
  private readonly proxy: DurableProxy;
  private readonly input = new PassThrough();
  private readonly output = new PassThrough();
  private readonly asked = new Map<Id, Asked>();
  private readonly parameters = new ParameterHeaders();
  /** Empty if the server names none. */
  private versions: readonly string[] = [];
  private discovery: Promise<void> | undefined;
  private listing: Promise<void> | undefined;
  private listener: AnswerStream | null = null;
  private readonly unheard: string[] = [];
  private count = 0;

  private constructor(sides: Sides, isModern: boolean) {
    const { input, output } = this;
    this.isModern = isModern;
    this.proxy = new DurableProxy({ ...sides, input, output, delivery: "confirmed" });
    readLines(output, (raw) => this.hear(raw));
  }

  static async start(sides: Sides, isModern: boolean): Promise<Connection> {
    const made = new Connection(sides, isModern);
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

  /**
   * The error for a request that a server on HTTP refuses: a version that it does not know, or headers that
   * contradict the arguments. A server behind a pipe sees no headers, and reads the version once.
   */
  async unserved(headers: Headers, { method, params }: Message): Promise<RpcError | null> {
    const { _meta } = params ?? {};
    this.discovery ??= this.inTime(this.discover(_meta));
    await this.discovery;
    const requested = String((Object(_meta) as Readonly<Record<string, unknown>>)[VERSION]);
    if (this.versions.length > 0 && !this.versions.includes(requested)) {
      const message = `Unsupported protocol version: ${requested}`;
      return { code: UNSUPPORTED_VERSION, message, data: { supported: this.versions, requested } };
    }
    if (method !== "tools/call") return null;
    this.listing ??= this.inTime(this.listTools(_meta));
    await this.listing;
    return mismatch(headers, this.parameters.of({ method, params: params ?? {} }));
  }

  /** A server that does not answer in time is asked nothing more, and its clients need not wait. */
  private inTime(work: Promise<void>): Promise<void> {
    return Promise.race([work, pause(LEARN_MS, undefined, { ref: false })]);
  }

  private async discover(meta: unknown): Promise<void> {
    const answer = await this.own("server/discover", { _meta: meta });
    const { supportedVersions } = Object(answer?.result) as { supportedVersions?: unknown };
    const { supported = supportedVersions } = Object(answer?.error?.data) as { supported?: unknown };
    if (Array.isArray(supported)) this.versions = supported.map(String);
  }

  private async listTools(meta: unknown): Promise<void> {
    let cursor: unknown;
    do {
      const answer = await this.own("tools/list", { _meta: meta, ...(cursor !== undefined && { cursor }) });
      this.parameters.learn(answer?.result);
      cursor = (Object(answer?.result) as { nextCursor?: unknown }).nextCursor;
    } while (typeof cursor === "string");
  }

  private async own(method: string, params: object): Promise<Message | undefined> {
    const answer = await this.proxy.downstream.request(method, params).catch(() => undefined);
    return answer?.message;
  }

  tell({ raw, message }: Line): Response {
    // In 2026-07-28 a closed stream cancels. Such a message could name the request of another client.
    const isForeign = this.isModern && message.method === "notifications/cancelled";
    if (!isForeign) this.input.write(`${raw}\n`);
    return new Response(null, { status: 202 });
  }

  ask({ raw, message }: Line, signal: AbortSignal): { id: Id; response: Promise<Response> } {
    const given = message.id as Id;
    this.count += 1;
    const id = this.isModern ? `http-${this.count}` : given;
    const stream = new AnswerStream(this.isModern ? STATUS_OPEN_MS : 0);
    this.asked.set(id, { id: given, message, token: textAt(raw, TOKEN), stream });
    const isCall = message.method === "tools/call";
    signal.addEventListener("abort", () => {
      stream.end();
      if (!this.asked.delete(id) || !this.isModern || isCall) return;
      this.input.write(`${notificationText("notifications/cancelled", { requestId: id })}\n`);
    });
    const told = this.isModern ? withTextAt(withId(raw, idText(id)), TOKEN, idText(id)) : raw;
    this.input.write(`${told}\n`);
    return { id, response: stream.response };
  }

  async listen(): Promise<Response> {
    this.listener?.end();
    this.listener = new AnswerStream(0);
    for (const raw of this.unheard.splice(0)) this.listener.send(raw);
    return this.listener.response;
  }

  private hear(raw: string): void {
    const message = parseLine(raw)?.message;
    if (!message) return;
    if (isResponse(message)) this.answer(raw, message);
    else if (this.isModern) this.relate(raw, message);
    else {
      const token = textAt(raw, PROGRESS);
      const asked = [...this.asked.values()];
      const own = token === undefined ? undefined : asked.find((each) => each.token === token);
      const stream = (own ?? asked.at(-1))?.stream ?? this.listener;
      if (stream) stream.send(raw);
      else if (this.unheard.length < TOO_MANY_UNHEARD) this.unheard.push(raw);
    }
  }

  private answer(raw: string, { id, result, error }: Message & { id: Id }): void {
    const asked = this.asked.get(id);
    if (!asked) return;
    this.asked.delete(id);
    if (this.isModern && asked.message.method === "tools/list") this.parameters.learn(result);
    const own = idText(asked.id);
    const status = this.isModern && error ? (STATUS[error.code] ?? 200) : 200;
    asked.stream.answer(withTextAt(withId(raw, own), ["result", "_meta", SUBSCRIPTION], own), status);
  }

  /** Sends a notification of 2026-07-28 to the request that it belongs to. */
  private relate(raw: string, { method, params = {} }: Message): void {
    const { [SUBSCRIPTION]: subscription } = Object(params["_meta"]) as Readonly<Record<string, unknown>>;
    const listening = this.asked.get(subscription as Id);
    const working = this.asked.get(params["progressToken"] as Id);
    if (listening) {
      listening.stream.send(withTextAt(raw, ["params", "_meta", SUBSCRIPTION], idText(listening.id)));
    } else if (method === "notifications/progress" && working?.token !== undefined)
      working.stream.send(withTextAt(raw, PROGRESS, working.token));
    else if (method === "notifications/message") {
      const [first, ...others] = [...this.asked.values()].filter(wantsLog);
      if (others.length === 0) first?.stream.send(raw);
    }
  }
}

const TOKEN = ["params", "_meta", "progressToken"];
const PROGRESS = ["params", "progressToken"];

function wantsLog({ message }: Asked): boolean {
  return Object.hasOwn(Object(message.params?.["_meta"]), LOG_LEVEL);
}

/**
 * The response to a request: a stream of events, one for each message. While its status is open it may still
 * become a JSON response with another status.
 */
class AnswerStream {
  readonly response: Promise<Response>;
  private readonly respond: (response: Response) => void;
  private controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  private readonly timer: NodeJS.Timeout | undefined;
  private keepAlive: NodeJS.Timeout | undefined;
  private isOpen = false;
  private readonly encoder = new TextEncoder();

  constructor(statusOpenMs: number) {
    let respond: (response: Response) => void = () => undefined;
    this.response = new Promise((resolve) => {
      respond = resolve;
    });
    this.respond = respond;
    if (statusOpenMs === 0) this.open();
    else this.timer = setTimeout(() => this.open(), statusOpenMs).unref();
  }

  send(raw: string): void {
    this.open();
    this.write(`event: message\ndata: ${raw}\n\n`);
  }

  /** The last message. */
  answer(raw: string, status: number): void {
    if (this.isOpen || status === 200) this.send(raw);
    else {
      this.isOpen = true;
      this.respond(jsonResponse(raw, status));
    }
    this.end();
  }

  end(): void {
    this.open();
    this.controller?.close();
    this.stop();
  }

  private open(): void {
    if (this.isOpen) return;
    this.isOpen = true;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.controller = controller;
      },
      cancel: () => this.stop(),
    });
    this.keepAlive = setInterval(() => this.write(": keep-alive\n\n"), KEEP_ALIVE_MS).unref();
    const headers = {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-cache",
      "X-Accel-Buffering": "no",
    };
    this.respond(new Response(body, { headers }));
  }

  private stop(): void {
    this.controller = undefined;
    clearTimeout(this.timer);
    clearInterval(this.keepAlive);
  }

  private write(text: string): void {
    this.controller?.enqueue(this.encoder.encode(text));
  }
}
