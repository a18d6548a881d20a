/** Keys: claimed, released, held by one event. */

import assert from "node:assert/strict";
import { type Cases, claiming, kindsOf, times, write } from "./harness.ts";

export const keyCases: Cases = {
  "a second claim of a key is refused and names the event that holds it": async ({ store }) => {
    await store.write("session/a", 0, { events: [1, 2, 3], claims: [{ key: "k", event: 1 }] });
    await store.refuse("taken", write("session/b", 0, claiming("k")), {
      key: "k",
      by: { stream: "session/a", seq: 2 },
    });
    assert.equal((await store.head("session/b")).seq, 0);
  },

  "a stream cannot claim a key twice": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.refuse("taken", write("session/a", 1, claiming("k")), {
      by: { stream: "session/a", seq: 1 },
    });
  },

  "a write with a taken key claims none of its other keys": async ({ store }) => {
    await store.write("session/a", 0, claiming("k2"));
    await store.refuse("taken", write("session/b", 0, claiming("k1", "k2", "k3")));
    assert.deepEqual(await store.holders(["k1", "k2", "k3"]), new Map([["k2", ["session/a", 1]]]));
    await store.write("session/b", 0, claiming("k1", "k3"));
  },

  "a released key can be claimed again": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.write("session/a", 1, { releases: ["k"] });
    assert.equal((await store.holders(["k"])).size, 0);
    await store.write("session/b", 0, claiming("k"));
    assert.deepEqual((await store.holders(["k"])).get("k"), ["session/b", 1]);
  },

  "a write that releases and claims a key moves it to its own event": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.write("session/a", 1, { releases: ["k"], ...claiming("k") });
    assert.deepEqual((await store.holders(["k"])).get("k"), ["session/a", 2]);
  },

  "a refused write releases nothing": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.refuse("conflict", write("session/a", 0, { releases: ["k"] }));
    await store.write("session/b", 0, claiming("other"));
    await store.refuse("taken", write("session/a", 1, { releases: ["k"], ...claiming("other") }));
    assert.deepEqual((await store.holders(["k"])).get("k"), ["session/a", 1]);
  },

  "a stream cannot release a key of another stream": async ({ store }) => {
    await store.write("session/a", 0, claiming("k"));
    await store.write("session/b", 0, { releases: ["k"] });
    assert.deepEqual((await store.holders(["k"])).get("k"), ["session/a", 1]);
  },

  "releasing a free key has no effect": async ({ store }) => {
    await store.write("session/a", 0, { releases: ["never"] });
  },

  "a list of keys leaves out free keys": async ({ store }) => {
    await store.write("session/a", 0, claiming("k1", "k3"));
    const held = await store.holders(["k1", "k2", "k3", "k1"]);
    assert.deepEqual([...held.keys()].sort(), ["k1", "k3"]);
    assert.equal((await store.holders([])).size, 0);
  },

  "a list of 1,000 keys is possible": async ({ store }) => {
    const keys = times(1_000, (index) => `k${index}`);
    await store.write("session/a", 0, claiming(...keys.slice(0, 600)));
    assert.equal((await store.holders(keys)).size, 600);
  },

  "if two handles claim one key, exactly one succeeds": async ({ store, another }) => {
    const other = await another();
    const sent = [
      store.send(write("session/a", 0, claiming("k"))),
      other.send(write("session/b", 0, claiming("k"))),
    ];
    assert.deepEqual(await kindsOf(sent), ["ok", "taken"]);
  },

  "keys that differ only in case, spaces or normalization are different keys": async ({ store }) => {
    const similar = ["key", "KEY", "key ", " key", "ke\u0301y", "k\u00e9y"];
    const keys = [...similar, "constructor", "__proto__", "'; --", ""];
    for (const [index, key] of keys.entries()) await store.write(`session/s${index}`, 0, claiming(key));
    const held = await store.holders(keys);
    const streams = keys.map((key) => held.get(key)?.[0]);
    assert.deepEqual(
      streams,
      times(keys.length, (index) => `session/s${index}`),
    );
  },

  "the keys of a removed stream stay claimed, also in its next generation": async ({ store, reopen }) => {
    await store.write("session/a", 0, { events: [1, 2], claims: [{ key: "k", event: 1 }] });
    await store.remove("session/a");
    const reopened = await reopen();
    assert.deepEqual((await reopened.holders(["k"])).get("k"), ["session/a", 2]);
    await reopened.refuse("taken", write("session/b", 0, claiming("k")), {
      by: { stream: "session/a", seq: 2 },
    });
    await reopened.refuse("taken", write("session/a", 0, { generation: 2, ...claiming("k") }));
  },
};
