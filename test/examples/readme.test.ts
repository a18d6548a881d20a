import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8");
const readme = read("README.md");

test("every npm command of the README is a script", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  const commands = [...readme.matchAll(/npm (?:run )?(test|demo|bench|torture|runtimes)\b/g)].map(
    (match) => match[1] as string,
  );
  expect(commands.length).toBeGreaterThan(1);
  for (const command of commands) expect(scripts).toHaveProperty(command);
});
