// Git ignores a store in `.holdfast/`, of any kind.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openStore } from "../../../src/open-store.ts";

test.each([
  ["plain files", ".holdfast/"],
  ["SQLite", ".holdfast"],
])("%s", async (_, name) => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-own-"));
  const ignore = join(folder, ".holdfast/.gitignore");
  try {
    const store = await openStore(join(folder, name) + (name.endsWith("/") ? "/" : ""));
    expect(readFileSync(ignore, "utf8")).toBe("*\n");
    expect(await store.check()).toEqual([]);
    await store.close();
    writeFileSync(ignore, "!mine\n");
    await (await openStore(join(folder, ".holdfast"))).close();
    expect(readFileSync(ignore, "utf8"), "and a person may change it").toBe("!mine\n");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a folder that the caller named gets no .gitignore", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-own-"));
  mkdirSync(join(folder, "state"));
  await (await openStore(`${join(folder, "state")}/`)).close();
  expect(() => readFileSync(join(folder, "state/.gitignore"))).toThrow("ENOENT");
  rmSync(folder, { recursive: true, force: true });
});
