// Another user's store exists but may not be read: messages must say both.

import { chmodSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasOtherUser, OTHER_USER } from "../other-user.ts";
import { CommandLine, type RunOptions } from "./command-line.ts";
import { runInside } from "./inside.ts";

const isRoot = process.getuid?.() === 0;

describe.skipIf(!hasOtherUser)("an unreadable store", () => {
  let line: CommandLine;
  let home: string;
  const run = (words: string, options: RunOptions = {}) =>
    line.run(words.split(" "), { as: OTHER_USER, ...options });

  beforeAll(async () => {
    line = await CommandLine.build();
    home = join(line.project, ".holdfast");
    await runInside(line.project, ["init", "--agent", "none"]);
    expect(await runInside(line.project, ["goal", "new", "g", "Ship it"])).toMatchObject({ code: 0 });
    chmodSync(line.project, 0o755);
    chmodSync(home, isRoot ? 0o700 : 0o000);
  });
  afterAll(() => {
    chmodSync(home, 0o700);
    line.remove();
  });

  test.each(["status", "next", "status --by me"])("%s reports the store", async (words) => {
    const { code, err } = await run(words);
    expect(code).toBe(1);
    expect(err).toContain(`store ${home}: permission denied`);
    expect(err).toContain("--store");
    expect(err).not.toMatch(/created|init/);
  });

  test("doctor reports it too, and does not suggest init", async () => {
    const { code, out } = await run("doctor");
    expect(code).toBe(5);
    expect(out).toContain("permission denied");
    expect(out).not.toContain("init");
  });

  test("a named store is reported in the same words", async () => {
    const { code, err } = await run("next", { env: { HOLDFAST_STORE: join(home, "store.db") } });
    expect(code).toBe(1);
    expect(err).toContain("permission denied");
  });

  test("a hook reports it on stderr and answers in its agent's format", async () => {
    const input = JSON.stringify({ cwd: line.project, session_id: "7f2a" });
    const { code, out, err } = await run("hook gemini session-start", { input });
    expect({ code, out }).toEqual({ code: 0, out: "{}\n" });
    expect(err).toContain("permission denied");
  });
});
