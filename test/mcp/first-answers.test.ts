// `holdfast mcp` answers the handshake and `tools/list` before its server is loaded. A client cannot tell.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { SUPPORTED_PROTOCOL_VERSIONS } from "@modelcontextprotocol/server";
import { expect, test } from "vitest";
import { commandFile, environment } from "../cli/command-line.ts";
import { askServer, handshake } from "../docs/first-answers.ts";

const LIST = { method: "tools/list" };

test.each([SUPPORTED_PROTOCOL_VERSIONS[0], "2024-11-05", "1999-01-01"])(
  "a client of %s gets the answers that the server gives",
  async (version = "") => {
    const first = await askServer([handshake(version), LIST, { method: "ping" }]);
    const server = await askServer([{ method: "ping" }, handshake(version), LIST]);
    const results = ({ answers }: typeof first) => answers.map(({ result }) => result);
    const [pong, ...answers] = results(server);
    expect(results(first)).toEqual([...answers, pong]);
  },
);

test("each request that is sent at once is answered once, and the server knows of the handshake", async () => {
  const server = spawn(process.execPath, [commandFile("cli"), "mcp"], {
    cwd: tmpdir(),
    env: environment({}),
    stdio: ["pipe", "pipe", "inherit"],
  });
  let out = "";
  server.stdout.on("data", (chunk) => {
    out += chunk;
    // The last of them, so that none is cut off by the end of the input.
    if (out.includes('"id":"last"')) server.stdin.end();
  });
  const messages = [
    { id: 1, ...handshake("2025-06-18") },
    { method: "notifications/initialized" },
    { id: 2, ...LIST },
    { id: 3, method: "prompts/list" },
    { id: 4, ...LIST },
    { id: 5, method: "no/such" },
    { id: "last", method: "ping" },
  ];
  server.stdin.write(messages.map((each) => `${JSON.stringify({ jsonrpc: "2.0", ...each })}\n`).join(""));
  expect(await once(server, "exit")).toEqual([0, null]);
  type Answer = { readonly id: unknown; readonly result?: Record<string, unknown>; readonly error?: unknown };
  const answers = out
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Answer);
  expect(answers.map(({ id }) => id).sort()).toEqual([1, 2, 3, 4, 5, "last"]);
  const of = (wanted: unknown) => answers.find(({ id }) => id === wanted);
  expect(of(4)?.result).toEqual(of(2)?.result);
  expect(of(3)?.result).toHaveProperty("prompts");
  expect(of(5)?.error).toMatchObject({ code: -32_601 });
});

test("a client that leaves after the handshake ends the server", async () => {
  expect((await askServer([handshake("2025-06-18")])).answers).toHaveLength(1);
});
