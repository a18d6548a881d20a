// The reference pages are generated from the tables and types in src. `npm run reference` writes them.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { firstAnswers } from "./first-answers.ts";
import { llmsText } from "./llms.ts";
import { apiReference } from "./reference/api.ts";
import { referencePages } from "./reference/pages.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const WRITTEN_BY_HAND = ["docs/reference/index.md"];

const api = apiReference(root);
const pages = await referencePages(api);

describe("the reference", () => {
  test.each([...pages.keys()])("%s is what the code says now (npm run reference)", async (path) => {
    await expect(pages.get(path)).toMatchFileSnapshot(join(root, path));
  });

  test("llms.txt lists the pages that are there now (npm run reference)", async () => {
    await expect(llmsText()).toMatchFileSnapshot(join(root, "llms.txt"));
  });

  test("every public name has JSDoc, every function and class an example, every option a meaning", () => {
    expect(api.gaps).toEqual([]);
  });

  test("the first answers of `holdfast mcp` are those of its server (npm run reference)", async () => {
    await expect(await firstAnswers()).toMatchFileSnapshot(join(root, "src/mcp/server/first-answers.json"));
  });

  test("has no page of something that is gone", () => {
    const there = readdirSync(join(root, "docs/reference"), { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".md"))
      .map((name) => `docs/reference/${name}`)
      .filter((path) => readFileSync(join(root, path), "utf8").includes("npm run reference"));
    const expected = [...pages.keys()].filter((path) => !WRITTEN_BY_HAND.includes(path));
    expect(there.sort()).toEqual(expected.sort());
  });
});
