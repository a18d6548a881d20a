/**
 * HTTP servers of this machine: the limits and checks that `holdfast ui` and `holdfast mcp --http` share.
 *
 * A page on the web can make a browser send requests to loopback. Its name resolves to loopback, or it posts
 * across origins. Both show in `Host` and `Origin`, which a page cannot change.
 */

import { createHash, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { HoldfastError } from "./model/errors.ts";

/** A refused request: the status and a short reason that says nothing about the store. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, reason: string) {
    super(reason);
    this.status = status;
  }
}

/** The names of a server on loopback. Any other `Host` is refused, so a foreign name cannot reach it. */
export class LoopbackNames {
  private port = 0;

  /** Called once the port is known. */
  listensOn(port: number): void {
    this.port = port;
  }

  checkHost({ headers, rawHeaders }: IncomingMessage): void {
    const count = rawHeaders.filter((name, index) => index % 2 === 0 && name.toLowerCase() === "host").length;
    if (count !== 1 || !this.names().includes(headers.host ?? "")) throw new Refusal(421, "not our host");
  }

  /** True for the origin of a page that this server gave out. */
  isOwn(origin: string): boolean {
    return this.names().some((name) => origin === `http://${name}`);
  }

  private names(): string[] {
    return [`127.0.0.1:${this.port}`, `[::1]:${this.port}`, `localhost:${this.port}`];
  }
}

/** Compares in a time that depends on neither text: digests have one length. */
export function isSameSecret(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}

const MAX_HEADER_BYTES = 8_192;
const IDLE_MS = 30_000;
const MAX_CONNECTIONS = 64;
const LOOPBACK = ["127.0.0.1", "::1"] as const;

export type Handle = (request: IncomingMessage, response: ServerResponse) => void;

export interface Listening {
  readonly port: number;
  close(): Promise<void>;
}

export interface ListenOptions {
  /** 0 for any free port. */
  readonly port: number;
  /** Default: both loopback addresses. */
  readonly host?: string | undefined;
  /** How long a connection may be silent; 0 for ever. A slow answer is silent. */
  readonly idleMs?: number;
  /** A command that picks another port, for the error. */
  readonly otherPort: string;
  /** Called with the port before the first request is read. */
  listensOn?(port: number): void;
}

/** Starts a server. Resolves once it listens. */
export async function listenHttp(options: ListenOptions, handle: Handle): Promise<Listening> {
  const { host, otherPort, idleMs = IDLE_MS } = options;
  const servers: Server[] = [];
  let { port } = options;
  for (const each of host === undefined ? LOOPBACK : [host]) {
    const server = newServer(handle, idleMs);
    try {
      port = await listen(server, each, port);
    } catch (error) {
      // Some machines have no IPv6; then the first address is enough.
      if (servers.length === 0) throw portError(port, otherPort, error);
      server.close();
      continue;
    }
    options.listensOn?.(port);
    servers.push(server);
  }
  const close = (server: Server): Promise<void> => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(() => resolve()));
  };
  return { port, close: async () => void (await Promise.all(servers.map(close))) };
}

function newServer(handle: Handle, idleMs: number): Server {
  const limits = { maxHeaderSize: MAX_HEADER_BYTES, headersTimeout: IDLE_MS, requestTimeout: IDLE_MS };
  const server = createServer({ ...limits, connectionsCheckingInterval: 5_000 }, handle);
  server.maxConnections = MAX_CONNECTIONS;
  server.keepAliveTimeout = 5_000;
  server.timeout = idleMs;
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (!socket.writable) return;
    const status =
      error.code === "HPE_HEADER_OVERFLOW" ? "431 Request Header Fields Too Large" : "400 Bad Request";
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
  });
  return server;
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port, ipv6Only: host === "::1" }, () => {
      server.removeListener("error", reject);
      resolve((server.address() as AddressInfo).port);
    });
  });
}

function portError(port: number, otherPort: string, error: unknown): unknown {
  if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") return error;
  return new HoldfastError("STREAM_BUSY", `port ${port} is in use`, {
    hint: `Choose another one: ${otherPort} takes any that is free.`,
    data: { port },
    cause: error,
  });
}

/** Reads the body of a request as text. A longer one is refused before the rest is read. */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Refusal(413, "the body is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
