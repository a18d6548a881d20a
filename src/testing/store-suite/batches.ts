/** Batches: all or nothing, beside others that are sent at once, and sent again. */

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import type { AppendOutcome, Batch, Store, Write } from "../../store.ts";
import {
  accept,
  batchOf,
  type Cases,
  eventsOf,
  grant,
  headOf,
  holdersOf,
  itemIds,
  outcomeIs,
  refuse,
  rejectsWith,
  release,
  removeStream,
  rowOf,
  write,
} from "./harness.ts";

/** Refused writes, for a stream with one event. Another stream holds the key `held`. */
const REFUSALS: Readonly<Record<Exclude<AppendOutcome["outcome"], "ok">, (stream: string) => Write>> = {
  conflict: (stream) => write(stream, 0),
  fenced: (stream) => write(stream, 1, { guards: [{ lease: "nobody/has", token: 1 }] }),
  taken: (stream) => write(stream, 1, { claims: [{ key: "held", event: 0 }] }),
  missing: (stream) => write(stream, 1, { artifacts: ["f".repeat(64)] }),
};

/** A write that changes everything that a write can change. */
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
      // Gives a store whose reads never wait the chance to append.
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

  "a batch over 50 streams is accepted or refused as a whole": async ({ store }) => {
    const streams = Array.from({ length: 50 }, (_, index) => `session/s${index}`);
    await accept(store, write("session/s49", 0));
    const writes = streams.map((stream) => write(stream, 0));
    await refuse(store, "conflict", writes);
    for (const stream of streams.slice(0, 49)) assert.equal((await headOf(store, stream)).seq, 0);
    await accept(store, [...writes.slice(0, 49), write("session/s49", 1)]);
    for (const stream of streams) assert.ok((await headOf(store, stream)).seq > 0);
  },

  "two handles that write two streams in opposite order do not deadlock": async ({ store, another }) => {
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

  "a fork needs a parent that was there before its batch": async ({ store }) => {
    const fork = { stream: "session/a", generation: 1, seq: 1 };
    const outcome = await store.append(batchOf([write("session/b", 1, { fork }), write("session/c", 0)]));
    assert.equal(outcomeIs(outcome, "conflict").stream, "session/a");
    assert.equal((await headOf(store, "session/c")).seq, 0);
  },

  ...Object.fromEntries(refusalCases),
};

const NEIGHBOURS = 12;
const stream = (index: number): string => `session/s${index}`;

/** Sends batches at once, for stores that group commits, with a refused one in the middle. */
async function besides(store: Store, refused: Batch): Promise<AppendOutcome> {
  const good = Array.from({ length: NEIGHBOURS }, (_, index) =>
    batchOf(write(stream(index), 0, { claims: [{ key: `key ${index}`, event: 0 }] })),
  );
  const sent = good.toSpliced(NEIGHBOURS / 2, 0, refused);
  const outcomes = await Promise.all(sent.map((batch) => store.append(batch)));
  const [outcome] = outcomes.splice(NEIGHBOURS / 2, 1);
  for (const each of outcomes) assert.equal(each.outcome, "ok");
  assert.ok(outcome);
  return outcome;
}

async function assertNeighboursAreThere(store: Store): Promise<void> {
  for (let index = 0; index < NEIGHBOURS; index++) {
    assert.deepEqual(await headOf(store, stream(index)), { generation: 1, seq: 1 });
  }
  const keys = Array.from({ length: NEIGHBOURS }, (_, index) => `key ${index}`);
  assert.equal((await holdersOf(store, keys)).size, NEIGHBOURS);
}

export const neighbourCases: Cases = {
  "independent appends sent at once are all accepted": async ({ store }) => {
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, (_, index) => store.append(batchOf(write(stream(index), 0)))),
    );
    assert.ok(outcomes.every(({ outcome }) => outcome === "ok"));
    for (let index = 0; index < 100; index++) assert.equal((await headOf(store, stream(index))).seq, 1);
  },

  "a conflict undoes only its own append": async ({ store, reopen }) => {
    await accept(store, write("session/x", 0));
    assert.equal((await besides(store, batchOf(write("session/x", 0)))).outcome, "conflict");
    await assertNeighboursAreThere(store);
    await assertNeighboursAreThere(await reopen());
  },

  "a lost lease undoes only its own append": async ({ store }) => {
    const fenced = batchOf(write("session/x", 0, { guards: [{ lease: "session/x", token: 1 }] }));
    assert.equal((await besides(store, fenced)).outcome, "fenced");
    await assertNeighboursAreThere(store);
    assert.equal((await headOf(store, "session/x")).seq, 0);
  },

  "a taken key undoes only its own append": async ({ store }) => {
    await accept(store, write("session/y", 0, { claims: [{ key: "held", event: 0 }] }));
    const claims = ["free", "held"].map((key) => ({ key, event: 0 }));
    assert.equal((await besides(store, batchOf(write("session/x", 0, { claims })))).outcome, "taken");
    await assertNeighboursAreThere(store);
    assert.equal((await holdersOf(store, ["free"])).size, 0);
  },

  "a missing artifact undoes only its own append": async ({ store }) => {
    const missing = batchOf([write("session/w", 0), write("session/x", 0, { artifacts: ["0".repeat(64)] })]);
    assert.equal((await besides(store, missing)).outcome, "missing");
    await assertNeighboursAreThere(store);
    assert.equal((await headOf(store, "session/w")).seq, 0);
  },

  "an invalid batch is rejected without harm to its neighbours": async ({ store }) => {
    const malformed = batchOf([write("session/x", 0), write("session/x", 1)]);
    const good = Array.from({ length: NEIGHBOURS }, (_, index) =>
      store.append(batchOf(write(stream(index), 0))),
    );
    await rejectsWith("BATCH_INVALID", () => store.append(malformed));
    for (const { outcome } of await Promise.all(good)) assert.equal(outcome, "ok");
  },

  "of appends sent at once for one seq, exactly one is accepted": async ({ store }) => {
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        store.append(batchOf([write(stream(index), 0), write("session/x", 0, { events: [index] })])),
      ),
    );
    const accepted = outcomes.flatMap(({ outcome }, index) => (outcome === "ok" ? [index] : []));
    assert.equal(accepted.length, 1);
    assert.deepEqual(await eventsOf(store, "session/x"), [[1, accepted[0]]]);
    for (let index = 0; index < 10; index++) {
      assert.equal((await headOf(store, stream(index))).seq, index === accepted[0] ? 1 : 0);
    }
  },

  "of appends sent at once that claim one key, exactly one is accepted": async ({ store }) => {
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        store.append(batchOf(write(stream(index), 0, { claims: [{ key: "k", event: 0 }] }))),
      ),
    );
    const winner = outcomes.findIndex(({ outcome }) => outcome === "ok");
    assert.equal(outcomes.filter(({ outcome }) => outcome === "taken").length, 9);
    for (const outcome of outcomes) {
      if (outcome.outcome === "taken") assert.deepEqual(outcome.by, { stream: stream(winner), seq: 1 });
    }
    assert.deepEqual((await holdersOf(store, ["k"])).get("k"), [stream(winner), 1]);
  },

  "a read sees every append that resolved before it began": async ({ store }) => {
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await accept(store, write(stream(index), 0));
        assert.equal((await headOf(store, stream(index))).seq, 1);
      }),
    );
  },
};

async function assertResent(store: Store, batch: Batch): Promise<void> {
  const { resent, heads } = outcomeIs(await store.append(batch), "ok");
  assert.equal(resent, true, "a resent batch is answered as new");
  const ends = batch.writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
  assert.deepEqual(heads, ends, "a resend is answered with other heads than the first time");
}

export const resendCases: Cases = {
  "a batch that is sent twice is stored once": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { events: [1, 2] }));
    outcomeIs(await store.append(batch), "ok");
    await assertResent(store, batch);
    await assertResent(store, batch);
    assert.equal((await eventsOf(store, "session/a")).length, 2);
  },

  "a resend is recognized after later writes": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { events: [1, 2] }));
    outcomeIs(await store.append(batch), "ok");
    await accept(store, write("session/a", 2));
    await accept(store, write("session/a", 3));
    await assertResent(store, batch);
    assert.equal((await headOf(store, "session/a")).seq, 4);
  },

  "a resend is recognized after reopening, and by another handle": async ({ store, another, reopen }) => {
    const batch = batchOf([write("session/a", 0), write("session/b", 0)]);
    outcomeIs(await store.append(batch), "ok");
    await assertResent(await another(), batch);
    await assertResent(await reopen(), batch);
  },

  "a resend is recognized although its lease was lost meanwhile": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    const batch = batchOf(write("session/a", 0, { guards: [{ lease: "session/a", token }] }));
    outcomeIs(await store.append(batch), "ok");
    await release(store, "session/a", token);
    await grant(store, "session/a", "two");
    await assertResent(store, batch);
  },

  "a resend is not refused because of its own keys": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    outcomeIs(await store.append(batch), "ok");
    await assertResent(store, batch);
  },

  "a resend does not claim a key that was released since": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    outcomeIs(await store.append(batch), "ok");
    await accept(store, write("session/a", 1, { releases: ["k"] }));
    await assertResent(store, batch);
    await accept(store, write("session/b", 0, { claims: [{ key: "k", event: 0 }] }));
  },

  "a resend of a batch over two streams is recognized": async ({ store }) => {
    const batch = batchOf([write("session/a", 0), write("goal/g", 0, { events: [1, 2, 3] })]);
    outcomeIs(await store.append(batch), "ok");
    await accept(store, write("goal/g", 3));
    await assertResent(store, batch);
    assert.equal((await headOf(store, "session/a")).seq, 1);
    assert.equal((await headOf(store, "goal/g")).seq, 4);
  },

  "a batch that is sent several times at once is stored once": async ({ store, another }) => {
    const other = await another();
    const batch = batchOf(write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    const outcomes = await Promise.all([store, store, other].map((each) => each.append(batch)));
    const news = outcomes.map((outcome) => outcomeIs(outcome, "ok").resent).filter((resent) => !resent);
    assert.equal(news.length, 1);
    assert.equal((await headOf(store, "session/a")).seq, 1);
  },

  "another batch at the same seq is a conflict": async ({ store }) => {
    const first = batchOf(write("session/a", 0));
    outcomeIs(await store.append(first), "ok");
    await refuse(store, "conflict", first.writes, { id: "another" });
  },

  "a batch id may be reused at another seq": async ({ store }) => {
    await accept(store, write("session/a", 0), { id: "same" });
    await accept(store, write("session/a", 1), { id: "same" });
    await accept(store, write("session/b", 0), { id: "same" });
    assert.equal((await headOf(store, "session/a")).seq, 2);
  },

  "a resend of a fork's first write is recognized": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2] }));
    const batch = batchOf(write("session/b", 2, { fork: { stream: "session/a", generation: 1, seq: 2 } }));
    outcomeIs(await store.append(batch), "ok");
    await assertResent(store, batch);
    assert.equal((await headOf(store, "session/b")).seq, 3);
  },

  "a resend cannot restore a removed stream": async ({ store }) => {
    const batch = batchOf(write("session/a", 0));
    outcomeIs(await store.append(batch), "ok");
    await removeStream(store, "session/a");
    const { head } = outcomeIs(await store.append(batch), "conflict");
    assert.deepEqual(head, { generation: 2, seq: 0 });
  },
};
