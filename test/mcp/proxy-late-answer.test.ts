// A server's answer to a cancelled call is recorded, however late it arrives, and no person has to resolve
// the call.

import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, test, vi } from "vitest";
import { open } from "../../src/index.ts";
import { runProxy } from "../../src/mcp/index.ts";
import { Project } from "./mcp-project.ts";

/** Sends mail, ignores cancellation, and answers on request with the requested answer. */
const SERVER = `
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
  const calls = [];
  require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params } = JSON.parse(line);
    if (method === "initialize")
      say({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } } });
    if (method === "tools/call") {
      calls.push(id);
      say({ method: "begun" });
    }
    if (method === "finish") say({ id: calls.shift(), ...params });
  });
`;

const soon = (check: () => Promise<void> | void) => vi.waitFor(check, { timeout: 50_000, interval: 10 });

/** Starts, cancels and abandons one call, which is then answered with this. */
async function answeredLate(answer: object) {
  const project = new Project();
  const store = join(project.folder, "store.db");
  const holdfast = await open(store);
  const input = new PassThrough();
  const output = new PassThrough();
  let heard = "";
  output.on("data", (chunk: Buffer) => {
    heard += chunk;
  });
  const command = [process.execPath, "-e", SERVER];
  const streams = { input, output, log: () => undefined };
  const proxy = runProxy({ command, store, session: "s", by: "ann", cancelledMs: 0, ...streams });
  const say = (message: object) => input.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const mail = { method: "tools/call", params: { name: "mail", arguments: { to: "ann" } } };
  const latest = async () => (await holdfast.sessions.get("s")).calls[0];
  say({
    id: 1,
    method: "initialize",
    params: { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "c", version: "1" } },
  });
  await soon(() => expect(heard).toContain("serverInfo"));
  say({ method: "notifications/initialized" });
  say({ id: 2, ...mail });
  await soon(() => expect(heard).toContain("begun"));
  say({ method: "notifications/cancelled", params: { requestId: 2 } });
  await soon(async () => expect(await latest()).toMatchObject({ status: "waiting" }));
  say({ method: "finish", params: answer });
  return {
    latest,
    again: async () => {
      say({ id: 3, ...mail });
      await soon(() => expect(heard).toContain('"id":3'));
      return heard;
    },
    close: async () => {
      input.end();
      await proxy;
      await holdfast.close();
      project.remove();
    },
  };
}

test("a result of an abandoned call is recorded, and the same request gets it", async () => {
  const { latest, again, close } = await answeredLate({
    result: { content: [{ type: "text", text: "mailed" }] },
  });
  await soon(async () => expect(await latest()).toMatchObject({ status: "completed", settledBy: "late" }));
  expect(await again()).toMatch(/mailed.*Not run again|Not run again.*mailed/);
  await close();
});

test("a late failure is recorded too: nothing happened", async () => {
  const { latest, close } = await answeredLate({ error: { code: -32_602, message: "no such address" } });
  await soon(async () =>
    expect(await latest()).toMatchObject({ status: "failed", error: { message: "no such address" } }),
  );
  await close();
});
