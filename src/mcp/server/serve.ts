/**
 * The server as a process: on stdin and stdout, until the client closes its end, a signal comes, or the client sends what
 * cannot be a message: more than `MOST_BYTES` without the end of a line. That is answered, as far as one can answer what
 * has no id, and ends the server: where the next message begins, nobody knows any more.
 */

import { writeSync } from "node:fs";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import { HoldfastError } from "../../model/errors.ts";
import { AgentDesk, type DeskOptions } from "./agent-desk.ts";
import { buildServer } from "./server.ts";

/**
 * The SDK passes over a line that is no JSON without a word, and a client that waits for an answer waits for ever. JSON-RPC
 * has one for it, without an id: this reads along, and says which lines want it.
 */

const END = 0x0a;
const SHOWN = 80;

class BrokenLines {
  private readonly refuse: (message: string) => void;
  private parts: Buffer[] = [];

  constructor(refuse: (message: string) => void) {
    this.refuse = refuse;
  }

  readonly hear = (chunk: Buffer): void => {
    let from = 0;
    for (let end = chunk.indexOf(END); end >= 0; end = chunk.indexOf(END, from)) {
      this.look(Buffer.concat([...this.parts, chunk.subarray(from, end)]).toString("utf8"));
      this.parts = [];
      from = end + 1;
    }
    if (from < chunk.length) this.parts.push(chunk.subarray(from));
  };

  private look(line: string): void {
    if (line.trim() === "") return;
    try {
      JSON.parse(line);
    } catch (error) {
      this.refuse(`a line is no JSON (${(error as Error).message}): ${line.slice(0, SHOWN)}`);
    }
  }
}



const MOST_BYTES = 10 << 20;
const PARSE_ERROR = -32_700;

/** The SDK's, which answers a line that is no JSON, and says when it was closed, and after which error. */
class Wire extends StdioServerTransport {
  private closed: (why: Error | null) => void = () => undefined;
  /** Null: in good order. */
  readonly whenClosed = new Promise<Error | null>((resolve) => {
    this.closed = resolve;
  });
  lastError: Error | null = null;
  private readonly broken = new BrokenLines((message) => process.stdout.write(parseError(message)));

  constructor() {
    super(process.stdin, process.stdout, { maxBufferSize: MOST_BYTES });
  }

  override async start(): Promise<void> {
    await super.start();
    process.stdin.on("data", this.broken.hear);
  }

  override async close(): Promise<void> {
    process.stdin.off("data", this.broken.hear);
    await super.close();
    this.closed(this.lastError);
  }
}

export async function serve(options: DeskOptions): Promise<void> {
  const desk = new AgentDesk(options);
  const transport = new Wire();
  const ended = new Promise<Error | null>((resolve) => {
    process.stdin.once("end", () => resolve(null));
    process.stdin.once("close", () => resolve(null));
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, () => resolve(null));
    void transport.whenClosed.then(resolve);
  });
  const handle = serveStdio(
    () => {
      const server = buildServer(desk);
      server.server.oninitialized = () => desk.meet(server.server.getClientVersion()?.name);
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
  await desk.close();
  if (why && (why as NodeJS.ErrnoException).code !== "EPIPE") refuse(why);
}

function parseError(message: string): string {
  return `${JSON.stringify({ jsonrpc: "2.0", id: null, error: { code: PARSE_ERROR, message } })}\n`;
}

function refuse(cause: Error): never {
  // An open input keeps the process alive.
  process.stdin.destroy();
  const message = `the client sent what cannot be a message: ${cause.message}`;
  writeSync(1, parseError(message));
  throw new HoldfastError("INPUT_INVALID", message, {
    hint: `A message is one line of at most ${MOST_BYTES >> 20} MB. Start the server again.`,
    cause,
  });
}
