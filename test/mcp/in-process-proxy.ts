// The proxy inside this process behind the official client. It replaces a proxy process that was killed.

import { PassThrough } from "node:stream";
import { Client, type JSONRPCMessage, type Transport } from "@modelcontextprotocol/client";
import { runProxy } from "../../src/mcp/index.ts";
import type { Connected, Project } from "./mcp-project.ts";

/** One message per line, as between processes. */
class Lines implements Transport {
  readonly input = new PassThrough();
  readonly output = new PassThrough();
  onmessage?: (message: JSONRPCMessage) => void;
  onclose?: () => void;
  private rest = "";
  private heard: () => void = () => undefined;
  /** Resolves with the first answer to a ping. By then every earlier message was read. */
  readonly hasRead = new Promise<void>((resolve) => {
    this.heard = resolve;
  });

  async start(): Promise<void> {
    this.output.on("data", (chunk: Buffer) => {
      const lines = (this.rest + String(chunk)).split("\n");
      this.rest = lines.pop() ?? "";
      for (const line of lines) this.onmessage?.(JSON.parse(line) as JSONRPCMessage);
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    this.input.write(`${JSON.stringify(message)}\n`);
    if ("result" in message) this.heard();
  }

  async close(): Promise<void> {
    this.input.end();
    this.onclose?.();
  }
}

/** Runs like `holdfast mcp proxy` in the project's folder. The server logs its effects to the given file. */
export async function connectInside(
  project: Project,
  options: { readonly command: readonly string[]; readonly config: string },
): Promise<Pick<Connected, "client" | "close"> & { readonly hasRead: Promise<void> }> {
  const before = process.cwd();
  const transport = new Lines();
  const client = new Client({ name: "test-agent", version: "1.0.0" });
  // The folder determines store and session.
  process.chdir(project.folder);
  const { input, output } = transport;
  const command = ["env", `EFFECTS_LOG=${project.effectsLog}`, ...options.command];
  const ended = runProxy({ ...options, command, by: "mcp-proxy", input, output, log: () => undefined });
  try {
    await Promise.race([client.connect(transport), ended]);
  } finally {
    process.chdir(before);
  }
  return {
    client,
    hasRead: transport.hasRead,
    close: async () => {
      await client.close();
      await ended;
    },
  };
}
