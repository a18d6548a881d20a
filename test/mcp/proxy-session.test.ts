// A proxy's session continues with its client: a supervisor starts no worker for it, and a call
// that waits in vain names the holder.

import { join } from "node:path";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runProxy } from "../../src/mcp/index.ts";
import { open } from "../../src/open.ts";
import { Sweeper, superviseOnce, Workers } from "../../src/supervisor/index.ts";
import { Programs, Project, textOf } from "./mcp-project.ts";

let programs: Programs;
let project: Project;
beforeAll(async () => {
  programs = await Programs.build();
  project = new Project();
});
afterAll(() => {
  project.remove();
  programs.remove();
});

test("a killed proxy gets no worker, and the next proxy of its client resumes", async () => {
  const store = join(project.folder, "killed.db");
  const proxy = [
    programs.cli,
    "mcp",
    "proxy",
    "--store",
    store,
    "--session",
    "s",
    "--",
    ...programs.counting,
  ];
  const first = await project.connect(proxy);
  await first.client.callTool({ name: "add", arguments: { id: "one" } });
  process.kill(first.pid, "SIGKILL");
  await first.gone;
  const holdfast = await open(store);
  expect((await superviseOnce(holdfast.journal)).crashed).toEqual(["s"]);
  const { signal } = new AbortController();
  const start = { command: [process.execPath, "-e", ""] };
  expect(await new Workers(new Sweeper(holdfast.journal, {}), { start, signal }).wanted()).toEqual([]);
  await holdfast.close();
  const next = await project.connect(proxy);
  expect(textOf(await next.client.callTool({ name: "add", arguments: { id: "two" } }))).toContain("two");
  await next.close();
});

test("a proxy whose session another program holds lists its tools, and its calls wait", async () => {
  const store = join(project.folder, "held.db");
  const holdfast = await open(store);
  const session = await holdfast.session("s", { label: "agent-7" });
  const input = new PassThrough();
  const output = new PassThrough();
  const lines = createInterface({ input: output })[Symbol.asyncIterator]();
  const ask = async (id: number, method: string, params: object): Promise<string> => {
    input.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    for (;;) {
      const { value } = await lines.next();
      if (JSON.parse(value).id === id) return value;
    }
  };
  const command = ["env", `EFFECTS_LOG=${project.effectsLog}`, ...programs.counting];
  const log: string[] = [];
  const options = { command, store, session: "s", by: "ann", heldMs: 0, input, output };
  const ended = runProxy({ ...options, log: (text) => log.push(text) });
  const clientInfo = { name: "c", version: "1" };
  const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  expect(await ask(1, "initialize", hello)).toContain("serverInfo");
  input.write(`${JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" })}\n`);
  expect(await ask(2, "tools/list", {})).toContain('"add"');
  const add = { name: "add", arguments: { id: "after the wait" } };
  const told = await ask(3, "tools/call", add);
  expect(told).toContain("held by agent-7");
  expect(told).toMatch(/The holder is not a proxy.* --session <id>/);
  expect(project.effects()).not.toContain("after the wait");
  await session.close();
  await vi.waitFor(async () => expect(await ask(4, "tools/call", add)).not.toContain("SESSION_HELD"), {
    timeout: 50_000,
  });
  expect(project.effects().filter((effect) => effect.includes("after the wait"))).toHaveLength(1);
  input.end();
  await ended;
  await holdfast.close();
});
