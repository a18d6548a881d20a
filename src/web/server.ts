/**
 * The server of `holdfast ui`: the page, and the operations as JSON. It has no rule and no SQL of its own.
 *
 *     GET  /                      the page, and four more files from a fixed table
 *     POST /api/login             the token for a cookie          POST /api/logout
 *     GET  /api/me                who answers, which store, whether it may be changed
 *     GET  /api/op/<name>?input=  an operation that reads
 *     POST /api/op/<name>         an operation that changes something
 *     POST /api/live              changes as server-sent events, with `Last-Event-ID`
 *     GET  /api/artifact/<hash>   the bytes of an artifact, as a download
 *
 * It listens on the loopback addresses and nowhere else. `guard.ts` has the checks of a request.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { listenHttp, Refusal, readBody } from "../loopback-http.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type Context, OPERATIONS, type Operation, perform } from "../operations/index.ts";
import { cutToSize, errorAnswer } from "./answers.ts";
import { type Asset, readAssets } from "./assets.ts";
import { Guard, SECURITY_HEADERS } from "./guard.ts";
import { LiveFeed } from "./live.ts";

const MAX_BODY_BYTES = 1_000_000;

/** Reads that write a file of the caller's choice. */
const NOT_ON_A_PAGE = ["export"];
/** Changes that the page offers. The rest stays with the command line, where a person types them. */
const ACTS = [
  ...["resolve", "approve", "deny", "session cancel", "session retry", "session fork", "session effects"],
  ...["session budget", "block resolve", "block bypass", "task release", "task verify", "review", "retract"],
];

export interface UiOptions {
  /** The operations' context; its store is open and stays the caller's to close. */
  readonly context: Context;
  /** 0 for any free port. */
  readonly port: number;
  /** Why nothing may be changed; null if it may. */
  readonly readOnly: string | null;
  /** How a person types a command for this store: `npx holdfast … --store a.db`. Default: `holdfast …`. */
  readonly typed?: { readonly program: string; readonly store: string };
  /** The folder with the files of the page, if it is not beside the program. */
  readonly assets?: string;
  readonly warn: (error: unknown) => void;
}

export interface Ui {
  readonly port: number;
  /** The address with the token: print it, and put it nowhere else. */
  readonly url: string;
  close(): Promise<void>;
}

/** Starts the server. Resolves once it listens. */
export async function startUi(options: UiOptions): Promise<Ui> {
  const holdfast = await options.context.holdfast();
  const guard = new Guard();
  const feed = new LiveFeed(holdfast, options.warn);
  const site = new Site(options, guard, feed, readAssets(options.assets));
  const listening = await listenHttp(
    {
      port: options.port,
      otherPort: "holdfast ui --port 0",
      listensOn: (port) => guard.listensOn(port),
    },
    (request, response) => void site.handle(request, response),
  );
  const { port } = listening;
  return {
    port,
    url: `http://127.0.0.1:${port}/#token=${guard.token}`,
    async close() {
      feed.close();
      await listening.close();
    },
  };
}

class Site {
  private readonly options: UiOptions;
  private readonly guard: Guard;
  private readonly feed: LiveFeed;
  private readonly assets: ReadonlyMap<string, Asset>;
  private readonly operations: ReadonlyMap<string, Operation>;

  constructor(options: UiOptions, guard: Guard, feed: LiveFeed, assets: ReadonlyMap<string, Asset>) {
    this.options = options;
    this.guard = guard;
    this.feed = feed;
    this.assets = assets;
    const offered = [...OPERATIONS.values()].filter(({ name, writes }) =>
      writes ? ACTS.includes(name) : !NOT_ON_A_PAGE.includes(name),
    );
    this.operations = new Map(offered.map((each) => [each.name.replaceAll(" ", "-"), each]));
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.setHeader(name, value);
    try {
      this.guard.checkHost(request);
      await this.route(request, response);
    } catch (error) {
      this.fail(response, error);
    }
  }

  private async route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "", url = "" } = request;
    const at = url.indexOf("?");
    const path = at < 0 ? url : url.slice(0, at);
    if (method === "OPTIONS") throw new Refusal(403, "no cross-origin requests");
    const asset = this.assets.get(path);
    if (asset) {
      if (method !== "GET" && method !== "HEAD") throw new Refusal(405, "read only");
      return sendAsset(request, response, asset);
    }
    if (path === "/api/login") return this.login(request, response);
    const known = path.startsWith("/api/") ? this.find(path) : undefined;
    if (!known) throw new Refusal(404, "no such page");
    this.guard.checkCookie(request);
    if (method !== known.method) throw new Refusal(405, `use ${known.method}`);
    if (known.method === "POST") this.guard.checkWriter(request);
    else this.guard.checkReader(request);
    await known.run(request, response, at < 0 ? "" : url.slice(at + 1));
  }

  private find(path: string): Route | undefined {
    if (path === "/api/me") return { method: "GET", run: async (_, response) => this.sendMe(response) };
    if (path === "/api/live")
      return { method: "POST", run: (request, response) => this.live(request, response) };
    if (path === "/api/logout") return { method: "POST", run: async (_, response) => this.logout(response) };
    const [, hash] = /^\/api\/artifact\/([0-9a-f]{64}(?:[0-9a-f]{32})?)$/.exec(path) ?? [];
    if (hash !== undefined) return { method: "GET", run: (_, response) => this.sendArtifact(response, hash) };
    const [, name = ""] = /^\/api\/op\/([a-z-]{1,64})$/.exec(path) ?? [];
    const operation = this.operations.get(name);
    if (!operation) return undefined;
    if (!operation.writes) {
      return {
        method: "GET",
        run: async (_, response, search) => this.perform(operation, readInput(search), response),
      };
    }
    return {
      method: "POST",
      run: async (request, response) => {
        if (this.options.readOnly !== null) throw new Refusal(403, `read only: ${this.options.readOnly}`);
        await this.perform(operation, await readInputBody(request), response);
      },
    };
  }

  private async login(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== "POST") throw new Refusal(405, "use POST");
    this.guard.checkWriter(request, { isLogin: true });
    const { token } = (await readInputBody(request)) as { token?: unknown };
    if (!this.guard.isToken(token)) throw new Refusal(401, "open the printed address");
    response.setHeader("Set-Cookie", this.guard.setCookie);
    await this.sendMe(response);
  }

  private logout(response: ServerResponse): void {
    response.setHeader("Set-Cookie", this.guard.clearCookie);
    response.setHeader("Clear-Site-Data", '"cookies", "storage"');
    this.feed.close();
    sendJson(response, 200, {});
  }

  private async sendMe(response: ServerResponse): Promise<void> {
    const { context, readOnly, typed = { program: "holdfast", store: "" } } = this.options;
    const { journal } = await context.holdfast();
    const acts = [...this.operations.values()].filter(({ writes }) => writes).map(({ name }) => name);
    const { csrf } = this.guard;
    const store = journal.store.address;
    sendJson(response, 200, { csrf, readOnly, acts, store, by: context.by.name, typed });
  }

  private async perform(operation: Operation, input: unknown, response: ServerResponse): Promise<void> {
    const { context } = this.options;
    const shape = (operation.input as { shape?: Record<string, unknown> }).shape ?? {};
    // The name is the server's: a page cannot answer under another one.
    const given = operation.writes && "by" in shape ? { ...(input as object), by: context.by.name } : input;
    sendJson(response, 200, cutToSize(await perform(operation, context, given)));
  }

  private async live(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.feed.isFull) throw new Refusal(429, "too many open pages");
    request.socket.setTimeout(0);
    response.writeHead(200, { "Content-Type": "text/event-stream; charset=utf-8" });
    response.flushHeaders();
    const last = request.headers["last-event-id"];
    await this.feed.add(response, typeof last === "string" ? last : undefined);
  }

  /** A download that no page can show: the bytes may be a page of their own. */
  private async sendArtifact(response: ServerResponse, hash: string): Promise<void> {
    const bytes = await (await this.options.context.holdfast()).getArtifact(hash);
    response.setHeader("Content-Security-Policy", `${SECURITY_HEADERS["Content-Security-Policy"]}; sandbox`);
    response.setHeader("Content-Type", "application/octet-stream");
    response.setHeader("Content-Disposition", `attachment; filename="${hash}"`);
    response.setHeader("Content-Length", bytes.length);
    response.end(bytes);
  }

  private fail(response: ServerResponse, error: unknown): void {
    if (response.headersSent) {
      response.destroy();
      return;
    }
    if (error instanceof Refusal) {
      // The rest of a refused body is not read.
      if (error.status === 413) response.setHeader("Connection", "close");
      sendJson(response, error.status, { code: "REFUSED", message: error.message, hint: "" });
      return;
    }
    if (!isHoldfastError(error)) this.options.warn(error);
    const { status, body } = errorAnswer(error);
    sendJson(response, status, body);
  }
}

interface Route {
  readonly method: "GET" | "POST";
  run(request: IncomingMessage, response: ServerResponse, search: string): Promise<void>;
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "Content-Type": "application/json; charset=utf-8" });
  response.end(JSON.stringify(body));
}

function sendAsset(request: IncomingMessage, response: ServerResponse, { type, bytes, packed }: Asset): void {
  const takesGzip = /\bgzip\b/.test(request.headers["accept-encoding"] ?? "");
  const body = takesGzip ? packed : bytes;
  if (takesGzip) response.setHeader("Content-Encoding", "gzip");
  response.writeHead(200, { "Content-Type": type, "Content-Length": body.length });
  response.end(request.method === "HEAD" ? undefined : body);
}

function readInput(search: string): unknown {
  const input = new URLSearchParams(search).get("input");
  return input === null ? {} : parse(input);
}

function parse(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value;
  } catch {
    // Refused below, like JSON that is not an object.
  }
  throw new Refusal(400, "the input is not a JSON object");
}

async function readInputBody(request: IncomingMessage): Promise<unknown> {
  return parse(await readBody(request, MAX_BODY_BYTES));
}
