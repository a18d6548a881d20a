// `holdfast new` writes projects that work: the worker of the template survives a kill at every failpoint.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { crashEverywhere } from "../../src/testing/index.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { runInside } from "./inside.ts";

const folders: string[] = [];
const newFolder = (): string => {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-new-"));
  folders.push(folder);
  return folder;
};
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe("holdfast new", () => {
  test.each([
    ["chat", ["server.ts", "page.js", "index.html", "README.md"]],
    ["worker", ["agent.mjs", "agent.test.mjs", "README.md"]],
    ["coding", ["README.md"]],
  ])("%s writes a project and says what to type next", async (kind, files) => {
    const folder = newFolder();
    const { code, out } = await runInside(folder, ["new", kind, "mine"]);
    expect(code).toBe(0);
    expect(out).toContain("npm install");
    expect(readdirSync(join(folder, "mine"))).toEqual(expect.arrayContaining([...files, "package.json"]));
    const manifest = JSON.parse(readFileSync(join(folder, "mine", "package.json"), "utf8"));
    expect(manifest).toMatchObject({ name: "mine", type: "module" });
    expect(manifest.dependencies).toHaveProperty("holdfast");
    expect(existsSync(join(folder, ".holdfast"))).toBe(false);
  });

  test("a file in the way stops it before anything is written", async () => {
    const folder = newFolder();
    await runInside(folder, ["new", "worker", "mine"]);
    const before = readdirSync(join(folder, "mine"));
    const { code, err } = await runInside(folder, ["new", "chat", "mine"]);
    expect(code).toBe(4);
    expect(err).toContain("package.json");
    expect(readdirSync(join(folder, "mine"))).toEqual(before);
  });

  test("the worker charges once, wherever it dies", async () => {
    const folder = newFolder();
    const world = join(folder, "charges.log");
    const agent = fileURLToPath(new URL("../../templates/worker/agent.mjs", import.meta.url));
    const report = await crashEverywhere({
      command: [process.execPath, programFile(agent)],
      cwd: folder,
      env: { HOLDFAST_STORE: join(folder, "store.db"), SLOW_MS: "0" },
      setup: () => {
        for (const name of readdirSync(folder)) rmSync(join(folder, name), { recursive: true });
      },
      effects: () => (existsSync(world) ? readFileSync(world, "utf8").split("\n").filter(Boolean) : []),
    });
    expect(report).toMatchObject({ lost: [], doubled: [], stuck: [] });
    expect(report.kills).toBeGreaterThan(5);
  });
});
