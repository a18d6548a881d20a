import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
const readme = read("README.md");

/** The README's program opens the reader's own store. The example opens a temporary one. */
const ITS_OWN = ['import { open, tool } from "holdfast";', "const holdfast = await open();"];

test("the ten lines are those of the quickstart example", () => {
  const block = /```ts\n(import \{ open, tool \}[\s\S]*?)```/.exec(readme)?.[1] ?? "";
  const quickstart = read("examples/quickstart.ts").split("\n");
  const lines = block.split("\n").filter((line) => line !== "" && !ITS_OWN.includes(line));
  expect(lines.length).toBeGreaterThan(8);
  expect(lines.filter((line) => !quickstart.includes(line))).toEqual([]);
});

test("every npm command is a script, and every named file exists", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  const commands = [...readme.matchAll(/npm (?:run )?(test|demo|bench|torture)\b/g)].map(
    (match) => match[1] as string,
  );
  expect(commands.length).toBeGreaterThan(3);
  for (const command of commands) expect(scripts).toHaveProperty(command);
  const files = [...readme.matchAll(/`((?:examples|docs)\/[\w./-]+)`/g)].map((match) => match[1] as string);
  expect(files.length).toBeGreaterThan(2);
  for (const file of files) expect(read(file).length).toBeGreaterThan(0);
});
