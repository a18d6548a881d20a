// Where Node has no SQLite, the driver is a package, which a bundle cannot hold: it has a native file.

import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { programFile } from "../../program.ts";

const hasSqlite = process.getBuiltinModule("node:sqlite" as never) !== undefined;
const bundle = programFile(new URL("./programs/lease-taker.ts", import.meta.url));
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-driver-"));
  cpSync(dirname(bundle), join(folder, "bundle"), { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true }));

test.skipIf(hasSqlite)("a bundle without the driver beside it names the driver and the way out", () => {
  const program = join(folder, "bundle", basename(bundle));
  const { stderr } = spawnSync(process.execPath, [program, join(folder, "store.db")], {
    cwd: folder,
    encoding: "utf8",
  });
  expect(stderr).toContain("STORE_DRIVER_MISSING");
  expect(stderr).toContain("the SQLite driver @photostructure/sqlite");
  expect(stderr).toContain("npm install @photostructure/sqlite");
  expect(stderr).toContain('serverExternalPackages: ["holdfast", "@photostructure/sqlite"]');
});
