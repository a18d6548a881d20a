/**
 * The MCP server as a process on stdin and stdout. More than `MAX_BYTES` without a newline end it, because
 * the start of the next message is unknown.
 */

import { writeSync } from "node:fs";
import type { Readable } from "node:stream";
import type { JSONRPCMessage } from "@modelcontextprotocol/server";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { HoldfastError } from "../../model/errors.ts";
import { readLines } from "../proxy/json-rpc.ts";
import { AgentSession, type ServerOptions } from "./agent-session.ts";
import type { Handover } from "./front.ts";
import { addSubscriptions } from "./goal-changes.ts";
import { buildServer } from "./server.ts";

const SHOWN = 80;
const MAX_BYTES = 10 << 20;
const PARSE_ERROR = -32_700;

/** The SDK's transport, extended: answers lines that are not JSON, and reports why it was closed. */
class Wire extends StdioServerTransport {
  private closed: (why: Error | null) => void = () => undefined;
  /** Null after an orderly close. */
  readonly whenClosed = new Promise<Error | null>((resolve) => {
    this.closed = resolve;
  });
  lastError: Error | null = null;
  /** Called when a client of the newer protocol subscribes: the SDK handles the rest. */
  onlisten: () => void = () => undefined;
  private stopReading: () => void = () => undefined;
  private readonly input: Readable;
  private readonly answered: Set<number | string>;

  constructor({ input, answered }: Handover) {
    super(input, process.stdout, { maxBufferSize: MAX_BYTES });
    this.input = input;
    this.answered = answered;
  }

  /** Drops answers that the front has given. */
  override async send(message: JSONRPCMessage): Promise<void> {
    const { id, method } = message as { id?: number | string; method?: string };
    if (id !== undefined && method === undefined && this.answered.delete(id)) return;
    await super.send(message);
  }

  override async start(): Promise<void> {
    await super.start();
    this.stopReading = readLines(this.input, (line) => {
      const message = parsed(line);
      if (message?.method === "subscriptions/listen") this.onlisten();
    });
  }

  override async close(): Promise<void> {
    this.stopReading();
    await super.close();
    this.closed(this.lastError);
  }
}

/** Answers a line that is not JSON: the SDK ignores it, and the client would wait for ever. */
function parsed(line: string): { readonly method?: unknown } | null {
  try {
    return JSON.parse(line) as { method?: unknown } | null;
  } catch (error) {
    const what = `a line is not JSON (${(error as Error).message}): ${line.slice(0, SHOWN)}`;
    process.stdout.write(parseError(what));
    return null;
  }
}

export async function serve(
  options: ServerOptions,
  handover: Handover,
  interrupted: Promise<void>,
): Promise<void> {
  const agent = new AgentSession(options);
  const transport = new Wire(handover);
  const ended = new Promise<Error | null>((resolve) => {
    handover.input.once("end", () => resolve(null));
    process.stdin.once("close", () => resolve(null));
    void interrupted.then(() => resolve(null));
    void transport.whenClosed.then(resolve);
  });
  const handle = serveStdio(
    () => {
      const server = buildServer(agent);
      const changes = addSubscriptions(server, agent);
      transport.onlisten = () => void changes.start();
      server.server.oninitialized = () => agent.meet(server.server.getClientVersion()?.name);
      return server;
    },
    {
      transport,
      onerror: (error) => {
        transport.lastError = error;
        process.stderr.write(`holdfast mcp: ${error.message}\n`);
      },
    },
  );
  const why = await ended;
  await handle.close();
  await agent.close();
  if (why && (why as NodeJS.ErrnoException).code !== "EPIPE") refuse(why);
}

function parseError(message: string): string {
  return `${JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: PARSE_ERROR, message } })}\n`;
}

function refuse(cause: Error): never {
  // An open input keeps the process alive.
  process.stdin.destroy();
  const message = `the client sent a message that cannot be read: ${cause.message}`;
  writeSync(1, parseError(message));
  throw new HoldfastError("INPUT_INVALID", message, {
    hint: `A message is one line of at most ${MAX_BYTES >> 20} MB. Start the server again.`,
    cause,
  });
}
