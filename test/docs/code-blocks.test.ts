// Every TypeScript block of the documentation compiles, as a module of its own. A block marked `ts continued`
// is compiled together with the blocks of its page before it. Names that a fragment may use without declaring
// them are in ambient.d.ts.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Block, blocksOf, docsPages, root } from "./pages.ts";

/** Pages that are generated from code that compiles, and decisions, which show what was rejected. */
const NOT_COMPILED = [
  "docs/reference/api/",
  "docs/reference/events",
  "docs/decisions/",
  "docs/why/decisions/",
];

const folder = mkdtempSync(join(root, "node_modules", ".docs-blocks-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** One module per block: its name tells the page and the line. */
function modulesOf(blocks: readonly Block[]): Map<string, string> {
  const modules = new Map<string, string>();
  let before = "";
  let page = "";
  for (const block of blocks) {
    if (block.page !== page) before = "";
    page = block.page;
    const code = block.info.includes("continued") ? before + block.code : block.code;
    before = code;
    const name = `${block.page.replace(/[^\w]+/g, "-")}-line-${block.line}.ts`;
    modules.set(name, `export {};\n${code}`);
  }
  return modules;
}

function compile(modules: ReadonlyMap<string, string>): string[] {
  const target = mkdtempSync(join(folder, "run-"));
  mkdirSync(target, { recursive: true });
  for (const [name, code] of modules) writeFileSync(join(target, name), code);
  // The guide on stores imports the store that it shows.
  writeFileSync(join(target, "log-store.ts"), `export * from "${join(root, "test/guides/log-store.ts")}";\n`);
  const config = {
    extends: join(root, "tsconfig.json"),
    compilerOptions: { exactOptionalPropertyTypes: false },
    include: ["*.ts", join(root, "test/docs/*.d.ts")],
    exclude: [],
  };
  writeFileSync(join(target, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(root, "node_modules/typescript-native/bin/tsc");
  const { stdout } = spawnSync(process.execPath, [compiler, "--noEmit", "--pretty", "false", "-p", target], {
    cwd: target,
    encoding: "utf8",
  });
  // Our sources are compiled with stricter options, by another step.
  return stdout.split("\n").filter((line) => line.includes("error TS") && !line.startsWith(".."));
}

let blocks: Block[] = [];
beforeAll(() => {
  blocks = [...docsPages()]
    .filter(([page]) => !NOT_COMPILED.some((prefix) => page.startsWith(prefix)))
    .flatMap(([page, text]) => blocksOf(page, text))
    .filter(({ info }) => /^(ts|tsx|typescript)\b/.test(info));
});

test("every TypeScript block compiles", () => {
  expect(blocks.length).toBeGreaterThan(0);
  expect(compile(modulesOf(blocks))).toEqual([]);
});

test("a block that does not compile is found, and a continued one knows the block before it", () => {
  const text = "```ts\nconst one: number = 1;\n```\n\n```ts continued\none.toFixed();\none.nope();\n```\n";
  const errors = compile(modulesOf(blocksOf("docs/x.md", text)));
  expect(errors).toHaveLength(1);
  expect(errors[0]).toContain("nope");
});
