// `status` counts every task of a large goal.

import { crc32 } from "node:zlib";
import { expect, test } from "vitest";
import { readStatus } from "../../src/operations/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";

test("all tasks of a large goal count", async () => {
  const store = await openMemory();
  const items = Array.from({ length: 12_000 }, (_, index) => ({
    kind: "task",
    id: `T-${index}`,
    seq: 1,
    status: index < 11_000 ? "done" : "open",
  }));
  const payload = "[]";
  const expected = { generation: 1, seq: 0 };
  const row = { stream: "goal/large", expect: expected, count: 1, payload, codec: null, at: 1, items };
  const writes = [{ ...row, sum: crc32(payload) }];
  expect(await store.append({ id: "b", namespace: "default", writes })).toMatchObject({ outcome: "ok" });
  const { goals } = await readStatus(store, { now: Date.now() });
  expect(goals).toMatchObject([{ goal: "large", tasks: 12_000, done: 11_000, ready: 1_000 }]);
  await store.close();
});
