/** Artifacts and their collection. */

import assert from "node:assert/strict";
import { artifactOf, type Cases, fork, outcomeIs, SPACE, type TestStore, write } from "./harness.ts";

async function collect(store: TestStore, putBefore: number): Promise<number> {
  const outcome = await store.port.remove({ of: "artifacts", namespace: SPACE, putBefore });
  return outcomeIs(outcome, "removed").count;
}

export const artifactCases: Cases = {
  "an artifact is unchanged byte for byte, also after reopening": async ({ store, another, reopen }) => {
    const bytes = new Uint8Array(256).map((_, index) => index);
    const hash = await store.putArtifact(bytes);
    for (const each of [await another(), await reopen()]) {
      assert.deepEqual([...((await each.artifact(hash)) ?? [])], [...bytes]);
    }
  },

  "an artifact may be empty": async ({ store }) => {
    const hash = await store.putArtifact(new Uint8Array(0));
    assert.equal((await store.artifact(hash))?.length, 0);
    await store.write("session/a", 0, { artifacts: [hash] });
  },

  "`get` returns null for an artifact that was never put": async ({ store }) => {
    assert.equal(await store.hasArtifact("a".repeat(64)), false);
  },

  "changing the buffer after `put` or `get` does not change the artifact": async ({ store }) => {
    const { hash, bytes } = artifactOf("kept");
    const expected = [...bytes];
    await store.port.put({ of: "artifact", namespace: SPACE, hash, bytes, at: 1 });
    bytes.fill(7);
    (await store.artifact(hash))?.fill(8);
    assert.deepEqual([...((await store.artifact(hash)) ?? [])], expected);
  },

  "an erase removes at once what only this stream refers to": async ({ store, reopen }) => {
    const own = await store.putArtifact(Buffer.from("own"), { at: 1_000 });
    const shared = await store.putArtifact(Buffer.from("shared"), { at: 1_000 });
    const inherited = await store.putArtifact(Buffer.from("inherited"), { at: 1_000 });
    const late = await store.putArtifact(Buffer.from("late"), { at: 1_000 });
    await store.write("session/a", 0, { at: 2_000, artifacts: [inherited] });
    await store.accept(fork("session/b", "session/a", 1, { at: 3_000, artifacts: [own, shared, late] }));
    await store.write("session/c", 0, { at: 2_000, artifacts: [shared] });
    // Another writer puts it, and is about to refer to it.
    await store.putArtifact(Buffer.from("late"), { at: 4_000 });
    const erase = async (stream: string) => {
      const expect = (await store.row(stream)).head;
      return store.port.remove({ of: "stream", namespace: SPACE, stream, expect, erase: true });
    };
    outcomeIs(await erase("session/a"), "hidden");
    assert.equal(await store.hasArtifact(inherited), true);
    outcomeIs(await erase("session/b"), "removed");
    const reopened = await reopen();
    const left = [];
    for (const [name, hash] of Object.entries({ own, shared, inherited, late })) {
      if (await reopened.hasArtifact(hash)) left.push(name);
    }
    assert.deepEqual(left, ["shared", "late"]);
    const { generation } = await reopened.head("session/d");
    await reopened.write("session/d", 0, { generation, artifacts: [late] });
  },

  "an artifact that is put several times at once is stored once": async ({ store, another }) => {
    const other = await another();
    await Promise.all([store, other, store].map((each) => each.putArtifact("same")));
    assert.equal(await collect(store, 2_000), 1);
  },

  "a write with a missing artifact is refused and names it": async ({ store }) => {
    const there = await store.putArtifact("there");
    const missing = artifactOf("missing").hash;
    const artifacts = [there, missing];
    await store.refuse("missing", write("session/a", 0, { artifacts }), { artifact: missing });
    assert.equal((await store.head("session/a")).seq, 0);
    await store.putArtifact("missing");
    await store.write("session/a", 0, { artifacts });
  },

  "collection removes unreferenced artifacts only": async ({ store }) => {
    const referred = await store.putArtifact("referred");
    const garbage = await store.putArtifact("garbage");
    await store.write("session/a", 0, { artifacts: [referred] });
    assert.equal(await collect(store, 99_000), 1);
    assert.equal(await store.hasArtifact(referred), true);
    assert.equal(await store.hasArtifact(garbage), false);
  },

  "collection spares artifacts put at or after `putBefore`": async ({ store }) => {
    const old = await store.putArtifact("old", { at: 1_000 });
    const young = await store.putArtifact("young", { at: 5_000 });
    assert.equal(await collect(store, 5_000), 1);
    assert.equal(await store.hasArtifact(old), false);
    assert.equal(await store.hasArtifact(young), true);
  },

  "putting an artifact again renews its age": async ({ store }) => {
    const hash = await store.putArtifact("again", { at: 1_000 });
    await store.putArtifact("again", { at: 8_000 });
    assert.equal(await collect(store, 5_000), 0);
    assert.equal(await store.hasArtifact(hash), true);
  },

  "an artifact can be collected once the last stream with a reference is removed": async ({ store }) => {
    const hash = await store.putArtifact("shared");
    await store.write("session/a", 0, { artifacts: [hash] });
    await store.write("session/b", 0, { artifacts: [hash] });
    await store.remove("session/a");
    assert.equal(await collect(store, 99_000), 0);
    await store.remove("session/b");
    assert.equal(await collect(store, 99_000), 1);
    assert.equal(await store.hasArtifact(hash), false);
  },

  "an artifact of a removed parent is kept while a fork shares its past": async ({ store }) => {
    const hash = await store.putArtifact("past");
    await store.write("session/a", 0, { artifacts: [hash] });
    await store.accept(fork("session/b", "session/a", 1));
    await store.remove("session/a");
    assert.equal(await collect(store, 99_000), 0);
    await store.remove("session/b");
    assert.equal(await collect(store, 99_000), 1);
  },

  "a refused write leaves no references": async ({ store }) => {
    const hash = await store.putArtifact("unused");
    await store.refuse("conflict", write("session/a", 5, { artifacts: [hash] }));
    assert.equal(await collect(store, 99_000), 1);
  },

  "several writes may refer to one artifact": async ({ store }) => {
    const hash = await store.putArtifact("popular");
    await store.write("session/a", 0, { artifacts: [hash, hash] });
    await store.write("session/a", 1, { artifacts: [hash] });
    assert.equal(await collect(store, 99_000), 0);
  },

  "a collected artifact can be put again": async ({ store }) => {
    const hash = await store.putArtifact("twice");
    await collect(store, 99_000);
    await store.refuse("missing", write("session/a", 0, { artifacts: [hash] }));
    await store.putArtifact("twice");
    await store.write("session/a", 0, { artifacts: [hash] });
  },
};
