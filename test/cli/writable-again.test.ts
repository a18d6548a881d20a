// A store that was read-only for a while accepts writes again as soon as it is writable.

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { commandOfOther, hasOtherUser, OTHER_USER } from "../other-user.ts";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

describe.skipIf(!hasOtherUser)("a store that is read-only for a while", () => {
  let line: CommandLine;
  let store: string;
  const run = (...words: string[]) => line.run(words, { as: OTHER_USER });

  beforeAll(async () => {
    line = await CommandLine.build();
    store = join(line.project, ".holdfast", "store.db");
    for (const words of [
      ["init", "--agent", "none"],
      ["goal", "new", "g", "Ship it"],
    ]) {
      expect(await runInside(line.project, words)).toMatchObject({ code: 0 });
    }
    const { uid, gid } = OTHER_USER;
    if (uid === undefined || gid === undefined) return;
    for (const name of ["", ...readdirSync(line.project, { recursive: true, encoding: "utf8" })])
      chownSync(join(line.project, name), uid, gid);
  });
  afterAll(() => line.remove());

  test("accepts writes again after it was read meanwhile", async () => {
    chmodSync(store, 0o400);
    expect(await run("brief")).toMatchObject({ code: 0 });
    const refused = await run("fact", "port", "1", "--source", "test");
    expect(refused.code).toBe(1);
    expect(refused.err).toContain(`${store} cannot be written`);
    expect(refused.err, "the hint names a command, not only the API").toContain("It can still be read");
    chmodSync(store, 0o600);
    expect(await run("fact", "port", "2", "--source", "test")).toMatchObject({ code: 0 });
  });

  test("accepts writes from an MCP server that started while it was read-only", async () => {
    // Left by a reader before the server started: the server could never write through this file.
    chmodSync(store, 0o400);
    expect(await run("brief")).toMatchObject({ code: 0 });
    const [node, cli] = commandOfOther(line.cli);
    const server = spawn(node, [cli, "mcp", "--role", "orchestrator"], {
      cwd: line.project,
      env: environment(),
      ...OTHER_USER,
    });
    const ask = asker(server);
    const fact = { name: "fact", arguments: { key: "host", value: "a", source: "test" } };
    try {
      await ask("initialize", HELLO);
      const [brief, refused] = await Promise.all([
        ask("tools/call", { name: "brief", arguments: {} }),
        ask("tools/call", fact),
      ]);
      expect(brief).not.toHaveProperty("isError", true);
      expect(JSON.stringify(refused)).toContain("store.db cannot be written");
      chmodSync(store, 0o600);
      expect(await ask("tools/call", fact)).not.toHaveProperty("isError", true);
    } finally {
      server.stdin.end();
    }
  });

  test("names the other user's file beside it if that blocks the write", async () => {
    if (OTHER_USER.uid === undefined) return;
    chmodSync(store, 0o400);
    expect(await run("brief")).toMatchObject({ code: 0 });
    chmodSync(store, 0o600);
    const shared = `${store}-shm`;
    expect(existsSync(shared)).toBe(true);
    chownSync(shared, 0, 0);
    chmodSync(shared, 0o444);
    const { code, err } = await run("fact", "port", "3", "--source", "test");
    expect(code).toBe(1);
    expect(err).toContain(`${shared} cannot be written`);
    expect(statSync(shared).mode & 0o777).toBe(0o444);
  });
});

const HELLO = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "test", version: "1" },
};

/** One line of JSON per message. Answers are matched by id. */
function asker(server: ChildProcessWithoutNullStreams): (method: string, params: object) => Promise<object> {
  const waiting = new Map<number, (result: object) => void>();
  createInterface(server.stdout).on("line", (text) => {
    const { id, result } = JSON.parse(text) as { id: number; result: object };
    waiting.get(id)?.(result);
  });
  let last = 0;
  return (method, params) =>
    new Promise((resolve) => {
      last++;
      waiting.set(last, resolve);
      server.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id: last, method, params })}\n`);
    });
}
