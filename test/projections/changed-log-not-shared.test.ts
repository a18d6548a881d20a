// A log that was changed on disk stays in its store: no event file carries it to others, and no merge uses
// it.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { goalKind } from "../../src/model/goal/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import { mergeEventFolder, projectGoal } from "../../src/projections/index.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { quickFolder } from "../quick-folder.ts";

let root: string;
let file: string;
let planning: string;
beforeEach(() => {
  root = mkdtempSync(join(quickFolder(), "holdfast-past-"));
  file = join(root, "store.db");
  planning = join(root, ".planning");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** A goal that is read from its snapshot, and of which a record before that is not what was written. */
async function damaged(): Promise<Holdfast> {
  const before = await open(file);
  const goal = await before.goal("ship", { statement: "Ship it", root });
  await goal.fact({ key: "price", value: "cents 1234567", source: "me" });
  const value = "v".repeat(8_000);
  for (let count = 0; count < 24; count++) await goal.fact({ key: "k", value: value + count, source: "me" });
  await before.close();
  const again = await open(file);
  await again.goal("ship");
  await again.close();
  const connection = await Connection.open(file, false);
  const change = "UPDATE writes SET payload = replace(payload, ?, ?)";
  expect(connection.count(change, "cents 1234567", "cents 9234567")).toBeGreaterThan(0);
  await connection.close();
  return open(file);
}

test("a changed log is not published", async () => {
  const holdfast = await damaged();
  const goal = await holdfast.goal("ship", { root });
  expect(goal.state.facts.get("price")?.value, "the snapshot is whole").toBe("cents 1234567");
  await expect(projectGoal(goal)).rejects.toMatchObject({
    code: "EVENT_CORRUPT",
    message: expect.stringContaining("checksum"),
  });
  const events = join(planning, "events");
  const names = existsSync(events) ? readdirSync(events) : [];
  expect(names.map((name) => readFileSync(join(events, name), "utf8")).join("\n")).not.toContain("9234567");
  await holdfast.close();
});

test("nothing is merged into a changed log", async () => {
  const holdfast = await damaged();
  const elsewhere = await open(join(root, "other.db"));
  const theirs = await elsewhere.goal("ship", { statement: "Ship it", root });
  await (await projectGoal(theirs)).close();
  await elsewhere.close();
  await expect(mergeEventFolder(holdfast.journal, planning, "ship")).rejects.toMatchObject({
    code: "EVENT_CORRUPT",
    message: expect.stringContaining("checksum"),
  });
  await expect(holdfast.goal("ship", { root }), "nor worked on").rejects.toMatchObject({
    code: "EVENT_CORRUPT",
  });
  const { state } = await holdfast.journal.load(goalKind, "ship");
  expect(state.facts.get("price")?.value, "whoever looks still may").toBe("cents 1234567");
  expect(state.merges).toEqual([]);
  await holdfast.close();
});
