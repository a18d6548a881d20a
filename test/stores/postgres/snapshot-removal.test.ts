import { afterAll, expect, test } from "vitest";
import { append, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestSchema } from "./schema.ts";

const schema = new TestSchema();

afterAll(() => schema.dispose());

test("a snapshot of a hidden stream is deleted with its last fork", async () => {
  const store = await schema.open({ pool: schema.pool });
  const remove = (stream: string, seq: number) =>
    store.remove({ of: "stream", namespace: NAMESPACE, stream, expect: { generation: 1, seq } });
  const listed = async () =>
    (await store.list<"snapshots">({ of: "snapshots", namespace: NAMESPACE, stream: "session/a" })).rows;
  await append(store, write("session/a", 0, [1]));
  await append(store, write("session/b", 1, [2], { fork: { stream: "session/a", generation: 1, seq: 1 } }));
  expect(await remove("session/a", 1)).toEqual({ outcome: "hidden" });
  await schema.pool.query(`INSERT INTO ${schema.name}.snapshots (namespace, stream, fold, seq, payload)
    VALUES ('${NAMESPACE}', 'session/a', 'session@1', 1, 'left')`);
  expect(await listed()).toHaveLength(1);
  expect(await remove("session/b", 2)).toEqual({ outcome: "removed", count: 2 });
  expect(await listed()).toEqual([]);
});
