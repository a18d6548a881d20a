// The list of merged event files is only a cache: if it is damaged, the files are read once more.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { markEventFilesSeen, openGoal, unseenEventFiles } from "../../src/goal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { human } from "./bench.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(quickFolder(), "holdfast-cache-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const NAME = `${"a".repeat(32)}.jsonl`;

test.each([
  "",
  "{",
  '{"own":["a',
  "null",
  "7",
  "[]",
  "{}",
  '{"own":"x","others":{}}',
  '{"own":[1],"others":[null]}',
])("%j counts as empty, and is replaced by the next entry", async (payload) => {
  const journal = new Journal({ store: await openMemory() });
  const { store, namespace } = journal;
  await (await openGoal(journal, "ship", { statement: "Ship it", by: human })).close();
  mkdirSync(join(root, "events"));
  writeFileSync(join(root, "events", NAME), "");
  await markEventFilesSeen(journal, "ship", { own: [NAME], others: [] });
  expect(await unseenEventFiles(journal, root, { goal: "ship" })).toEqual([]);

  const { generation } = (await store.read({ namespace, stream: "goal/ship", after: 0, limit: 1 })).stream
    .head;
  const place = { of: "snapshot", namespace, stream: "goal/ship", fold: "event-files@1", seq: 0 } as const;
  await store.put({ ...place, generation, payload, codec: null });
  expect(await unseenEventFiles(journal, root, { goal: "ship" })).toEqual([NAME]);
  expect(await unseenEventFiles(journal, root)).toEqual([NAME]);
  await markEventFilesSeen(journal, "ship", { own: [NAME], others: [] });
  expect(await unseenEventFiles(journal, root)).toEqual([]);
});
