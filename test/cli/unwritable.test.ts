// A failed write to stdout and a read-only store are reported in one line each.

import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { counting } from "../ledger/bench.ts";
import { hasOtherUser, OTHER_USER } from "../other-user.ts";
import { CommandLine, environment } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
let home: string;
beforeAll(async () => {
  line = await CommandLine.build();
  home = join(line.project, ".holdfast");
  const holdfast = await open(home);
  const session = await holdfast.session("order-1");
  const execute = () => {
    throw new Error("the line went dead");
  };
  await session.call({ tool: counting({ effects: [] }, "pay", { execute }), args: {}, callId: "c1" });
  await holdfast.close();
});
afterAll(() => {
  chmodSync(home, 0o755);
  line.remove();
});

describe.skipIf(!existsSync("/dev/full"))("on a full disk", () => {
  test.each(["status", "status --json", "status --by me", "calls", "session list", "session log order-1"])(
    "%s exits with 1, and one line says why",
    (words) => {
      const command = `'${process.execPath}' '${line.cli}' ${words} > /dev/full`;
      const options = { cwd: line.project, env: environment(), encoding: "utf8" } as const;
      const { status, stderr } = spawnSync("bash", ["-c", command], options);
      expect(stderr).toMatch(/^holdfast: cannot write the output: .*ENOSPC.*\n$/);
      expect(status).toBe(1);
    },
  );
});

test("commands in JSON and in the output of doctor name the given store", async () => {
  const store = ["--store", ".holdfast"];
  const status = JSON.parse((await runInside(line.project, ["status", "--json", ...store])).out);
  expect(status.data.needs).toMatchObject([{ command: "holdfast calls --store .holdfast" }]);
  expect(status.data.next).toMatchObject({ command: "holdfast calls --store .holdfast" });
  const short = JSON.parse((await line.run(["status", "--json", ...store])).out);
  expect(short.data.needs).toMatchObject([{ command: "holdfast calls --store .holdfast" }]);
  const doctor = await runInside(line.project, ["doctor", ...store]);
  expect(doctor.out).toContain("Resolve them: holdfast calls --store .holdfast");
  expect((await runInside(line.project, ["doctor", "--json", ...store])).out).toContain(
    "holdfast calls --store .holdfast",
  );
});

test("a fork does not claim that a call without an outcome happened", async () => {
  const { out } = await runInside(line.project, ["session", "fork", "order-1", "order-1b"]);
  expect(out).toContain("! pay c1 may have happened in order-1: the fork may do it again");
});

test("an import of a missing file does not suggest a new export", async () => {
  const { code, err } = await runInside(line.project, ["import", "nofile"]);
  expect(code).toBe(2);
  expect(err).toContain("ENOENT");
  expect(err).toContain("Check the path");
  expect(err).not.toContain("Export it again");
});

const isRoot = process.getuid?.() === 0;

describe.skipIf(!hasOtherUser)("a store that commands cannot write, as in a sandbox", () => {
  beforeAll(() => {
    for (const name of readdirSync(home)) chmodSync(join(home, name), 0o444);
    for (const folder of [home, line.project]) chmodSync(folder, isRoot ? 0o755 : 0o555);
  });
  afterAll(() => {
    for (const folder of [home, line.project]) chmodSync(folder, 0o755);
    for (const name of readdirSync(home)) chmodSync(join(home, name), 0o644);
  });

  test("doctor reports it as read-only", async () => {
    const { code, out } = await line.run(["doctor", "--store", home], { as: OTHER_USER });
    expect(out).toMatch(/!! store .* readable, but not writable/);
    expect(code).toBe(5);
  });

  test("a command that writes advises the MCP tools, and names the folder to allow", async () => {
    const words = ["goal", "new", "shop", "Sell", "--store", home, "--role", "orchestrator"];
    const { code, err } = await line.run(words, { as: OTHER_USER });
    expect(code).toBe(1);
    expect(err).toMatch(/cannot be written/);
    expect(err).toContain(
      `In a sandbox: use the MCP tools of the server holdfast, or allow commands to write ${home}.`,
    );
  });
});

test("a refused connection advises the MCP tools", async () => {
  const words = ["status", "--store", "postgres://127.0.0.1:1/none"];
  const { err } = await runInside(line.project, words);
  expect(err).toContain("In a sandbox: use the MCP tools of the server holdfast, or allow commands to reach");
});

test("the API reads a store without writing to it", async () => {
  const holdfast = await open(home, { readOnly: true });
  expect((await holdfast.sessions.get("order-1")).openCalls).toBe(1);
  await expect(holdfast.session("order-2")).rejects.toMatchObject({ code: "STORE_READONLY" });
  await holdfast.close();
  await expect(open(join(line.project, "none.db"), { readOnly: true })).rejects.toMatchObject({
    code: "STORE_NOT_FOUND",
  });
  expect(existsSync(join(line.project, "none.db"))).toBe(false);
});
