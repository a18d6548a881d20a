/**
 * What the server behind `holdfast mcp` answers to a handshake and to `tools/list`. Its front gives the same
 * answers from a file while the server is being loaded, so the server is asked here after another request,
 * which the front cannot answer.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import { commandFile, environment } from "../cli/command-line.ts";

interface Answer {
  readonly id: number;
  readonly result: Readonly<Record<string, unknown>>;
}

export interface Asked {
  readonly answers: readonly Answer[];
  /** From the start of the process. */
  readonly ms: readonly number[];
}

/** Sends one request after another to a new server and waits for each answer. */
export async function askServer(requests: readonly object[], cli = commandFile("cli")): Promise<Asked> {
  const begun = performance.now();
  const server = spawn(process.execPath, [cli, "mcp"], {
    cwd: tmpdir(),
    env: environment({}),
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface(server.stdout)[Symbol.asyncIterator]();
  const answers: Answer[] = [];
  const ms: number[] = [];
  for (const [id, request] of requests.entries()) {
    server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...request })}\n`);
    answers.push(JSON.parse((await lines.next()).value as string) as Answer);
    ms.push(performance.now() - begun);
  }
  server.stdin.end();
  await once(server, "exit");
  return { answers, ms };
}

export const handshake = (protocolVersion: string) => {
  const clientInfo = { name: "test", version: "1" };
  return { method: "initialize", params: { protocolVersion, capabilities: {}, clientInfo } };
};

/** The text of `src/mcp/server/first-answers.json`. */
export async function firstAnswers(): Promise<string> {
  const [latest = ""] = SUPPORTED_PROTOCOL_VERSIONS;
  const { answers } = await askServer([{ method: "ping" }, handshake(latest), { method: "tools/list" }]);
  const [, greeted, tools] = answers.map(({ result }) => result);
  const { protocolVersion, ...hello } = greeted ?? {};
  if (protocolVersion !== latest) throw new Error(`the server speaks ${protocolVersion}, not ${latest}`);
  return `${JSON.stringify({ versions: SUPPORTED_PROTOCOL_VERSIONS, hello, tools }, null, 2)}\n`;
}
