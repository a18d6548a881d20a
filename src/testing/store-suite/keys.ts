/** Keys: claimed, released, held by one event. */

import assert from "node:assert/strict";
import { accept, batchOf, type Cases, headOf, holdersOf, refuse, removeStream, write } from "./harness.ts";

const claiming = (...keys: string[]) => ({ claims: keys.map((key) => ({ key, event: 0 })) });

export const keyCases: Cases = {
  "a second claim of a key is refused and names the event that holds it": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2, 3], claims: [{ key: "k", event: 1 }] }));
    const { key, by } = await refuse(store, "taken", write("session/b", 0, claiming("k")));
    assert.equal(key, "k");
    assert.deepEqual(by, { stream: "session/a", seq: 2 });
    assert.equal((await headOf(store, "session/b")).seq, 0);
  },

  "a stream cannot claim a key twice": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k")));
    const { by } = await refuse(store, "taken", write("session/a", 1, claiming("k")));
    assert.deepEqual(by, { stream: "session/a", seq: 1 });
  },

  "a write with a taken key claims none of its other keys": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k2")));
    await refuse(store, "taken", write("session/b", 0, claiming("k1", "k2", "k3")));
    assert.deepEqual(await holdersOf(store, ["k1", "k2", "k3"]), new Map([["k2", ["session/a", 1]]]));
    await accept(store, write("session/b", 0, claiming("k1", "k3")));
  },

  "a released key can be claimed again": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k")));
    await accept(store, write("session/a", 1, { releases: ["k"] }));
    assert.equal((await holdersOf(store, ["k"])).size, 0);
    await accept(store, write("session/b", 0, claiming("k")));
    assert.deepEqual((await holdersOf(store, ["k"])).get("k"), ["session/b", 1]);
  },

  "a write that releases and claims a key moves it to its own event": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k")));
    await accept(store, write("session/a", 1, { releases: ["k"], ...claiming("k") }));
    assert.deepEqual((await holdersOf(store, ["k"])).get("k"), ["session/a", 2]);
  },

  "a refused write releases nothing": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k")));
    await refuse(store, "conflict", write("session/a", 0, { releases: ["k"] }));
    await accept(store, write("session/b", 0, claiming("other")));
    await refuse(store, "taken", write("session/a", 1, { releases: ["k"], ...claiming("other") }));
    assert.deepEqual((await holdersOf(store, ["k"])).get("k"), ["session/a", 1]);
  },

  "a stream cannot release a key of another stream": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k")));
    await accept(store, write("session/b", 0, { releases: ["k"] }));
    assert.deepEqual((await holdersOf(store, ["k"])).get("k"), ["session/a", 1]);
  },

  "releasing a free key has no effect": async ({ store }) => {
    await accept(store, write("session/a", 0, { releases: ["never"] }));
  },

  "a list of keys leaves out free keys": async ({ store }) => {
    await accept(store, write("session/a", 0, claiming("k1", "k3")));
    const held = await holdersOf(store, ["k1", "k2", "k3", "k1"]);
    assert.deepEqual([...held.keys()].sort(), ["k1", "k3"]);
    assert.equal((await holdersOf(store, [])).size, 0);
  },

  "a list of 1,000 keys is possible": async ({ store }) => {
    const keys = Array.from({ length: 1_000 }, (_, index) => `k${index}`);
    const claims = keys.slice(0, 600).map((key) => ({ key, event: 0 }));
    await accept(store, write("session/a", 0, { claims }));
    assert.equal((await holdersOf(store, keys)).size, 600);
  },

  "if two handles claim one key, exactly one succeeds": async ({ store, another }) => {
    const other = await another();
    const outcomes = await Promise.all([
      store.append(batchOf(write("session/a", 0, claiming("k")))),
      other.append(batchOf(write("session/b", 0, claiming("k")))),
    ]);
    assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), ["ok", "taken"]);
  },

  "keys that differ only in case, spaces or normalization are different keys": async ({ store }) => {
    const keys = [
      "key",
      "KEY",
      "key ",
      " key",
      "ke\u0301y",
      "k\u00e9y",
      "constructor",
      "__proto__",
      "'; --",
      "",
    ];
    for (const [index, key] of keys.entries())
      await accept(store, write(`session/s${index}`, 0, claiming(key)));
    const held = await holdersOf(store, keys);
    assert.deepEqual(
      keys.map((key) => held.get(key)?.[0]),
      keys.map((_, index) => `session/s${index}`),
    );
  },

  "the keys of a removed stream stay claimed, also in its next generation": async ({ store, reopen }) => {
    await accept(store, write("session/a", 0, { events: [1, 2], claims: [{ key: "k", event: 1 }] }));
    await removeStream(store, "session/a");
    const reopened = await reopen();
    assert.deepEqual((await holdersOf(reopened, ["k"])).get("k"), ["session/a", 2]);
    const { by } = await refuse(reopened, "taken", write("session/b", 0, claiming("k")));
    assert.deepEqual(by, { stream: "session/a", seq: 2 });
    await refuse(reopened, "taken", write("session/a", 0, { generation: 2, ...claiming("k") }));
  },
};
