// The proxy inside this process, driven line by line. Tests can send and see messages that the official
// client never sends, or hides.

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, vi } from "vitest";
import { runProxy } from "../../src/mcp/index.ts";
import type { Call } from "../../src/model/session/index.ts";
import { open } from "../../src/open.ts";
import { Project } from "./mcp-project.ts";

export interface Heard {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: { readonly content?: { text?: string }[]; readonly [name: string]: unknown };
  readonly error?: { readonly code: number; readonly message: string };
}

/** Awaited, however slow the machine is. */
export const soon = (check: () => Promise<void> | void): Promise<void> =>
  vi.waitFor(check, { timeout: 50_000, interval: 10 });

/**
 * A server whose `body` handles each message except the handshake. The message is `m`; `raw` is its text. The
 * body may use `say`, `ok` (answers with a text), `effect` (appends a line that the test reads) and `here` (a
 * path in the project). `first` runs once at the start.
 */
export function serverText(body: string, first = ""): string {
  return `
    const fs = require("node:fs");
    const here = (name) => require("node:path").join(process.argv[1], name);
    const write = (text) => fs.writeSync(1, text + "\\n");
    let say = (message) => write(JSON.stringify({ jsonrpc: "2.0", ...message }));
    const ok = (id, text) => say({ id, result: { content: [{ type: "text", text }] } });
    const effect = (text) => fs.appendFileSync(here("effects.log"), text + "\\n");
    ${first}
    const handle = (m, raw) => { ${body} };
    require("node:readline").createInterface({ input: process.stdin }).on("line", (raw) => {
      const m = JSON.parse(raw);
      if (m.method === "initialize")
        say({ id: m.id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } } });
      else if (m.method === "tools/list") say({ id: m.id, result: { tools: [] } });
      else handle(m, raw);
    });
  `;
}

export class RawProxy {
  readonly project = new Project();
  readonly lines: string[] = [];
  readonly log: string[] = [];
  /** The client's input. A test may read it slowly. */
  readonly output = new PassThrough();
  /** The proxy's input, paused while its server is slow. */
  readonly input = new PassThrough();
  private ended: Promise<void> = Promise.resolve();
  private rest = "";
  /** The lines, parsed once, because waiting tests scan all of them every few milliseconds. */
  private readonly parsed: Heard[] = [];

  /** With a client that has completed the handshake and answers every ping. */
  static async start(
    body: string,
    config = "tools: {}",
    first = "",
    keep?: Parameters<typeof runProxy>[0]["keep"],
  ): Promise<RawProxy> {
    const server = (folder: string) => ({
      command: [process.execPath, "-e", serverText(body, first), folder],
      ...(keep && { keep }),
    });
    return RawProxy.before(server, config);
  }

  /** Before any server: what `server` returns for the folder of the project. */
  static async before(
    server: (folder: string) => Pick<Parameters<typeof runProxy>[0], "command" | "url" | "token" | "keep">,
    config = "tools: {}",
  ): Promise<RawProxy> {
    const made = new RawProxy();
    const { input, output, project } = made;
    output.on("data", (chunk: Buffer) => made.hear(String(chunk)));
    made.ended = runProxy({
      ...server(project.folder),
      store: join(project.folder, "store.db"),
      config: project.write("tools.yaml", config),
      session: "s",
      by: "ann",
      input,
      output,
      log: (text) => made.log.push(text),
    });
    const clientInfo = { name: "c", version: "1" };
    const hello = { protocolVersion: "2025-06-18", capabilities: { elicitation: {} }, clientInfo };
    await made.ask("hello", "initialize", hello);
    made.say({ method: "notifications/initialized" });
    return made;
  }

  say(message: object): void {
    this.write(JSON.stringify({ jsonrpc: "2.0", ...message }));
  }

  write(text: string): void {
    this.input.write(`${text}\n`);
  }

  /** The text of the first line that matches, as soon as there is one. */
  async line(fits: (heard: Heard, raw: string) => boolean): Promise<string> {
    let found: string | undefined;
    await soon(() => {
      found = this.lines.find((raw, index) => fits(this.parsed[index] ?? {}, raw));
      const first = this.lines.slice(0, 20).map((raw) => raw.slice(0, 100));
      expect(found, `among ${first.join("\n")}`).toBeDefined();
    });
    return found ?? "";
  }

  async heard(fits: (heard: Heard) => boolean): Promise<Heard> {
    return JSON.parse(await this.line(fits)) as Heard;
  }

  ask(id: string | number, method: string, params: object): Promise<Heard> {
    this.say({ id, method, params });
    return this.heard((each) => each.id === id && each.method === undefined);
  }

  call(id: string | number, name: string, args: object, more: object = {}): Promise<Heard> {
    return this.ask(id, "tools/call", { name, arguments: args, ...more });
  }

  effects(): string[] {
    const file = join(this.project.folder, "effects.log");
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean) : [];
  }

  /** The ledger's calls of a tool. */
  async calls(tool: string): Promise<readonly Call[]> {
    const holdfast = await open(join(this.project.folder, "store.db"));
    try {
      return (await holdfast.sessions.get("s")).calls.filter((each) => each.tool === tool);
    } finally {
      await holdfast.close();
    }
  }

  /** Answers the open call of a tool, as a person. */
  async resolve(tool: string, outcome: "retry" | "landed"): Promise<void> {
    const [call] = await this.calls(tool);
    const holdfast = await open(join(this.project.folder, "store.db"));
    try {
      await holdfast.calls.resolve(call?.callId ?? "", { outcome, by: "ann", why: "it did not happen" });
    } finally {
      await holdfast.close();
    }
  }

  async close(): Promise<void> {
    this.input.end();
    await this.ended;
    this.project.remove();
  }

  private hear(text: string): void {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop() ?? "";
    for (const raw of lines) {
      this.lines.push(raw);
      const heard = JSON.parse(raw) as Heard;
      this.parsed.push(heard);
      const { id, method } = heard;
      if (method === "ping") this.say({ id, result: {} });
    }
  }
}

/** The text of an answer. */
export function said({ result }: Heard): string {
  return (result?.content ?? []).map(({ text = "" }) => text).join("\n");
}
