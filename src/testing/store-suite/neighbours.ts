import assert from "node:assert/strict";
import type { AppendOutcome, Batch, Store } from "../../store.ts";
import { accept, batchOf, eventsOf, headOf, holdersOf, rejectsWith, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

const NEIGHBOURS = 12;
const stream = (index: number): string => `session/s${index}`;

/** Sends batches at once, so that a store that gathers them does, with a refused one in their middle. */
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
  "appends sent at once are all accepted when nothing is between them": async ({ store }) => {
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

  "a malformed batch is rejected alone": async ({ store }) => {
    const malformed = batchOf([write("session/x", 0), write("session/x", 1)]);
    const good = Array.from({ length: NEIGHBOURS }, (_, index) =>
      store.append(batchOf(write(stream(index), 0))),
    );
    await rejectsWith("BATCH_INVALID", () => store.append(malformed));
    for (const { outcome } of await Promise.all(good)) assert.equal(outcome, "ok");
  },

  "of appends sent at once for one position exactly one is accepted": async ({ store }) => {
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

  "of appends sent at once that claim one key exactly one gets it": async ({ store }) => {
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

  "an append is visible to a read that begins after it resolved": async ({ store }) => {
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        await accept(store, write(stream(index), 0));
        assert.equal((await headOf(store, stream(index))).seq, 1);
      }),
    );
  },
};
