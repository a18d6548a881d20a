/** People and other programs change a session while another framework's loop works on it. */

import { expect, test } from "vitest";
import { Holdfast, Journal } from "../../../src/index.ts";
import { HoldfastSession } from "../../../src/integrations/openai-agents/index.ts";
import { RecordedTurns } from "../../../src/integrations/recorded-turns/index.ts";
import { memoryData, openMemory } from "../../../src/stores/memory/index.ts";
import { callBlock, counting } from "../../ledger/bench.ts";

const question = { prompt: [{ role: "user", content: "go" }] as never };

async function asked(holdfast: Holdfast, ...ids: string[]): Promise<RecordedTurns> {
  const turns = new RecordedTurns(await holdfast.session("alpha"));
  await turns.ask(question, async () => ({ blocks: ids.map((id) => callBlock(id, "pay")) }));
  return turns;
}

test("a call that a person has just approved runs, and is not queued again", async () => {
  const world = { effects: [] };
  const holdfast = new Holdfast(new Journal({ store: openMemory() }));
  const turns = await asked(holdfast, "c1");
  const pay = counting(world, "pay");
  const call = { tool: pay, callId: "c1", args: {}, needsApproval: true };
  expect(await turns.call(call)).toMatchObject({ status: "waiting" });
  await holdfast.calls.approve("c1", { by: "ada", why: "yes" });
  expect(await turns.call(call)).toMatchObject({ status: "completed" });
  expect(world.effects).toHaveLength(1);
});

test("a call that is running is not reported to the model as not run", async () => {
  const world = { effects: [] };
  const holdfast = new Holdfast(new Journal({ store: openMemory() }));
  const turns = await asked(holdfast, "c1");
  let answer = (): void => undefined;
  const pay = counting(world, "pay", {
    execute: () =>
      new Promise((resolve) => {
        answer = () => resolve("paid");
      }),
  });
  const next = {
    prompt: [
      { role: "user", content: "go" },
      { role: "user", content: "on" },
    ] as never,
  };
  let late: Promise<unknown> = Promise.resolve();
  const told = turns.ask(next, async () => {
    late = turns.call({ tool: pay, callId: "c1", args: {} });
    while (turns.session.openCalls.length === 0) await turns.session.refresh();
    return { blocks: [{ kind: "text", text: "so it was not run" }] };
  });
  await expect(told).rejects.toMatchObject({ code: "SESSION_HAS_OPEN_CALLS" });
  answer();
  await late;
  expect(JSON.stringify(turns.session.messages)).not.toContain("was not run");
});

test("popItem returns items that another program added", async () => {
  const data = memoryData();
  const open = () => new HoldfastSession(new Holdfast(new Journal({ store: openMemory({ data }) })), "alpha");
  const [here, there] = [open(), open()];
  const item = (content: string) => ({ type: "message", role: "user", content }) as never;
  expect(await here.getItems()).toEqual([]);
  await there.addItems([item("one"), item("two")]);
  expect(await here.popItem()).toMatchObject({ content: "two" });
  const third = open();
  await third.getItems();
  await here.clearSession();
  await there.addItems([item("three")]);
  await here.clearSession();
  expect(await third.getItems()).toEqual([]);
});
