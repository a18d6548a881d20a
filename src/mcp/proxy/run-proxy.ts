/** The proxy as a process. */

import { realpathSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { sha256 } from "../../model/digest.ts";
import { HoldfastError, isHoldfastError } from "../../model/errors.ts";
import type { Holdfast } from "../../open.ts";
import { Context } from "../../operations/index.ts";
import { drivenByMetadata, type Session } from "../../session/index.ts";
import type { Holder } from "../../store.ts";
import type { HttpAddress } from "../http-front.ts";
import { noteOf } from "../note.ts";
import { ProxyCalls, type RunCall } from "./calls.ts";
import { httpTarget } from "./http-server.ts";
import { errorText, type Id, isRequest, parseLine, readLines, writeLine } from "./json-rpc.ts";
import { DurableProxy } from "./proxy.ts";
import { ProxyConfig, readProxyConfig } from "./proxy-config.ts";

export interface RunProxyOptions {
  /** Starts the server. Empty if `url` is given. */
  readonly command: readonly string[];
  /** The address of a server that speaks Streamable HTTP. */
  readonly url?: string | undefined;
  /** Sent to that server as `Authorization: Bearer …`. */
  readonly token?: string | undefined;
  /** Path of `tools.yaml`. Without it every tool counts as mutating. */
  readonly config?: string | undefined;
  readonly session?: string | undefined;
  readonly store?: string | undefined;
  readonly namespace?: string | undefined;
  readonly by: string;
  /** Serves clients over HTTP instead of stdin and stdout. */
  readonly http?: HttpAddress | undefined;
  readonly input?: Readable;
  readonly output?: Writable;
  readonly log?: (text: string) => void;
  readonly heldMs?: number;
  readonly cancelledMs?: number | undefined;
  /** For tests: wraps the ledger, to plant a fault for a checker. */
  readonly keep?: (keep: RunCall) => RunCall;
}

/** How long a call waits for a session that another process holds. Clients give up after a minute. */
const HELD_MS = 20_000;
const HELD_AGAIN_MS = 250;
const FIRST_REQUEST_MS = 1_000;

export async function runProxy(options: RunProxyOptions): Promise<void> {
  const { input = process.stdin, output = process.stdout } = options;
  const log = options.log ?? ((text: string) => process.stderr.write(`holdfast mcp proxy: ${text}\n`));
  let holdfast: Holdfast | undefined;
  let signals: ReturnType<typeof catchSignals> | undefined;
  let taking: Taking | undefined;
  let calls: ProxyCalls | undefined;
  try {
    const { command, url, token, keep, cancelledMs, heldMs = HELD_MS } = options;
    const server = url === undefined ? command : httpTarget(url, token);
    const config = options.config === undefined ? new ProxyConfig() : readProxyConfig(options.config);
    const context = await Context.of({
      store: options.store,
      namespace: options.namespace,
      by: { name: options.by, role: "worker" },
      caller: "agent",
      warn: (error) => log(noteOf(error)),
    });
    holdfast = await context.create();
    const name = "url" in server ? [`${server.url.origin}${server.url.pathname}`] : server;
    taking = new Taking(holdfast, sessionId(options, config, context.place.root), name, log);
    const held = (): unknown => taking?.why;
    signals = catchSignals();
    const session = taking.session;
    calls = new ProxyCalls({ session, heldMs, held, config, log, keep, cancelledMs });
    const sides = { calls, config, server, log };
    const { http } = options;
    if (http === undefined) {
      const proxy = new DurableProxy({ ...sides, input, output });
      await serve(session, (lost) => servePipes(proxy, signals?.received, lost));
    } else {
      const { serveProxyHttp } = await import("./serve-http.ts");
      await serve(session, (lost) => serveProxyHttp(sides, http, lost));
    }
  } catch (error) {
    if (options.http === undefined) await refuseClient(input, output, error);
    throw error;
  } finally {
    taking?.stop();
    calls?.close();
    await holdfast?.close();
    // An open input keeps the process alive.
    input.destroy();
    signals?.ignore();
  }
}

function catchSignals(): { readonly received: Promise<void>; ignore(): void } {
  const signals = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
  let stop = (): void => undefined;
  const received = new Promise<void>((resolve) => {
    stop = resolve;
  });
  for (const signal of signals) process.once(signal, stop);
  return { received, ignore: () => void signals.map((signal) => process.off(signal, stop)) };
}

/** Serves until the clients are gone, a signal arrives, or another process has taken the session. */
async function serve(taking: Promise<Session>, run: (lost: Promise<void>) => Promise<void>): Promise<void> {
  let session: Session | undefined;
  const lost = taking.then((taken) => {
    session = taken;
    return new Promise<void>((resolve) => {
      taken.lost.addEventListener("abort", () => resolve(), { once: true });
    });
  });
  await run(lost);
  if (session?.lost.aborted) throw session.lost.reason;
}

async function servePipes(proxy: DurableProxy, ...ends: (Promise<void> | undefined)[]): Promise<void> {
  try {
    await proxy.start();
    await Promise.race([proxy.clientGone, ...ends.filter((each) => each !== undefined)]);
  } finally {
    await proxy.close();
  }
}

/** Stable for this project and configuration, so that a restarted proxy resumes its session. */
function sessionId({ session, config: file }: RunProxyOptions, config: ProxyConfig, root: string): string {
  const said = session ?? config.session;
  if (said !== undefined) return said;
  const path = file === undefined ? "" : realpathSync(resolve(file));
  const word =
    basename(root)
      .replace(/[^A-Za-z0-9_-]+/g, "-")
      .replace(/^-+/, "")
      .slice(0, 40) || "project";
  return `mcp-${word}-${sha256(JSON.stringify([root, path])).slice(0, 8)}`;
}

const LABEL = "mcp proxy of";

/**
 * Takes the session, and tries again while another process holds it. The proxy of a client that was killed
 * may outlive it, and the new client needs its tools meanwhile.
 */
class Taking {
  readonly session: Promise<Session>;
  /** Why the session is not taken yet. */
  why: unknown = null;
  private isStopped = false;

  constructor(holdfast: Holdfast, id: string, command: readonly string[], log: (text: string) => void) {
    this.session = this.take(holdfast, id, command, log);
  }

  stop(): void {
    this.isStopped = true;
  }

  private async take(
    holdfast: Holdfast,
    id: string,
    command: readonly string[],
    log: (text: string) => void,
  ): Promise<Session> {
    const label = `${LABEL} ${basename(command[0] ?? "")}`;
    const title = `MCP proxy: ${command.join(" ")}`;
    const metadata = drivenByMetadata("its MCP client");
    for (;;) {
      try {
        return await holdfast.session(id, { label, ifHeld: "throw", ttlMs: null, title, metadata });
      } catch (error) {
        if (!isHoldfastError(error, "SESSION_HELD")) throw error;
        if (this.why === null) log(`${held(error).message}; calls wait for it`);
        this.why = held(error);
      }
      // The client has left: there is no one to take the session for.
      if (this.isStopped) return new Promise(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, HELD_AGAIN_MS).unref());
    }
  }
}

function held(error: HoldfastError): HoldfastError {
  const holder = error.data["holder"] as Holder | null | undefined;
  const who = holder?.label.startsWith(LABEL)
    ? "Another proxy with this configuration runs in this project."
    : "The holder is not a proxy but another program.";
  return new HoldfastError("SESSION_HELD", error.message, {
    hint: `${who} Stop it, or use another session: --session <id>`,
    cause: error,
    data: error.data,
  });
}

const REFUSED = -32_000;

/** Answers the client's first request with the error: clients show that, but rarely show stderr. */
async function refuseClient(input: Readable, output: Writable, error: unknown): Promise<void> {
  if (input.readableEnded || input.destroyed) return;
  const first = new Promise<Id | null>((resolve) => {
    readLines(input, (raw) => {
      const message = parseLine(raw)?.message;
      if (message && isRequest(message)) resolve(message.id);
    });
    input.once("end", () => resolve(null));
    setTimeout(() => resolve(null), FIRST_REQUEST_MS).unref();
  });
  const id = await first;
  const said = error instanceof Error ? error.message : String(error);
  const data = isHoldfastError(error) ? { code: error.code, hint: error.hint } : {};
  const text = isHoldfastError(error) ? `${said}. ${error.hint}` : said;
  if (id !== null) await writeLine(output, errorText(id, { code: REFUSED, message: text, data }));
}
