// The configuration file gives the key to every surface; without it each says what to set.

import { spawn } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { loadConfig, open } from "../../src/index.ts";
import { CommandLine, environment, type Ran } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";
import { programFile } from "../program.ts";
import { bytesBelow, fill, KEY, MARK, NEW_KEY } from "./places.ts";

const library = programFile(new URL("../../src/encryption/index.ts", import.meta.url));
const CONFIG = `
import { aesGcm } from ${JSON.stringify(pathToFileURL(library).href)};
const { OLD_KEY, MY_KEY } = process.env;
const keys = OLD_KEY ? { a: OLD_KEY, b: MY_KEY } : { [process.env.MY_NAME ?? "a"]: MY_KEY };
export default { encryption: aesGcm({ keys, current: OLD_KEY ? "b" : undefined }) };
`;

let line: CommandLine;
let project: string;
let file: string;
beforeAll(async () => {
  line = await CommandLine.build();
});
afterAll(() => line.remove());
beforeEach(async () => {
  project = line.newProject();
  file = join(project, "holdfast.config.mjs");
  writeFileSync(file, CONFIG);
  await ok("init", "--agent", "none");
});

/** Naming the file trusts it. */
const env = (more: Record<string, string> = {}): Record<string, string> => ({
  HOLDFAST_CONFIG: file,
  MY_KEY: KEY,
  ...more,
});

async function ok(...args: string[]): Promise<string> {
  const { code, out, err } = await runInside(project, args, env());
  if (code !== 0) throw new Error(`holdfast ${args.join(" ")} ended with ${code}: ${err}${out}`);
  return out;
}

/** Fills the project's store as a program would. */
async function filled(): Promise<void> {
  process.env["MY_KEY"] = KEY;
  try {
    const { encryption } = await loadConfig(file);
    if (!encryption) throw new Error("the file has no encryption");
    const holdfast = await open(join(project, ".holdfast"), { encryption });
    await fill(holdfast);
    await holdfast.close();
  } finally {
    delete process.env["MY_KEY"];
  }
}

function call(id: number, method: string, params: object): string {
  return `${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`;
}

/** The answer of the MCP server to one call of a tool. */
function asServer(name: string): Promise<string> {
  const clientInfo = { name: "test", version: "1" };
  const client = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
  const server = spawn(process.execPath, [line.cli, "mcp"], { cwd: project, env: environment(env()) });
  let said = "";
  server.stdout.on("data", (chunk) => {
    said += String(chunk);
    if (/"id":2\}\n/.test(said)) server.stdin.end();
  });
  server.stdin.write(call(1, "initialize", client) + call(2, "tools/call", { name, arguments: {} }));
  return new Promise((resolve) => server.on("close", () => resolve(said)));
}

test("every surface reads and writes the store, whose files show nothing", async () => {
  await filled();
  const reads: [words: string, expected: string][] = [
    ["status", "statement"],
    ["brief", "decision"],
    ["goal list", "statement"],
    ["task list", "task"],
    ["decisions", "decision"],
    ["session list", "title"],
    ["session show alpha", "title"],
    ["session log alpha", "message"],
    ["calls --session alpha", "argument"],
    ["ledger", "argument"],
  ];
  for (const [words, expected] of reads) {
    expect([words, await ok(...words.split(" "))]).toEqual([
      words,
      expect.stringContaining(`${MARK} ${expected}`),
    ]);
  }
  expect(await ok("check")).toMatch(/^ok/);
  await ok("verify");
  await ok("supervise", "--once");
  await ok("fact", "owner", `${MARK} owner`, "--source", "test");
  await ok("task", "add", `${MARK} second task`);
  expect(await ok("task", "list")).toContain(`${MARK} second task`);
  // `.planning/` is plain text for git, and only there where a person wants it.
  expect(bytesBelow(join(project, ".holdfast"))).not.toContain(MARK);
});

test("separate processes have it too: status, a hook, its ingest and the MCP server", async () => {
  await filled();
  const status = await line.run(["status"], { cwd: project, env: env() });
  expect(status.out).toContain(`${MARK} statement`);
  const input = JSON.stringify({ cwd: project, session_id: "c1" });
  const hook = await line.run(["hook", "claude", "session-start"], { cwd: project, env: env(), input });
  expect(hook.out).toContain(`${MARK} statement`);
  await line.run(["hook", "claude", "stop"], { cwd: project, env: env(), input });
  expect(await line.run(["hook", "ingest"], { cwd: project, env: env() })).toMatchObject({
    code: 0,
    err: "",
  });
  expect(await ok("goal", "show")).toContain(MARK);
  const server = await asServer("brief");
  expect(server).toContain(`${MARK} decision`);
});

test("an export holds nothing readable, and an import with the same ring brings it all back", async () => {
  await filled();
  const exported = join(project, "all.hf");
  await ok("export", exported);
  expect(readFileSync(exported, "latin1")).not.toContain(MARK);
  await ok("verify", exported);
  const other = join(project, "other.db");
  const ring = join(project, ".holdfast", "store.db.keys");
  const again = join(project, "again.config.mjs");
  writeFileSync(again, CONFIG.replace("aesGcm({", `aesGcm({ ring: ${JSON.stringify(ring)},`));
  const run = (...args: string[]): Promise<Ran> =>
    runInside(project, [...args, "--store", other], env({ HOLDFAST_CONFIG: again }));
  expect(await run("import", exported)).toMatchObject({ code: 0 });
  expect((await run("session", "log", "alpha")).out).toContain(`${MARK} message`);
  expect((await run("check")).out).toMatch(/^ok/);
});

test("a backup names the key ring and leaves it out", async () => {
  await filled();
  const said = await ok("backup", join(project, "copy.db"));
  expect(said).toContain("store.db.keys");
  expect(readFileSync(join(project, "copy.db"), "latin1")).not.toContain(MARK);
});

test("rekey ends the old key, and verify still holds", async () => {
  await filled();
  const during = env({ OLD_KEY: KEY, MY_KEY: NEW_KEY });
  const rekeyed = await line.run(["rekey"], { cwd: project, env: during });
  const again = await line.run(["rekey", "--json"], { cwd: project, env: during });
  expect(JSON.parse(again.out)).toMatchObject({ kind: "rekey", data: { rewrapped: 0 } });
  expect(rekeyed.out).toMatch(/(\d+) of \1 keys are now wrapped/);
  const after = env({ MY_KEY: NEW_KEY, MY_NAME: "b" });
  expect((await line.run(["session", "log", "alpha"], { cwd: project, env: after })).out).toContain(MARK);
  expect(await line.run(["verify"], { cwd: project, env: after })).toMatchObject({ code: 0 });
  const { code, err } = await line.run(["session", "log", "alpha"], { cwd: project, env: env() });
  expect([code, err]).toEqual([expect.any(Number), expect.stringContaining("key b, which is not given")]);
  expect(code).not.toBe(0);
});

test("without the key each surface says what to set, and lists skip what they cannot read", async () => {
  await filled();
  const unset = await line.run(["status"], { cwd: project, env: env({ MY_KEY: "" }) });
  expect(unset.err).toMatch(/key a is not set[\s\S]*Set the variable/);
  const wrong = env({ MY_KEY: NEW_KEY });
  const shown = await line.run(["session", "show", "alpha"], { cwd: project, env: wrong });
  expect(shown.err).toMatch(/key a is not the one that it was made with[\s\S]*Set key a/);
  for (const words of ["session list", "status", "calls", "goal list"]) {
    const { code, out, err } = await line.run(words.split(" "), { cwd: project, env: wrong });
    expect([words, code, err]).toEqual([words, expect.any(Number), expect.not.stringContaining(" at ")]);
    expect(out + err).not.toContain(MARK);
  }
  expect((await line.run(["session", "list"], { cwd: project, env: wrong })).out).toContain("alpha");

  rmSync(file);
  const without = await line.run(["session", "show", "alpha"], { cwd: project });
  expect(without.err).toMatch(/aes-256-gcm[\s\S]*encryption/);
});
