// On a full disk the lock is not acquired, and the attempts leave nothing behind.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { StateManager } from "../../src/state-files/index.ts";
import { Companion } from "../stores/sqlite/processes.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

async function add(path: string): Promise<number> {
  const spec = { schema: { type: "object" }, initial: { schema_version: 1, n: 0 } };
  const state = StateManager.onFile<{ schema_version: number; n: number }>(path, spec);
  await state.update((value) => ({ ...value, n: value.n + 1 }));
  return (await state.commit()).n;
}

test("every attempt throws STORE_FULL and leaves nothing; with room the file is written", async () => {
  const path = join(folder, "state.json");
  expect(await add(path)).toBe(1);
  const before = readFileSync(path, "utf8");
  const refused = { code: "STORE_FULL", message: expect.stringContaining(path) };
  // A process whose files may not have a single byte.
  const limit = ["sh", "-c", 'ulimit -f 0; exec "$0" "$@"'];
  const adder = new Companion("../../state-files/programs/adder.ts", [path], limit);
  expect(await adder.hearAll()).toMatchObject([refused, refused, refused]);
  expect(readdirSync(folder).sort()).toEqual(["state.events.jsonl", "state.json"]);
  expect(readFileSync(path, "utf8")).toBe(before);
  expect(await add(path)).toBe(2);
});
