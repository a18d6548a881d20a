// The real command line behind the official MCP client, in its own project, with the effects it had.

import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { open } from "../../src/open.ts";
import type { SessionDetail } from "../../src/session/index.ts";
import { commandFile, environment } from "../cli/command-line.ts";
import { quickFolder } from "../quick-folder.ts";
import { removeProject } from "../remove-project.ts";

export class Programs {
  readonly cli = commandFile("cli");
  readonly counting: readonly string[] = [process.execPath, commandFile("counting")];
  readonly faulty = commandFile("faulty");

  private constructor() {}

  static async build(): Promise<Programs> {
    return new Programs();
  }

  /** The projects lie in the folder of the run and are removed with it. */
  remove(): void {}
}

export interface Connected {
  readonly client: Client;
  /** Resolves when the process at the other end has exited. */
  readonly gone: Promise<void>;
  readonly pid: number;
  close(): Promise<void>;
}

/** A project with a store, and the paths that tests read. */
export class Project {
  readonly folder = mkdtempSync(join(quickFolder(), "holdfast-mcp-"));
  readonly effectsLog = join(this.folder, "effects.log");
  readonly points = join(this.folder, "points.log");
  readonly stderr = join(this.folder, "stderr.log");

  constructor() {
    mkdirSync(join(this.folder, ".git"));
    mkdirSync(join(this.folder, "files"));
  }

  write(name: string, text: string): string {
    writeFileSync(join(this.folder, name), text);
    return join(this.folder, name);
  }

  /** One line per effect, as written by the server behind the proxy. */
  effects(): string[] {
    return existsSync(this.effectsLog)
      ? readFileSync(this.effectsLog, "utf8").split("\n").filter(Boolean)
      : [];
  }

  /** Failpoints that were passed, in order. */
  passed(): string[] {
    return existsSync(this.points) ? readFileSync(this.points, "utf8").split("\n").filter(Boolean) : [];
  }

  said(): string {
    return existsSync(this.stderr) ? readFileSync(this.stderr, "utf8") : "";
  }

  /** Starts a process and connects the official client to it. */
  async connect(
    args: readonly string[],
    options: { env?: Readonly<Record<string, string>>; client?: Client } = {},
  ): Promise<Connected> {
    const client = options.client ?? new Client({ name: "test-agent", version: "1.0.0" });
    const own = { EFFECTS_LOG: this.effectsLog, HOLDFAST_FAILPOINT_LOG: this.points };
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [...args],
      cwd: this.folder,
      env: environment({ ...own, ...options.env }) as Record<string, string>,
      stderr: "pipe",
    });
    transport.stderr?.on("data", (chunk: Buffer) => appendFileSync(this.stderr, chunk));
    const gone = new Promise<void>((resolve) => {
      client.onclose = resolve;
    });
    await client.connect(transport);
    return { client, gone, pid: transport.pid ?? 0, close: () => client.close() };
  }

  async sessions(): Promise<SessionDetail[]> {
    const holdfast = await open(join(this.folder, ".holdfast"));
    try {
      const { sessions } = await holdfast.sessions.list({ limit: 100 });
      return await Promise.all(sessions.map(({ id }) => holdfast.sessions.get(id)));
    } finally {
      await holdfast.close();
    }
  }

  remove(): void {
    removeProject(this.folder);
  }
}

/** The text of an answer, blocks joined. */
export function textOf(result: unknown): string {
  const { content = [] } = result as { content?: { text?: string }[] };
  return content.map(({ text = "" }) => text).join("\n");
}
