/**
 * The HTTP side of `holdfast mcp --http` and `holdfast mcp proxy --http`: where it listens and who may ask.
 *
 *     on loopback     `Host` must be ours, `Origin` absent or ours; the token is asked for if there is one
 *     elsewhere       every request has the token as `Authorization: Bearer …`, else it does not start
 *
 * The path is `/mcp`. A request becomes a web `Request`, as the SDK reads them, and a `Response` is streamed.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import { isSameSecret, LoopbackNames, listenHttp, Refusal, readBody } from "../loopback-http.ts";
import { HoldfastError } from "../model/errors.ts";

export interface HttpAddress {
  /** Undefined: both loopback addresses. */
  readonly host: string | undefined;
  readonly port: number;
  /** From HOLDFAST_MCP_TOKEN, never from the command line, which other users can read. */
  readonly token: string | undefined;
}

export type Fetch = (request: Request, body: unknown, incoming: IncomingMessage) => Promise<Response>;

const MCP_PORT = 4647;
const PATH = "/mcp";
const MAX_BODY_BYTES = 32 << 20;
const TOKEN_LENGTH = 16;
const LOOPBACK = ["127.0.0.1", "::1", "localhost"];

/** Reads `4647`, `127.0.0.1:4647`, `[::1]:4647`, `0.0.0.0:8080`; `true` is the option without a value. */
export function httpAddress(typed: string | true, token: string | undefined): HttpAddress {
  const [, host = "", digits = ""] =
    /^(?:(.*):)?(\d{1,5})$/.exec(typed === true ? String(MCP_PORT) : typed) ?? [];
  const port = Number(digits);
  if (digits === "" || port > 65_535) {
    throw new HoldfastError("INPUT_INVALID", `--http ${typed}: not an address (a port, or host:port)`, {
      hint: `Use for example --http ${MCP_PORT}, or --http 0.0.0.0:8080 with HOLDFAST_MCP_TOKEN`,
    });
  }
  const name = host.replace(/^\[(.*)\]$/, "$1");
  const isLoopback = name === "" || LOOPBACK.includes(name);
  if (token !== undefined && token.length < TOKEN_LENGTH) {
    throw new HoldfastError("INPUT_INVALID", `HOLDFAST_MCP_TOKEN: shorter than ${TOKEN_LENGTH} characters`, {
      hint: "Make one: HOLDFAST_MCP_TOKEN=$(openssl rand -hex 24)",
    });
  }
  if (!isLoopback && token === undefined) {
    throw new HoldfastError(
      "INPUT_INVALID",
      `--http ${typed}: other machines can reach it (a token is needed)`,
      {
        hint: "Set HOLDFAST_MCP_TOKEN, for example to $(openssl rand -hex 24), or leave out the host",
      },
    );
  }
  return { host: isLoopback ? undefined : name, port, token };
}

/** Serves until a signal arrives or `ended` resolves. `command` is what a person typed, for messages. */
export async function serveRequests(
  address: HttpAddress,
  command: string,
  fetch: Fetch,
  ended?: Promise<void>,
): Promise<void> {
  const { host, token } = address;
  const guard = new McpGuard(host === undefined, token);
  const stopped = new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve());
  });
  const listening = await listenHttp(
    {
      host,
      port: address.port,
      idleMs: 0,
      otherPort: `${command} 0`,
      listensOn: (port) => guard.names.listensOn(port),
    },
    (request, response) => void handle(request, response, guard, fetch),
  );
  const shown = host === undefined ? "127.0.0.1" : host.includes(":") ? `[${host}]` : host;
  process.stdout.write(`http://${shown}:${listening.port}${PATH}\n`);
  await Promise.race([stopped, ...(ended ? [ended] : [])]);
  await listening.close();
}

class McpGuard {
  readonly names = new LoopbackNames();
  private readonly isLoopback: boolean;
  private readonly token: string | undefined;

  constructor(isLoopback: boolean, token: string | undefined) {
    this.isLoopback = isLoopback;
    this.token = token;
  }

  check(request: IncomingMessage): void {
    const { origin, authorization = "", host } = request.headers;
    if (this.isLoopback) this.names.checkHost(request);
    const isOwn =
      origin === undefined || (this.isLoopback ? this.names.isOwn(origin) : isOriginOf(origin, host));
    if (!isOwn) throw new Refusal(403, "foreign origin");
    const [, typed = ""] = /^Bearer +(\S+)$/i.exec(authorization) ?? [];
    if (this.token !== undefined && !isSameSecret(typed, this.token))
      throw new Refusal(401, "send the token: Authorization: Bearer …");
  }
}

function isOriginOf(origin: string, host: string | undefined): boolean {
  return host !== undefined && (origin === `http://${host}` || origin === `https://${host}`);
}

async function handle(
  incoming: IncomingMessage,
  response: ServerResponse,
  guard: McpGuard,
  fetch: Fetch,
): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  try {
    guard.check(incoming);
    const { method = "", url = "" } = incoming;
    if (url.split("?")[0] !== PATH) throw new Refusal(404, `the path is ${PATH}`);
    if (!["POST", "GET", "DELETE"].includes(method)) throw new Refusal(405, "use POST, GET or DELETE");
    const text = method === "POST" ? await readBody(incoming, MAX_BODY_BYTES) : undefined;
    await send(response, await fetch(webRequest(incoming, text, gone.signal), parsed(text), incoming));
  } catch (error) {
    refuse(response, error);
  }
}

function webRequest(incoming: IncomingMessage, text: string | undefined, signal: AbortSignal): Request {
  const { method = "GET", url = "/", headers } = incoming;
  const given = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value]],
  );
  return new Request(`http://${headers.host ?? "localhost"}${url}`, {
    method,
    headers: given,
    signal,
    ...(text !== undefined && { body: text }),
  });
}

/** Undefined if the body is no JSON: the SDK reads it again and answers with its own error. */
function parsed(text: string | undefined): unknown {
  try {
    return text === undefined ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function send(response: ServerResponse, answer: Response): Promise<void> {
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!answer.body) {
    response.end();
    return;
  }
  response.flushHeaders();
  const body = Readable.fromWeb(answer.body as ReadableStream);
  response.once("close", () => body.destroy());
  // A client that is gone ends the stream; there is no one to report it to.
  body.on("error", () => response.destroy());
  body.pipe(response);
}

function refuse(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const status = error instanceof Refusal ? error.status : 500;
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof Refusal)) process.stderr.write(`holdfast mcp: ${message}\n`);
  if (status === 401) response.setHeader("WWW-Authenticate", "Bearer");
  if (status === 413) response.setHeader("Connection", "close");
  response.writeHead(status, { "Content-Type": "application/json" });
  const code = status === 500 ? -32_603 : -32_000;
  response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } }));
}
