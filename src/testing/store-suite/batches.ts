/** Batches: all or nothing, beside others that are sent at once, and sent again. */

import assert from "node:assert/strict";
import { setImmediate } from "node:timers/promises";
import type { AppendOutcome, Batch, Write } from "../../store.ts";
import type { Cases, TestStore } from "./harness.ts";
import {
  batchOf,
  claiming,
  fork,
  guardedBy,
  headAt,
  kindsOf,
  outcomeIs,
  rejectsWith,
  times,
  write,
} from "./harness.ts";

/** Refused writes, for a stream with one event. Another stream holds the key `held`. */
const REFUSALS: Readonly<Record<Exclude<AppendOutcome["outcome"], "ok">, (stream: string) => Write>> = {
  conflict: (stream) => write(stream, 0),
  fenced: (stream) => write(stream, 1, guardedBy(1, "nobody/has")),
  taken: (stream) => write(stream, 1, claiming("held")),
  missing: (stream) => write(stream, 1, { artifacts: ["f".repeat(64)] }),
};

/** A write that changes everything that a write can change. */
const visible = (stream: string): Write =>
  write(stream, 1, {
    at: 99_000,
    ...claiming("new"),
    releases: ["own"],
    facets: { status: "changed" },
    items: [{ kind: "call", id: "new" }],
  });

async function prepare(store: TestStore): Promise<void> {
  await store.write("session/a", 0, { ...claiming("own"), at: 1_000 });
  await store.write("session/b", 0, { at: 1_000 });
  await store.write("session/c", 0, claiming("held"));
}

async function assertUntouched(store: TestStore): Promise<void> {
  for (const stream of ["session/a", "session/b"]) {
    await store.rowIs(stream, { head: headAt(1), updatedAt: 1_000 });
    assert.equal((await store.row(stream)).facets.status, null);
  }
  assert.deepEqual([...(await store.holders(["own", "new"])).keys()], ["own"]);
  assert.deepEqual(await store.items({ kind: "call" }), []);
}

const refusalCases = Object.entries(REFUSALS).flatMap(([kind, refused]) => {
  return ["first", "second"].map((which): [string, Cases[string]] => [
    `a batch whose ${which} write is refused (${kind}) leaves nothing behind in either stream`,
    async ({ store, reopen }) => {
      await prepare(store);
      const writes = [refused("session/b"), visible("session/a")];
      if (which === "second") writes.reverse();
      await store.refuse(kind as Refusal, writes);
      await assertUntouched(store);
      await assertUntouched(await reopen());
    },
  ]);
});

export const batchCases: Cases = {
  "the writes of a batch become visible together": async ({ store, another }) => {
    const other = await another();
    let isDone = false;
    const finished = store.send([write("session/a", 0), write("goal/g", 0)]).then(() => {
      isDone = true;
    });
    do {
      const { seq: before } = await other.head("session/a");
      const { seq: after } = await other.head("goal/g");
      assert.ok(before <= after, "the first write of a batch is visible without the second");
      // Gives a store whose reads never wait the chance to append.
      await setImmediate();
    } while (!isDone);
    await finished;
    assert.deepEqual(await other.seqs("session/a", "goal/g"), [1, 1]);
  },

  "heads are reported in the order of the writes": async ({ store }) => {
    await store.write("session/b", 0, { events: [1, 2, 3] });
    const heads = await store.accept([write("session/b", 3), write("session/a", 0, { events: [1, 2] })]);
    assert.deepEqual(heads, [headAt(4), headAt(2)]);
  },

  "a batch over 50 streams is accepted or refused as a whole": async ({ store }) => {
    const streams = times(50, (index) => `session/s${index}`);
    await store.write("session/s49", 0);
    const writes = streams.map((stream) => write(stream, 0));
    await store.refuse("conflict", writes);
    assert.deepEqual(await store.seqs(...streams), [...Array(49).fill(0), 1]);
    await store.accept([...writes.slice(0, 49), write("session/s49", 1)]);
    assert.deepEqual(await store.seqs(...streams), [...Array(49).fill(1), 2]);
  },

  "two handles that write two streams in opposite order do not deadlock": async ({ store, another }) => {
    const other = await another();
    for (let seq = 0; seq < 10; seq++) {
      const writes = [write("session/a", seq), write("session/b", seq)];
      const sent = [store.send(writes), other.send([...writes].reverse())];
      assert.deepEqual(await kindsOf(sent), ["conflict", "ok"]);
    }
    assert.deepEqual(await store.seqs("session/a", "session/b"), [10, 10]);
  },

  "a fork needs a parent that was there before its batch": async ({ store }) => {
    const writes = [fork("session/b", "session/a", 1), write("session/c", 0)];
    await store.refuse("conflict", writes, { stream: "session/a" });
    assert.equal((await store.head("session/c")).seq, 0);
  },

  ...Object.fromEntries(refusalCases),
};

const NEIGHBOURS = 12;
const stream = (index: number): string => `session/s${index}`;
type Refusal = keyof typeof REFUSALS;

/** Sends batches at once, for stores that group commits. The one in the middle must undo only itself. */
async function refusedBesides(store: TestStore, kind: Refusal, refused: Write | Write[]): Promise<void> {
  const sent = times(NEIGHBOURS, (index) => [write(stream(index), 0, claiming(`key ${index}`))]);
  sent.splice(NEIGHBOURS / 2, 0, [refused].flat());
  const outcomes = await Promise.all(sent.map((writes) => store.send(writes)));
  const expected = times(NEIGHBOURS, () => "ok").toSpliced(NEIGHBOURS / 2, 0, kind);
  assert.deepEqual(
    outcomes.map(({ outcome }) => outcome),
    expected,
  );
  await assertNeighboursAreThere(store);
}

async function assertNeighboursAreThere(store: TestStore): Promise<void> {
  assert.deepEqual(await store.seqs(...times(NEIGHBOURS, stream)), Array(NEIGHBOURS).fill(1));
  const keys = times(NEIGHBOURS, (index) => `key ${index}`);
  assert.equal((await store.holders(keys)).size, NEIGHBOURS);
}

export const neighbourCases: Cases = {
  "independent appends sent at once are all accepted": async ({ store }) => {
    await Promise.all(times(100, (index) => store.write(stream(index), 0)));
    assert.deepEqual(await store.seqs(...times(100, stream)), Array(100).fill(1));
  },

  "a conflict undoes only its own append": async ({ store, reopen }) => {
    await store.write("session/x", 0);
    await refusedBesides(store, "conflict", write("session/x", 0));
    await assertNeighboursAreThere(await reopen());
  },

  "a lost lease undoes only its own append": async ({ store }) => {
    await refusedBesides(store, "fenced", write("session/x", 0, guardedBy(1, "session/x")));
    assert.equal((await store.head("session/x")).seq, 0);
  },

  "a taken key undoes only its own append": async ({ store }) => {
    await store.write("session/y", 0, claiming("held"));
    await refusedBesides(store, "taken", write("session/x", 0, claiming("free", "held")));
    assert.equal((await store.holders(["free"])).size, 0);
  },

  "a missing artifact undoes only its own append": async ({ store }) => {
    const writes = [write("session/w", 0), write("session/x", 0, { artifacts: ["0".repeat(64)] })];
    await refusedBesides(store, "missing", writes);
    assert.equal((await store.head("session/w")).seq, 0);
  },

  "an invalid batch is rejected without harm to its neighbours": async ({ store }) => {
    const good = times(NEIGHBOURS, (index) => store.send(write(stream(index), 0)));
    await rejectsWith("BATCH_INVALID", () => store.send([write("session/x", 0), write("session/x", 1)]));
    assert.deepEqual(new Set(await kindsOf(good)), new Set(["ok"]));
  },

  "of appends sent at once for one seq, exactly one is accepted": async ({ store }) => {
    const outcomes = await Promise.all(
      times(10, (index) => store.send([write(stream(index), 0), write("session/x", 0, { events: [index] })])),
    );
    const accepted = outcomes.flatMap(({ outcome }, index) => (outcome === "ok" ? [index] : []));
    assert.equal(accepted.length, 1);
    assert.deepEqual(await store.events("session/x"), [[1, accepted[0]]]);
    const expected = times(10, (index) => (index === accepted[0] ? 1 : 0));
    assert.deepEqual(await store.seqs(...times(10, stream)), expected);
  },

  "of appends sent at once that claim one key, exactly one is accepted": async ({ store }) => {
    const outcomes = await Promise.all(
      times(10, (index) => store.send(write(stream(index), 0, claiming("k")))),
    );
    const winner = outcomes.findIndex(({ outcome }) => outcome === "ok");
    const losers = outcomes.flatMap((each) => (each.outcome === "taken" ? [each.by] : []));
    assert.deepEqual(losers, Array(9).fill({ stream: stream(winner), seq: 1 }));
    assert.deepEqual((await store.holders(["k"])).get("k"), [stream(winner), 1]);
  },

  "a read sees every append that resolved before it began": async ({ store }) => {
    await Promise.all(
      times(20, async (index) => {
        await store.write(stream(index), 0);
        assert.equal((await store.head(stream(index))).seq, 1);
      }),
    );
  },
};

async function assertResent(store: TestStore, batch: Batch): Promise<void> {
  const { resent, heads } = outcomeIs(await store.port.append(batch), "ok");
  assert.equal(resent, true, "a resent batch is answered as new");
  const ends = batch.writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
  assert.deepEqual(heads, ends, "a resend is answered with other heads than the first time");
}

export const resendCases: Cases = {
  "a batch that is sent twice is stored once": async ({ store }) => {
    const batch = await store.sent(write("session/a", 0, { events: [1, 2] }));
    await assertResent(store, batch);
    await assertResent(store, batch);
    assert.equal((await store.events("session/a")).length, 2);
  },

  "a resend is recognized after later writes": async ({ store }) => {
    const batch = await store.sent(write("session/a", 0, { events: [1, 2] }));
    await store.write("session/a", 2);
    await store.write("session/a", 3);
    await assertResent(store, batch);
    assert.equal((await store.head("session/a")).seq, 4);
  },

  "a resend is recognized after reopening, and by another handle": async ({ store, another, reopen }) => {
    const batch = await store.sent([write("session/a", 0), write("session/b", 0)]);
    await assertResent(await another(), batch);
    await assertResent(await reopen(), batch);
  },

  "a resend is recognized although its lease was lost meanwhile": async ({ store }) => {
    const { token } = await store.grant("session/a", "one");
    const batch = await store.sent(write("session/a", 0, guardedBy(token)));
    await store.release("session/a", token);
    await store.grant("session/a", "two");
    await assertResent(store, batch);
  },

  "a resend is not refused because of its own keys": async ({ store }) => {
    const batch = await store.sent(write("session/a", 0, claiming("k")));
    await assertResent(store, batch);
  },

  "a resend does not claim a key that was released since": async ({ store }) => {
    const batch = await store.sent(write("session/a", 0, claiming("k")));
    await store.write("session/a", 1, { releases: ["k"] });
    await assertResent(store, batch);
    await store.write("session/b", 0, claiming("k"));
  },

  "a resend of a batch over two streams is recognized": async ({ store }) => {
    const batch = await store.sent([write("session/a", 0), write("goal/g", 0, { events: [1, 2, 3] })]);
    await store.write("goal/g", 3);
    await assertResent(store, batch);
    assert.deepEqual(await store.seqs("session/a", "goal/g"), [1, 4]);
  },

  "a batch that is sent several times at once is stored once": async ({ store, another }) => {
    const other = await another();
    const batch = batchOf(write("session/a", 0, claiming("k")));
    const outcomes = await Promise.all([store, store, other].map((each) => each.port.append(batch)));
    const news = outcomes.map((outcome) => outcomeIs(outcome, "ok").resent).filter((resent) => !resent);
    assert.equal(news.length, 1);
    assert.equal((await store.head("session/a")).seq, 1);
  },

  "another batch at the same seq is a conflict": async ({ store }) => {
    const first = await store.sent(write("session/a", 0));
    await store.refuse("conflict", first.writes, {}, { id: "another" });
  },

  "a batch id may be reused at another seq": async ({ store }) => {
    await store.accept(write("session/a", 0), { id: "same" });
    await store.accept(write("session/a", 1), { id: "same" });
    await store.accept(write("session/b", 0), { id: "same" });
    assert.equal((await store.head("session/a")).seq, 2);
  },

  "a resend of a fork's first write is recognized": async ({ store }) => {
    await store.write("session/a", 0, { events: [1, 2] });
    const batch = await store.sent(fork("session/b", "session/a", 2));
    await assertResent(store, batch);
    assert.equal((await store.head("session/b")).seq, 3);
  },

  "a resend cannot restore a removed stream": async ({ store }) => {
    const batch = await store.sent(write("session/a", 0));
    await store.remove("session/a");
    const { head } = outcomeIs(await store.port.append(batch), "conflict");
    assert.deepEqual(head, headAt(0, 2));
  },
};
