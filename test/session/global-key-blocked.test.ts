import { afterAll, describe, expect, test } from "vitest";
import { callBlock, counting, openBench, script } from "../ledger/bench.ts";
import { sqliteForTest } from "../stores/conformance/sqlite-subject.ts";

describe.each([sqliteForTest()])("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("a run that waits for another session's call names it and continues after it", async () => {
    const bench = await openBench(subject);
    const world = { effects: [] };
    const dead = counting(world, "pay", {
      dedupe: "global",
      execute: () => {
        throw new Error("the line went dead");
      },
    });
    const pay = counting(world, "pay", { dedupe: "global" });
    const first = await bench.first.session("first");
    const model = (id: string) => script([callBlock(id, "pay", { order: 1 })], "done");
    const waits = await first.run({ model: model("c1"), tools: [dead], prompt: "pay" });
    expect(waits.waiting).toMatchObject([{ callId: "c1", person: true }]);

    const second = await bench.first.session("second");
    const blocked = await second.run({ model: model("c2"), tools: [pay], prompt: "pay" });
    expect(blocked).toMatchObject({ status: "waiting", reason: "calls" });
    expect(blocked.waiting).toEqual([
      {
        callId: "c2",
        tool: "pay",
        person: true,
        why: "call c1 of session first does the same and has no outcome yet",
        blockedBy: { session: "first", callId: "c1" },
      },
    ]);

    const answer = { outcome: "landed", result: "paid", by: "ann", why: "seen at the bank" } as const;
    await bench.first.holdfast.calls.resolve({ session: "first", callId: "c1" }, answer);
    const done = await second.run({ model: script("done"), tools: [pay] });
    expect(done).toMatchObject({ status: "done", waiting: [] });
    expect(world.effects).toEqual([]);
    await bench.dispose();
  });
});
