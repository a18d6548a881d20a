import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { script } from "../ledger/bench.ts";

test("a tampered answer that was compacted away is not returned", async () => {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-changed-"));
  const file = join(folder, "store.db");
  const prompt = { id: "p1", text: "Which account?" };
  const before = await open(file);
  const session = await before.session("s");
  await session.run({ model: script("the account is DE1234567"), prompt });
  for (let page = 0; page < 5; page++) await session.append({ role: "user", text: "y".repeat(40_000) });
  const blocks = [{ kind: "text", text: "summary" }];
  await session.compact([{ id: "sum", role: "user", createdAt: new Date(0).toISOString(), blocks }]);
  await before.close();

  const connection = await Connection.open(file, false);
  expect(
    connection.count("UPDATE writes SET payload = replace(payload, '1234567', '9234567')"),
  ).toBeGreaterThan(0);
  await connection.close();

  const after = await open(file);
  const again = await after.session("s");
  const run = again.run({ model: script(), prompt });
  await expect(run).rejects.toMatchObject({ code: "EVENT_CORRUPT", message: /checksum/ });
  await after.close();
  rmSync(folder, { recursive: true, force: true });
});
