/** An older copy replaces an open store: the process notices, and writes nothing to it (I12). */

import { copyFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { Workshop } from "../crash/programs.ts";
import { tallyKind } from "../crash/tally.ts";

let workshop: Workshop;

beforeAll(async () => {
  workshop = await Workshop.make();
});

afterAll(() => workshop.dispose());

test("a process stops when an older copy replaces its store", async () => {
  const path = join(await workshop.place(), "store.db");
  const copy = `${path}.copy`;
  const holder = workshop.start("holder", path, "tally/held", "60000");
  await holder.line("holds");
  holder.say("first");
  expect(await holder.line("first")).toBe("first ok");
  for (const end of ["", "-wal"]) await copyFile(path + end, copy + end);
  await (await openSqlite({ path: copy })).close();
  holder.say("second");
  expect(await holder.line("second")).toBe("second ok");

  await rename(copy, path);
  for (const end of ["-wal", "-shm"]) await rm(path + end);
  holder.say("third");
  const { code, errors } = await holder.ended;
  expect(code).toBe(1);
  expect(errors).toContain("STORE_REPLACED");
  expect(errors).toContain("this is no longer the store that was opened");

  const store = await openSqlite({ path, despiteRewind: true });
  const { state } = await new Journal({ store }).load(tallyKind, "held");
  expect(state).toEqual({ count: 1, last: "first" });
  expect(await store.check()).toEqual([]);
  await store.close();
});
