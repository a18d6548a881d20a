import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import type { AppendOutcome, Store, Write } from "../../store.ts";
import { accept, batchOf, headOf, holdersOf, itemIds, outcomeIs, refuse, rowOf, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

/** Ways to be refused, for a stream that has one event and whose key `held` another stream has. */
const REFUSALS: Readonly<Record<Exclude<AppendOutcome["outcome"], "ok">, (stream: string) => Write>> = {
  conflict: (stream) => write(stream, 0),
  fenced: (stream) => write(stream, 1, { guards: [{ lease: "nobody/has", token: 1 }] }),
  taken: (stream) => write(stream, 1, { claims: [{ key: "held", event: 0 }] }),
  missing: (stream) => write(stream, 1, { artifacts: ["f".repeat(64)] }),
};

/** A write that would be visible in every way that a write can be. */
const visible = (stream: string): Write =>
  write(stream, 1, {
    at: 99_000,
    claims: [{ key: "new", event: 0 }],
    releases: ["own"],
    facets: { status: "changed" },
    items: [{ kind: "call", id: "new" }],
  });

async function prepare(store: Store): Promise<void> {
  await accept(store, write("session/a", 0, { claims: [{ key: "own", event: 0 }], at: 1_000 }));
  await accept(store, write("session/b", 0, { at: 1_000 }));
  await accept(store, write("session/c", 0, { claims: [{ key: "held", event: 0 }] }));
}

async function assertUntouched(store: Store): Promise<void> {
  for (const stream of ["session/a", "session/b"]) {
    const { head, facets, updatedAt } = await rowOf(store, stream);
    assert.deepEqual(head, { generation: 1, seq: 1 }, `${stream} has changed`);
    assert.deepEqual([facets.status, updatedAt], [null, 1_000], `${stream} has changed`);
  }
  assert.deepEqual([...(await holdersOf(store, ["own", "new"])).keys()], ["own"]);
  assert.deepEqual(await itemIds(store, { kind: "call" }), []);
}

const refusalCases = Object.entries(REFUSALS).flatMap(([kind, refused]): [string, Cases[string]][] => {
  const outcome = kind as keyof typeof REFUSALS;
  return [
    [
      `a batch whose second write is refused (${kind}) leaves nothing behind in either stream`,
      async ({ store, reopen }) => {
        await prepare(store);
        await refuse(store, outcome, [visible("session/a"), refused("session/b")]);
        await assertUntouched(store);
        await assertUntouched(await reopen());
      },
    ],
    [
      `a batch whose first write is refused (${kind}) leaves nothing behind in either stream`,
      async ({ store }) => {
        await prepare(store);
        await refuse(store, outcome, [refused("session/b"), visible("session/a")]);
        await assertUntouched(store);
      },
    ],
  ];
});

export const batchCases: Cases = {
  "the writes of a batch become visible together": async ({ store, another }) => {
    const other = await another();
    const pending = store.append(batchOf([write("session/a", 0), write("goal/g", 0)]));
    let isDone = false;
    const finished = Promise.resolve(pending).then(() => {
      isDone = true;
    });
    do {
      const { seq: before } = await headOf(other, "session/a");
      const { seq: after } = await headOf(other, "goal/g");
      assert.ok(before <= after, "the first write of a batch is visible without the second");
      // A store whose reads do not wait for anything would otherwise never get to its append.
      await setImmediate();
    } while (!isDone);
    await finished;
    assert.equal((await headOf(other, "session/a")).seq, 1);
    assert.equal((await headOf(other, "goal/g")).seq, 1);
  },

  "heads are reported in the order of the writes": async ({ store }) => {
    await accept(store, write("session/b", 0, { events: [1, 2, 3] }));
    const heads = await accept(store, [write("session/b", 3), write("session/a", 0, { events: [1, 2] })]);
    assert.deepEqual(heads, [
      { generation: 1, seq: 4 },
      { generation: 1, seq: 2 },
    ]);
  },

  "a batch over fifty streams is accepted or refused as one": async ({ store }) => {
    const streams = Array.from({ length: 50 }, (_, index) => `session/s${index}`);
    await accept(store, write("session/s49", 0));
    const writes = streams.map((stream) => write(stream, 0));
    await refuse(store, "conflict", writes);
    for (const stream of streams.slice(0, 49)) assert.equal((await headOf(store, stream)).seq, 0);
    await accept(store, [...writes.slice(0, 49), write("session/s49", 1)]);
    for (const stream of streams) assert.ok((await headOf(store, stream)).seq > 0);
  },

  "two handles that write the same two streams in opposite order both finish": async ({ store, another }) => {
    const other = await another();
    for (let seq = 0; seq < 10; seq++) {
      const outcomes = await Promise.all([
        store.append(batchOf([write("session/a", seq), write("session/b", seq)])),
        other.append(batchOf([write("session/b", seq), write("session/a", seq)])),
      ]);
      assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), ["conflict", "ok"]);
    }
    assert.equal((await headOf(store, "session/a")).seq, 10);
    assert.equal((await headOf(store, "session/b")).seq, 10);
  },

  "a stream and its fork can begin in one batch only when the parent was there before": async ({ store }) => {
    const fork = { stream: "session/a", generation: 1, seq: 1 };
    const outcome = await store.append(batchOf([write("session/b", 1, { fork }), write("session/c", 0)]));
    assert.equal(outcomeIs(outcome, "conflict").stream, "session/a");
    assert.equal((await headOf(store, "session/c")).seq, 0);
  },

  ...Object.fromEntries(refusalCases),
};
