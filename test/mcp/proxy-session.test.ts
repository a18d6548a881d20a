// A proxy's session continues with its client: a supervisor starts no worker for it, and an error names the
// holder.

import { join } from "node:path";
import { PassThrough } from "node:stream";
import { afterAll, beforeAll, expect, test } from "vitest";
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

test("a proxy whose session another program holds says so", async () => {
  const store = join(project.folder, "held.db");
  const holdfast = await open(store);
  const session = await holdfast.session("s", { label: "agent-7" });
  const input = new PassThrough();
  const output = new PassThrough();
  input.write(`${JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params: {} })}\n`);
  const options = { command: programs.counting, store, session: "s", by: "ann", heldMs: 0 };
  await expect(runProxy({ ...options, input, output, log: () => undefined })).rejects.toMatchObject({
    code: "SESSION_HELD",
    message: expect.stringContaining("held by agent-7"),
    hint: expect.stringMatching(/^The holder is not a proxy.* --session <id>$/),
  });
  expect(String(output.read())).toContain("The holder is not a proxy");
  await session.close();
  await holdfast.close();
});
