import assert from "node:assert/strict";
import type { Store } from "../../store.ts";
import { accept, batchOf, eventsOf, headOf, holdersOf, itemIds, refuse, rowOf, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

/** Appends one event wherever the stream ends, as often as it takes. */
async function insist(store: Store, stream: string, value: string): Promise<void> {
  let head = await headOf(store, stream);
  for (;;) {
    const { generation, seq } = head;
    const outcome = await store.append(batchOf(write(stream, seq, { generation, events: [value] })));
    if (outcome.outcome === "ok") return;
    assert.equal(outcome.outcome, "conflict");
    if (outcome.outcome === "conflict") head = outcome.head;
  }
}

export const conflictCases: Cases = {
  "a writer who is behind is refused and told where the stream ends": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2] }));
    const { stream, head } = await refuse(store, "conflict", write("session/a", 0));
    assert.equal(stream, "session/a");
    assert.deepEqual(head, { generation: 1, seq: 2 });
  },

  "a writer who is ahead is refused": async ({ store }) => {
    await accept(store, write("session/a", 0));
    const { head } = await refuse(store, "conflict", write("session/a", 2));
    assert.deepEqual(head, { generation: 1, seq: 1 });
  },

  "a writer inside a write of several events is refused": async ({ store }) => {
    await accept(store, write("session/a", 0, { events: [1, 2, 3] }));
    await refuse(store, "conflict", write("session/a", 2));
  },

  "a writer who expects another generation is refused": async ({ store }) => {
    await refuse(store, "conflict", write("session/a", 0, { generation: 2 }));
    await accept(store, write("session/a", 0));
    const { head } = await refuse(store, "conflict", write("session/a", 1, { generation: 2 }));
    assert.deepEqual(head, { generation: 1, seq: 1 });
  },

  "a writer who expects events in a stream that never was is refused": async ({ store }) => {
    const { head } = await refuse(store, "conflict", write("session/a", 3));
    assert.deepEqual(head, { generation: 1, seq: 0 });
  },

  "a refused write leaves nothing behind": async ({ store }) => {
    await accept(store, write("session/a", 0, { facets: { status: "before" }, at: 1_000 }));
    const refused = write("session/a", 0, {
      at: 9_000,
      claims: [{ key: "k", event: 0 }],
      facets: { status: "after" },
      items: [{ kind: "call", id: "c" }],
    });
    await refuse(store, "conflict", refused);
    const { facets, updatedAt, head } = await rowOf(store, "session/a");
    assert.equal(facets.status, "before");
    assert.equal(updatedAt, 1_000);
    assert.deepEqual(head, { generation: 1, seq: 1 });
    assert.deepEqual(await itemIds(store, { kind: "call", stream: "session/a" }), []);
    assert.equal((await holdersOf(store, ["k"])).size, 0);
    assert.equal((await eventsOf(store, "session/a")).length, 1);
  },

  "of two handles that write at one position exactly one wins": async ({ store, another }) => {
    const other = await another();
    for (let seq = 0; seq < 10; seq++) {
      const outcomes = await Promise.all(
        [store, other].map((each) => each.append(batchOf(write("session/a", seq)))),
      );
      assert.deepEqual(outcomes.map(({ outcome }) => outcome).sort(), ["conflict", "ok"]);
      const loser = outcomes.find(({ outcome }) => outcome === "conflict");
      assert.deepEqual(loser?.outcome === "conflict" && loser.head, { generation: 1, seq: seq + 1 });
    }
    assert.equal((await eventsOf(store, "session/a")).length, 10);
  },

  "writers who insist all get in, each event once, with no gap": async ({ store, another }) => {
    const other = await another();
    const values = Array.from({ length: 40 }, (_, index) => `value ${index}`);
    await Promise.all(values.map((value, index) => insist(index % 2 ? store : other, "session/a", value)));
    const events = await eventsOf(store, "session/a");
    assert.deepEqual(
      events.map(([seq]) => seq),
      values.map((_, index) => index + 1),
    );
    assert.deepEqual(events.map(([, value]) => value).sort(), values.sort());
  },

  "what one handle wrote the other reads at once": async ({ store, another }) => {
    const other = await another();
    await accept(store, write("session/a", 0, { events: ["by one"] }));
    assert.deepEqual(await eventsOf(other, "session/a"), [[1, "by one"]]);
    await accept(other, write("session/a", 1, { events: ["by the other"] }));
    assert.deepEqual(await headOf(store, "session/a"), { generation: 1, seq: 2 });
  },
};
