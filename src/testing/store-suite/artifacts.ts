/** Artifacts and their collection. */

import assert from "node:assert/strict";
import type { Store } from "../../store.ts";
import { fork } from "./forks.ts";
import {
  accept,
  artifactOf,
  bytesOf,
  type Cases,
  hasArtifact,
  headOf,
  putArtifact,
  refuse,
  removeStream,
  SPACE,
  write,
} from "./harness.ts";

async function collect(store: Store, putBefore: number): Promise<number> {
  const outcome = await store.remove({ of: "artifacts", namespace: SPACE, putBefore });
  assert.equal(outcome.outcome, "removed");
  return outcome.outcome === "removed" ? outcome.count : 0;
}

export const artifactCases: Cases = {
  "an artifact is unchanged byte for byte, also after reopening": async ({ store, another, reopen }) => {
    const bytes = new Uint8Array(256).map((_, index) => index);
    const hash = await putArtifact(store, bytes);
    for (const each of [await another(), await reopen()]) {
      const found = await each.get({ of: "artifact", namespace: SPACE, hash });
      assert.ok(found?.payload instanceof Uint8Array);
      assert.deepEqual([...found.payload], [...bytes]);
    }
  },

  "an artifact may be empty": async ({ store }) => {
    const hash = await putArtifact(store, new Uint8Array(0));
    const found = await store.get({ of: "artifact", namespace: SPACE, hash });
    assert.equal(found?.payload.length, 0);
    await accept(store, write("session/a", 0, { artifacts: [hash] }));
  },

  "`get` returns null for an artifact that was never put": async ({ store }) => {
    assert.equal(await hasArtifact(store, "a".repeat(64)), false);
  },

  "changing the buffer after `put` or `get` does not change the artifact": async ({ store }) => {
    const { hash, bytes } = artifactOf("kept");
    const expected = [...bytes];
    await store.put({ of: "artifact", namespace: SPACE, hash, bytes, at: 1 });
    bytes.fill(7);
    const first = await store.get({ of: "artifact", namespace: SPACE, hash });
    bytesOf(first?.payload).fill(8);
    const second = await store.get({ of: "artifact", namespace: SPACE, hash });
    assert.deepEqual([...bytesOf(second?.payload)], expected);
  },

  "an artifact that is put several times at once is stored once": async ({ store, another }) => {
    const other = await another();
    await Promise.all([store, other, store].map((each) => putArtifact(each, "same")));
    assert.equal(await collect(store, 2_000), 1);
  },

  "a write with a missing artifact is refused and names it": async ({ store }) => {
    const there = await putArtifact(store, "there");
    const missing = artifactOf("missing").hash;
    const { artifact } = await refuse(
      store,
      "missing",
      write("session/a", 0, { artifacts: [there, missing] }),
    );
    assert.equal(artifact, missing);
    assert.equal((await headOf(store, "session/a")).seq, 0);
    await putArtifact(store, "missing");
    await accept(store, write("session/a", 0, { artifacts: [there, missing] }));
  },

  "collection removes unreferenced artifacts only": async ({ store }) => {
    const referred = await putArtifact(store, "referred");
    const garbage = await putArtifact(store, "garbage");
    await accept(store, write("session/a", 0, { artifacts: [referred] }));
    assert.equal(await collect(store, 99_000), 1);
    assert.equal(await hasArtifact(store, referred), true);
    assert.equal(await hasArtifact(store, garbage), false);
  },

  "collection spares artifacts put at or after `putBefore`": async ({ store }) => {
    const old = await putArtifact(store, "old", { at: 1_000 });
    const young = await putArtifact(store, "young", { at: 5_000 });
    assert.equal(await collect(store, 5_000), 1);
    assert.equal(await hasArtifact(store, old), false);
    assert.equal(await hasArtifact(store, young), true);
  },

  "putting an artifact again renews its age": async ({ store }) => {
    const hash = await putArtifact(store, "again", { at: 1_000 });
    await putArtifact(store, "again", { at: 8_000 });
    assert.equal(await collect(store, 5_000), 0);
    assert.equal(await hasArtifact(store, hash), true);
  },

  "an artifact can be collected once the last stream with a reference is removed": async ({ store }) => {
    const hash = await putArtifact(store, "shared");
    await accept(store, write("session/a", 0, { artifacts: [hash] }));
    await accept(store, write("session/b", 0, { artifacts: [hash] }));
    await removeStream(store, "session/a");
    assert.equal(await collect(store, 99_000), 0);
    await removeStream(store, "session/b");
    assert.equal(await collect(store, 99_000), 1);
    assert.equal(await hasArtifact(store, hash), false);
  },

  "an artifact of a removed parent is kept while a fork shares its past": async ({ store }) => {
    const hash = await putArtifact(store, "past");
    await accept(store, write("session/a", 0, { artifacts: [hash] }));
    await accept(store, fork("session/b", "session/a", 1));
    await removeStream(store, "session/a");
    assert.equal(await collect(store, 99_000), 0);
    await removeStream(store, "session/b");
    assert.equal(await collect(store, 99_000), 1);
  },

  "a refused write leaves no references": async ({ store }) => {
    const hash = await putArtifact(store, "unused");
    await refuse(store, "conflict", write("session/a", 5, { artifacts: [hash] }));
    assert.equal(await collect(store, 99_000), 1);
  },

  "several writes may refer to one artifact": async ({ store }) => {
    const hash = await putArtifact(store, "popular");
    await accept(store, write("session/a", 0, { artifacts: [hash, hash] }));
    await accept(store, write("session/a", 1, { artifacts: [hash] }));
    assert.equal(await collect(store, 99_000), 0);
  },

  "a collected artifact can be put again": async ({ store }) => {
    const hash = await putArtifact(store, "twice");
    await collect(store, 99_000);
    await refuse(store, "missing", write("session/a", 0, { artifacts: [hash] }));
    await putArtifact(store, "twice");
    await accept(store, write("session/a", 0, { artifacts: [hash] }));
  },
};
