// Links between pages, and to files of the repository, lead somewhere.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { anchorsOf, docsPages, linksOf, root } from "./pages.ts";

function brokenLinks(pages: ReadonlyMap<string, string>): string[] {
  return [...pages].flatMap(([page, text]) =>
    linksOf(text).flatMap(({ target, line }) => {
      if (/^[a-z]+:/.test(target)) return [];
      const [path = "", anchor] = target.split("#");
      const file = path === "" ? page : join(dirname(page), path);
      if (!pages.has(file) && !existsSync(join(root, file))) return [`${page}:${line} ${target}`];
      const goal = pages.get(file);
      const isThere = anchor === undefined || goal === undefined || anchorsOf(goal).has(anchor);
      return isThere ? [] : [`${page}:${line} ${target}: no such heading`];
    }),
  );
}

test("every relative link leads to a file, and every anchor to a heading", () => {
  expect(brokenLinks(docsPages())).toEqual([]);
});

test("a broken link and a broken anchor are found", () => {
  const pages = new Map([
    ["docs/a.md", "# A\n\n[b](b.md) [c](nowhere.md) [d](#a) [e](#z)\n"],
    ["docs/b.md", "# B"],
  ]);
  expect(brokenLinks(pages)).toEqual(["docs/a.md:3 nowhere.md", "docs/a.md:3 #z: no such heading"]);
});
