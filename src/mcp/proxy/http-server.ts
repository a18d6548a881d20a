/**
 * The server behind the proxy, reached by an address: Streamable HTTP.
 *
 * A message is one POST. Its answer is the body, as JSON or as a stream of events. The body is kept as text:
 * the SDK's transport would parse it, and numbers and limits would be lost before `untrusted-line.ts`.
 *
 *     connecting ──no connection──▶ NotSent: nothing happened
 *         │ connected: the request may arrive from here on
 *         ▼
 *       sent ──4xx──▶ refused by status: nothing happened, as far as the status shows
 *         │────404 for a session──▶ introduce the client again, send once more
 *         │────5xx, connection lost──▶ ServerGone: the outcome is unknown
 *         ▼
 *     stream ──the answer──▶ answered
 *         └────cut before the answer──▶ resume it by its last event id, else ServerGone
 *
 * A cut answer is where the protocol of 2026-07-28 tells clients to send the request again under a new id.
 * Here only the ledger decides that. A crash or a cut leaves:
 *
 *     cut before the effect, or after it       the same: an unknown call
 *       with `idempotent` or `keyArgument`     sent again under the same key
 *       with `verify`                          looked up
 *       with neither                           a person decides; the request is not sent again
 *     proxy killed while it waits              the same; the next proxy settles it
 *     a request of the client that is a read   an error: the client sends it again
 *
 * A call of the ledger has a connection of its own. A kept connection may be closed by the server at the
 * moment of the request, and that would leave the outcome unknown for no reason.
 */

import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { StringDecoder } from "node:string_decoder";
import { setTimeout as pause } from "node:timers/promises";
import { createParser } from "eventsource-parser";
import { HoldfastError } from "../../model/errors.ts";
import {
  type Asking,
  type Downstream,
  type DownstreamOptions,
  NotSent,
  OwnRequests,
  ServerGone,
} from "./downstream.ts";
import { headersOf, ParameterHeaders } from "./http-headers.ts";
import type { Id, Line, Message } from "./json-rpc.ts";
import { errorText, idAt, isRequest, isResponse, MAX_LINE, parseLine, requestText } from "./json-rpc.ts";

export interface HttpTarget {
  readonly url: URL;
  readonly token: string | undefined;
}

const CONNECT_MS = 20_000;
const RESUME_MS = 1_000;
const RESUMES = 3;
const SERVER_GONE = -32_000;
const SHOWN = 200;
const LOOPBACK = ["127.0.0.1", "[::1]", "localhost"];

export function httpTarget(typed: string, token: string | undefined): HttpTarget {
  const url = URL.canParse(typed) ? new URL(typed) : null;
  const refuse = (state: string, hint: string): never => {
    throw new HoldfastError("INPUT_INVALID", `--url ${url ? url.origin : typed}: ${state}`, { hint });
  };
  if (!url || !["http:", "https:"].includes(url.protocol))
    return refuse("not an address (http:// or https://)", "Use for example --url https://example.com/mcp");
  if (url.username !== "" || url.password !== "")
    return refuse("has a password in it", "Set HOLDFAST_PROXY_TOKEN instead");
  if (token !== undefined && url.protocol === "http:" && !LOOPBACK.includes(url.hostname))
    return refuse("would send the token unencrypted", "Use https://, or unset HOLDFAST_PROXY_TOKEN");
  return { url, token };
}

/** The server refused the request. The ledger reads `status`: 4xx counts as a failure, 5xx as unknown. */
class Refused extends Error {
  override readonly name = "Refused";
  readonly status: number;

  constructor(status: number, text: string) {
    super(`the server answered HTTP ${status}${text === "" ? "" : `: ${text}`}`);
    this.status = status;
  }
}

interface Exchange {
  readonly message: Message;
  readonly isOwn: boolean;
  readonly sent?: (() => void) | undefined;
  isAnswered: boolean;
  lastEvent: string | undefined;
  retryMs: number;
}

export class HttpServer implements Downstream {
  readonly own: OwnRequests;
  readonly output = undefined;
  private readonly target: HttpTarget;
  private readonly options: DownstreamOptions;
  private readonly agent: HttpAgent | HttpsAgent;
  private readonly requests = new Map<ClientRequest, Id | undefined>();
  private readonly introduction = new Map<string, string>();
  private readonly parameters = new ParameterHeaders();
  private session: string | undefined;
  private version: string | undefined;
  isStopping = false;
  /** Messages wait for it: the client's introduction must arrive before its other messages. */
  private introduced: Promise<void> = Promise.resolve();

  constructor(target: HttpTarget, options: DownstreamOptions) {
    this.target = target;
    this.options = options;
    this.agent = new (target.url.protocol === "https:" ? HttpsAgent : HttpAgent)({ keepAlive: true });
    this.own = new OwnRequests(options);
  }

  async start(): Promise<void> {
    // The first message connects.
  }

  remember(name: string, raw: string): void {
    this.introduction.set(name, raw);
  }

  forget(name: string): void {
    this.introduction.delete(name);
  }

  send(raw: string): void {
    const line = parseLine(raw);
    if (!line) return;
    const { message } = line;
    if (message.method === "notifications/cancelled" && this.cancel(line)) return;
    const sending = this.introduced.then(() => this.exchange(raw, message, false));
    if (message.method === "notifications/initialized") {
      this.introduced = sending.catch(() => undefined);
      void this.introduced.then(() => this.listen());
    }
    void sending.catch((error: Error) => {
      if (this.isStopping) return;
      const problem = `${error.message}. Nothing of ours sends it again`;
      this.options.log(error.message);
      if (isRequest(message)) this.own.read(errorText(message.id, { code: SERVER_GONE, message: problem }));
    });
  }

  async request(
    method: string,
    params: unknown,
    { id = this.own.newId(), begun, sent, signal }: Asking = {},
  ): Promise<Line> {
    await this.introduced;
    if (signal?.aborted) throw new NotSent("nothing was sent: the request was cancelled");
    begun?.();
    const raw = requestText(id, method, params);
    const message = { id, method, params: params as NonNullable<Message["params"]> };
    return this.own.answerTo(id, () => {
      this.exchange(raw, message, true, sent).catch((error: Error) => this.own.fail(id, error));
    });
  }

  async stop(): Promise<void> {
    this.isStopping = true;
    this.own.failAll(new ServerGone("the proxy ends"));
    if (this.session !== undefined) {
      const ending = this.connect("DELETE", undefined, { ...this.headers() }, false);
      // The server forgets the session by itself, too.
      await Promise.race([ending.catch(() => undefined), pause(RESUME_MS, undefined, { ref: false })]);
    }
    for (const request of this.requests.keys()) request.destroy();
    this.agent.destroy();
  }

  /**
   * In the protocol of 2026-07-28 a client cancels by closing the stream. The answer of a call of the ledger
   * is still wanted, so only a request of the client itself is closed.
   */
  private cancel(line: Line): boolean {
    if (this.session !== undefined || this.version !== undefined) return false;
    const id = idAt(line, "requestId");
    const [request] = [...this.requests].find(([, each]) => each === id) ?? [];
    if (request && !this.own.isOwn(id)) request.destroy();
    return true;
  }

  /** Sends a message and reads the answer. Resolves when the answer is read. */
  private async exchange(raw: string, message: Message, isOwn: boolean, sent?: () => void): Promise<void> {
    const exchange = { message, isOwn, sent, isAnswered: false, lastEvent: undefined, retryMs: RESUME_MS };
    let response = await this.post(raw, exchange);
    if (response.statusCode === 404 && this.session !== undefined && message.method !== "initialize") {
      response.resume();
      await this.introduceAgain();
      response = await this.post(raw, exchange);
    }
    if (message.method === "initialize") this.session = headerOf(response, "mcp-session-id");
    await this.read(response, exchange);
    if (isRequest(message) && !exchange.isAnswered) await this.resume(exchange);
  }

  private post(raw: string, { message, isOwn, sent }: Exchange): Promise<IncomingMessage> {
    const headers = {
      ...this.headers(),
      ...headersOf(message),
      ...this.parameters.of(message),
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
    };
    return this.connect("POST", raw, headers, isOwn, message.id, sent);
  }

  private headers(): Record<string, string> {
    const { token } = this.target;
    return {
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
      ...(this.session !== undefined && { "Mcp-Session-Id": this.session }),
      ...(this.version !== undefined && { "Mcp-Protocol-Version": this.version }),
    };
  }

  /** Redirects are not followed: they could carry the token and the call to another place. */
  private connect(
    method: string,
    body: string | undefined,
    headers: Record<string, string>,
    isAlone: boolean,
    id?: Id,
    sent?: () => void,
  ): Promise<IncomingMessage> {
    const { url } = this.target;
    return new Promise((resolve, reject) => {
      const isSecure = url.protocol === "https:";
      const agent = isAlone ? false : this.agent;
      const request = (isSecure ? httpsRequest : httpRequest)(url, { method, headers, agent });
      let isConnected = false;
      const timer = setTimeout(() => request.destroy(new Error("no connection")), CONNECT_MS);
      const connected = (): void => {
        isConnected = true;
        clearTimeout(timer);
      };
      this.requests.set(request, id);
      request.once("socket", (socket) => {
        if (socket.connecting) socket.once(isSecure ? "secureConnect" : "connect", connected);
        else connected();
      });
      request.once("finish", () => sent?.());
      request.once("response", resolve);
      request.once("close", () => {
        clearTimeout(timer);
        this.requests.delete(request);
        reject(new ServerGone("the server closed the connection before it answered"));
      });
      request.once("error", (error) => {
        if (isConnected) reject(new ServerGone(`the connection broke before the answer: ${error.message}`));
        else reject(new NotSent(`nothing was sent: ${url.origin} cannot be reached: ${error.message}`));
      });
      request.end(body);
    });
  }

  private async read(response: IncomingMessage, exchange: Exchange): Promise<void> {
    const { statusCode: status = 0, headers } = response;
    const kind = headers["content-type"] ?? "";
    if (status >= 200 && status < 300 && kind.startsWith("text/event-stream")) {
      await this.readEvents(response, exchange);
      return;
    }
    const text = await bodyOf(response);
    const answer = kind.startsWith("application/json") ? parseLine(text)?.message : undefined;
    const isAnswer = answer !== undefined && isResponse(answer) && answer.id === exchange.message.id;
    if (isAnswer) this.take(text, exchange);
    else if (status < 200 || status >= 300) throw new Refused(status, answer?.error?.message ?? "");
  }

  private async readEvents(response: IncomingMessage, exchange: Exchange): Promise<void> {
    const decoder = new StringDecoder("utf8");
    const parser = createParser({
      maxBufferSize: MAX_LINE,
      onEvent: ({ event = "message", data, id }) => {
        if (id !== undefined) exchange.lastEvent = id;
        if (event === "message" && data !== "") this.take(data, exchange);
      },
      onRetry: (ms) => {
        exchange.retryMs = ms;
      },
      onError: (error) => {
        if (error.type === "max-buffer-size-exceeded") response.destroy(error);
      },
    });
    try {
      for await (const chunk of response) parser.feed(decoder.write(chunk as Buffer));
    } catch (error) {
      if (exchange.isAnswered || this.isStopping) return;
      this.options.log(`a stream of the server broke: ${(error as Error).message}`);
    }
  }

  /** A message is one line for the client. JSON has line ends only between its tokens. */
  private take(text: string, exchange: Exchange): void {
    const raw = text.replace(/[\r\n]+/g, " ").trim();
    const message = parseLine(raw)?.message;
    const { method, id } = exchange.message;
    if (message && isResponse(message) && message.id === id) {
      exchange.isAnswered = true;
      const { protocolVersion } = Object(message.result) as { protocolVersion?: unknown };
      if (method === "initialize" && typeof protocolVersion === "string") this.version = protocolVersion;
      if (method === "tools/list") this.parameters.learn(message.result);
    }
    this.own.read(raw);
  }

  private async resume(exchange: Exchange): Promise<void> {
    for (let tries = 0; tries < RESUMES && exchange.lastEvent !== undefined; tries++) {
      await pause(Math.min(exchange.retryMs, CONNECT_MS), undefined, { ref: false });
      if (this.isStopping) return;
      const response = await this.get(exchange.lastEvent).catch(() => null);
      if (!response) continue;
      if (response.statusCode !== 200) {
        response.resume();
        break;
      }
      await this.readEvents(response, exchange);
      if (exchange.isAnswered) return;
    }
    if (!this.isStopping) throw new ServerGone("the server ended the stream before it answered");
  }

  private get(lastEvent: string | undefined): Promise<IncomingMessage> {
    const after = lastEvent === undefined ? {} : { "Last-Event-Id": lastEvent };
    return this.connect(
      "GET",
      undefined,
      { ...this.headers(), ...after, Accept: "text/event-stream" },
      false,
    );
  }

  /** Reads what the server says by itself, as servers of the older protocols do. */
  private async listen(): Promise<void> {
    const exchange: Exchange = {
      message: {},
      isOwn: false,
      isAnswered: false,
      lastEvent: undefined,
      retryMs: RESUME_MS,
    };
    const { session } = this;
    while (!this.isStopping && this.session === session) {
      // A server that cannot be reached now is asked again; requests report the error.
      const response = await this.get(exchange.lastEvent).catch(() => null);
      if (response && response.statusCode !== 200) {
        // 405: the server says nothing by itself.
        response.resume();
        return;
      }
      if (response) await this.readEvents(response, exchange);
      await pause(Math.min(exchange.retryMs, CONNECT_MS), undefined, { ref: false });
    }
  }

  /** The server has forgotten the session. The client need not know: it is introduced again. */
  private introduceAgain(): Promise<void> {
    const lost = this.session;
    const again = this.introduced.then(async () => {
      if (this.session !== lost) return;
      this.session = undefined;
      this.options.log("the server has forgotten the session; the client is introduced again");
      for (const raw of [...this.introduction.values()]) {
        const message = parseLine(raw)?.message ?? {};
        const { id: asked, method = "", params } = message;
        if (asked === undefined) await this.exchange(raw, message, false);
        else {
          const id = this.own.newId();
          const request = { id, method, ...(params && { params }) };
          const answered = this.own.answerTo(id, () => undefined);
          await this.exchange(requestText(id, method, params), request, false);
          await answered;
        }
      }
      void this.listen();
    });
    this.introduced = again.catch(() => undefined);
    return again;
  }
}

function headerOf(response: IncomingMessage, name: string): string | undefined {
  const value = response.headers[name];
  return typeof value === "string" && value !== "" ? value : undefined;
}

async function bodyOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const part of response as AsyncIterable<Buffer>) {
      bytes += part.length;
      if (bytes > MAX_LINE) throw new Error(`it has more than ${MAX_LINE >> 20} MB`);
      parts.push(part);
    }
  } catch (error) {
    throw new ServerGone(`the answer cannot be read: ${(error as Error).message.slice(0, SHOWN)}`);
  }
  return Buffer.concat(parts).toString("utf8");
}
