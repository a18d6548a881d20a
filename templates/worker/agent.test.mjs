// Kills the agent at every durable step: npm test.

import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { crashEverywhere } from "holdfast/testing";

test("wherever it dies, the card is charged once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "worker-"));
  const world = join(folder, "charges.log");
  const report = await crashEverywhere({
    command: [process.execPath, fileURLToPath(new URL("./agent.mjs", import.meta.url))],
    cwd: folder,
    env: { HOLDFAST_STORE: join(folder, "store.db"), SLOW_MS: "0" },
    setup: () => {
      for (const name of ["store.db", "store.db-wal", "store.db-shm", "charges.log"])
        rmSync(join(folder, name), { force: true });
    },
    effects: () => (existsSync(world) ? readFileSync(world, "utf8").split("\n").filter(Boolean) : []),
  });
  rmSync(folder, { recursive: true });
  assert.ok(report.kills > 5);
  assert.deepEqual([report.lost, report.doubled, report.stuck], [[], [], []]);
});
