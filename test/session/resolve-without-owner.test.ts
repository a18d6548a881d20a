/** A person resolves a call whose process died and whose session has no owner. The old owner is fenced. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Session } from "../../src/index.ts";
import { type Bench, callBlock, counting, fatal, openBench, script, type World } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

describe.each(storeSubjects())("on $name", (subject) => {
  const ann = { by: "ann", why: "seen in the bank" };
  let bench: Bench;
  let session: Session;
  let world: World;

  beforeEach(async () => {
    world = { effects: [] };
    bench = await openBench(subject);
    session = await bench.first.session();
    const { tool, reached } = fatal(world, "pay");
    const run = session.run({ model: script([callBlock("c1", "pay")]), tools: [tool], prompt: "go" });
    run.catch(() => undefined);
    await reached;
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test("landed: the agent continues, and nothing is charged again", async () => {
    const next = await bench.afterCrash();
    const answer = { outcome: "landed", result: { paid: 7 }, ...ann } as const;
    expect(await next.holdfast.calls.resolve("c1", answer)).toMatchObject({ session: "alpha", goesOn: true });
    const again = await next.session();
    const tools = [counting(world, "pay")];
    expect(await again.run({ model: script("paid"), tools, prompt: "go" })).toMatchObject({ status: "done" });
    expect(world.effects).toHaveLength(1);
    expect(JSON.stringify(again.messages)).toContain('{\\"paid\\":7}');
  });

  test("retry: the next run makes one more attempt", async () => {
    const next = await bench.afterCrash();
    await next.holdfast.calls.resolve("c1", { outcome: "retry", ...ann });
    const again = await next.session();
    await again.run({ model: script("paid"), tools: [counting(world, "pay")], prompt: "go" });
    expect(world.effects).toHaveLength(2);
  });

  test("the answer is rejected while its process may live, and names that process", async () => {
    const other = await bench.another();
    await expect(other.holdfast.calls.resolve("c1", { outcome: "landed", ...ann })).rejects.toMatchObject({
      code: "CALL_NOT_WAITING",
      hint: expect.stringMatching(/held by .*pid \d+/),
    });
  });

  test("the old owner that wakes up after the answer writes and starts nothing", async () => {
    const next = await bench.afterCrash();
    await next.holdfast.calls.resolve("c1", { outcome: "failed", ...ann });
    const pay = counting(world, "pay");
    await expect(session.call({ tool: pay, args: {}, callId: "c2" })).rejects.toMatchObject({
      code: "LEASE_LOST",
    });
    expect(world.effects).toHaveLength(1);
  });

  test("the crash is still recorded: the session gets a worker", async () => {
    const next = await bench.afterCrash();
    await next.holdfast.calls.resolve("c1", { outcome: "landed", ...ann });
    const { journal } = next.holdfast;
    const { rows } = await journal.list<"streams">({ of: "streams", kind: "worker", limit: 9 });
    expect(rows.map(({ facets }) => [facets.title, facets.status])).toEqual([["session alpha", "wanted"]]);
  });

  test("a second answer names the author of the first, also with only a call id", async () => {
    const { calls } = (await bench.afterCrash()).holdfast;
    await calls.resolve("c1", { outcome: "landed", ...ann });
    for (const named of ["c1", { session: "alpha", callId: "c1" }]) {
      const bob = { outcome: "failed", by: "bob", why: "not there" } as const;
      await expect(calls.resolve(named, bob)).rejects.toMatchObject({
        message: expect.stringContaining("is completed"),
        hint: expect.stringContaining("ann has answered for it (seen in the bank)"),
      });
    }
  });
});
