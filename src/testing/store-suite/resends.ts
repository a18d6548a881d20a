import assert from "node:assert/strict";
import type { Batch, Store } from "../../store.ts";
import {
  accept,
  batchOf,
  eventsOf,
  grant,
  headOf,
  outcomeIs,
  refuse,
  release,
  removeStream,
  write,
} from "./acts.ts";
import type { Cases } from "./trial.ts";

async function assertResent(store: Store, batch: Batch): Promise<void> {
  const { resent, heads } = outcomeIs(await store.append(batch), "ok");
  assert.equal(resent, true, "a batch that is there already counts as new");
  const ends = batch.writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
  assert.deepEqual(heads, ends, "a resend answers with other heads than the first time");
}

export const resendCases: Cases = {
  "a batch that is sent twice is applied once": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { events: [1, 2] }));
    outcomeIs(await store.append(batch), "ok");
    await assertResent(store, batch);
    await assertResent(store, batch);
    assert.equal((await eventsOf(store, "session/a")).length, 2);
  },

  "a resend is recognised after others wrote behind it": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { events: [1, 2] }));
    outcomeIs(await store.append(batch), "ok");
    await accept(store, write("session/a", 2));
    await accept(store, write("session/a", 3));
    await assertResent(store, batch);
    assert.equal((await headOf(store, "session/a")).seq, 4);
  },

  "a resend is recognised after reopening, and by another handle": async ({ store, another, reopen }) => {
    const batch = batchOf([write("session/a", 0), write("session/b", 0)]);
    outcomeIs(await store.append(batch), "ok");
    await assertResent(await another(), batch);
    await assertResent(await reopen(), batch);
  },

  "a resend is recognised although its lease was lost meanwhile": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    const batch = batchOf(write("session/a", 0, { guards: [{ lease: "session/a", token }] }));
    outcomeIs(await store.append(batch), "ok");
    await release(store, "session/a", token);
    await grant(store, "session/a", "two");
    await assertResent(store, batch);
  },

  "a resend is not refused by the keys that it claimed itself": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    outcomeIs(await store.append(batch), "ok");
    await assertResent(store, batch);
  },

  "a resend does not claim again what was released since": async ({ store }) => {
    const batch = batchOf(write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    outcomeIs(await store.append(batch), "ok");
    await accept(store, write("session/a", 1, { releases: ["k"] }));
    await assertResent(store, batch);
    await accept(store, write("session/b", 0, { claims: [{ key: "k", event: 0 }] }));
  },

  "a resend of a batch over two streams is recognised": async ({ store }) => {
    const batch = batchOf([write("session/a", 0), write("goal/g", 0, { events: [1, 2, 3] })]);
    outcomeIs(await store.append(batch), "ok");
    await accept(store, write("goal/g", 3));
    await assertResent(store, batch);
    assert.equal((await headOf(store, "session/a")).seq, 1);
    assert.equal((await headOf(store, "goal/g")).seq, 4);
  },

  "a batch that is sent twice at once is applied once": async ({ store, another }) => {
    const other = await another();
    const batch = batchOf(write("session/a", 0, { claims: [{ key: "k", event: 0 }] }));
    const outcomes = await Promise.all([store, store, other].map((each) => each.append(batch)));
    const news = outcomes.map((outcome) => outcomeIs(outcome, "ok").resent).filter((resent) => !resent);
    assert.equal(news.length, 1);
    assert.equal((await headOf(store, "session/a")).seq, 1);
  },

  "another batch at the same position is a conflict": async ({ store }) => {
    const first = batchOf(write("session/a", 0));
    outcomeIs(await store.append(first), "ok");
    await refuse(store, "conflict", first.writes, { id: "another" });
  },

  "a batch id says nothing at another position": async ({ store }) => {
    await accept(store, write("session/a", 0), { id: "same" });
    await accept(store, write("session/a", 1), { id: "same" });
    await accept(store, write("session/b", 0), { id: "same" });
    assert.equal((await headOf(store, "session/a")).seq, 2);
  },

  "a resend of a fork's first write is recognised": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2] }));
    const batch = batchOf(write("session/b", 2, { fork: { stream: "session/a", generation: 1, seq: 2 } }));
    outcomeIs(await store.append(batch), "ok");
    await assertResent(store, batch);
    assert.equal((await headOf(store, "session/b")).seq, 3);
  },

  "a resend cannot bring a removed stream back": async ({ store }) => {
    const batch = batchOf(write("session/a", 0));
    outcomeIs(await store.append(batch), "ok");
    await removeStream(store, "session/a");
    const { head } = outcomeIs(await store.append(batch), "conflict");
    assert.deepEqual(head, { generation: 2, seq: 0 });
  },
};
