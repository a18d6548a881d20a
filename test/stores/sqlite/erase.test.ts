import { spawnSync } from "node:child_process";
import { expect, test } from "vitest";
import { append, NAMESPACE, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

test("erased bytes are in none of the store's files", async () => {
  const folder = await TestFolder.make();
  try {
    const store = await folder.open();
    const secret = "the-secret-that-must-go";
    for (let seq = 0; seq < 40; seq++) {
      const items = [{ kind: "call", id: `${secret}-${seq}`, seq: seq + 1, at: 1, doneAt: 1 }];
      const events = [secret.repeat(1 + ((seq * 37) % 300))];
      await append(store, write("session/a", seq, events, { facets: { title: secret }, items }));
      await append(store, write("session/b", seq, ["public"]));
    }
    const fold = "session@1";
    const stream = "session/a";
    const place = { namespace: NAMESPACE, stream, generation: 1, seq: 40, fold };
    await store.put({ of: "snapshot", ...place, payload: secret.repeat(900), codec: null });
    // By another process: opening the files in this one would drop SQLite's locks.
    const holding = () => spawnSync("grep", ["-rl", secret, folder.path], { encoding: "utf8" }).stdout;
    expect(holding()).not.toBe("");
    const expected = { generation: 1, seq: 40 };
    const outcome = await store.remove({
      of: "stream",
      namespace: NAMESPACE,
      stream,
      expect: expected,
      erase: true,
    });
    expect(outcome).toEqual({ outcome: "removed", count: 1 });
    await store.close();
    expect(holding()).toBe("");
  } finally {
    await folder.dispose();
  }
});
