/** A thread that is deleted while a run is at work on it. */

import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { memoryData, openMemory } from "../../../src/stores/memory/index.ts";

const config = { configurable: { thread_id: "t" } };

function put(saver: HoldfastSaver) {
  const checkpoint = { ...emptyCheckpoint(), id: uuid6(0) };
  return saver.put(config, checkpoint, { source: "input", step: -1, parents: {} }, {});
}

async function savers(options: { ttlMs?: number; now?: () => number } = {}) {
  const { ttlMs = null, now = Date.now } = options;
  const data = memoryData();
  const saver = async () =>
    new HoldfastSaver(await open(undefined, { store: openMemory({ data }), now }), { ttlMs });
  return [await saver(), await saver()] as const;
}

test("what a task of it writes later does not bring the thread back", async () => {
  const [here, there] = await savers();
  const saved = await put(here);
  await there.deleteThread("t");
  await expect(here.putWrites(saved, [["secret", "4711"]], "task")).rejects.toMatchObject({
    code: "VERSION_NOT_FOUND",
  });
  expect((await there.holdfast.journal.row("langgraph/t")).state).toBe("gone");
});

test("it is there as a whole when it is said that it cannot be deleted", async () => {
  const [here, there] = await savers();
  await put(here);
  const run = await here.holdfast.session("langgraph.t", { ttlMs: null });
  await expect(there.deleteThread("t")).rejects.toMatchObject({ code: "STREAM_BUSY" });
  expect(await there.getTuple(config)).toBeDefined();
  await run.close();
  await there.deleteThread("t");
  expect(await there.getTuple(config)).toBeUndefined();
});

test("one that expires while it is being run is not removed", async () => {
  let now = Date.UTC(2026, 0, 1);
  const [here, there] = await savers({ ttlMs: 1_000, now: () => now });
  await put(here);
  const run = await here.holdfast.session("langgraph.t", { ttlMs: null });
  now += 2_000;
  expect(await there.removeExpired()).toEqual([]);
  await run.close();
  expect(await there.removeExpired()).toEqual(["t"]);
});
