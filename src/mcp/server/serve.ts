/**
 * The MCP server as a process on stdin and stdout. More than `MAX_BYTES` without a newline end it, because
 * the start of the next message is unknown.
 */

import { writeSync } from "node:fs";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { HoldfastError } from "../../model/errors.ts";
import { AgentSession, type ServerOptions } from "./agent-session.ts";
import { buildServer } from "./server.ts";

const END = 0x0a;
const SHOWN = 80;

/** Reports lines that are not JSON. The SDK ignores them, and the client would wait for ever. */
class BrokenLines {
  private readonly refuse: (message: string) => void;
  private parts: Buffer[] = [];

  constructor(refuse: (message: string) => void) {
    this.refuse = refuse;
  }

  readonly read = (chunk: Buffer): void => {
    let from = 0;
    for (let end = chunk.indexOf(END); end >= 0; end = chunk.indexOf(END, from)) {
      this.check(Buffer.concat([...this.parts, chunk.subarray(from, end)]).toString("utf8"));
      this.parts = [];
      from = end + 1;
    }
    if (from < chunk.length) this.parts.push(chunk.subarray(from));
  };

  private check(line: string): void {
    if (line.trim() === "") return;
    try {
      JSON.parse(line);
    } catch (error) {
      this.refuse(`a line is not JSON (${(error as Error).message}): ${line.slice(0, SHOWN)}`);
    }
  }
}

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
  private readonly broken = new BrokenLines((message) => process.stdout.write(parseError(message)));

  constructor() {
    super(process.stdin, process.stdout, { maxBufferSize: MAX_BYTES });
  }

  override async start(): Promise<void> {
    await super.start();
    process.stdin.on("data", this.broken.read);
  }

  override async close(): Promise<void> {
    process.stdin.off("data", this.broken.read);
    await super.close();
    this.closed(this.lastError);
  }
}

export async function serve(options: ServerOptions): Promise<void> {
  const agent = new AgentSession(options);
  const transport = new Wire();
  const ended = new Promise<Error | null>((resolve) => {
    process.stdin.once("end", () => resolve(null));
    process.stdin.once("close", () => resolve(null));
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve(null));
    void transport.whenClosed.then(resolve);
  });
  const handle = serveStdio(
    () => {
      const server = buildServer(agent);
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
