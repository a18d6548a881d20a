// A call that never ran waits because the program lacks its tool. When the tool is back, nothing is in doubt.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { storeSubjects } from "../subjects.ts";
import { type Bench, callBlock, counting, openBench, script } from "./bench.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((subject) => subject.dispose())));

describe.each(subjects)("on '$name'", (subject) => {
  let bench: Bench;
  const world = { effects: [] as string[] };
  beforeEach(async () => {
    bench = await openBench(subject);
    world.effects.length = 0;
  });
  afterEach(() => bench.dispose());

  test("an approved call runs once its tool is back, without another question", async () => {
    const pay = counting(world, "pay", { needsApproval: true });
    const session = await bench.first.session();
    const model = script([callBlock("c1", "pay", {})], "paid");
    expect((await session.run({ model, tools: [pay], prompt: "go" })).status).toBe("waiting");
    await bench.first.holdfast.calls.approve("c1", { by: "ann" });
    expect((await session.run({ model, tools: [], prompt: "go" })).status).toBe("waiting");
    expect(world.effects).toEqual([]);
    expect(await session.run({ model, tools: [pay], prompt: "go" })).toMatchObject({ status: "done" });
    expect(world.effects).toHaveLength(1);
  });
});
