/** Runs on transcripts that were edited or compacted. */

import { afterAll, describe, expect, test } from "vitest";
import type { Message, Session } from "../../src/index.ts";
import { callBlock, counting, openBench, script, type World } from "../ledger/bench.ts";
import { sqliteForTest } from "../stores/conformance/sqlite-subject.ts";

function shortened(message: Message): Message {
  const note = { kind: "text", text: "(shortened)" } as const;
  return { ...message, blocks: [note, ...message.blocks] };
}

async function ranOnce(session: Session, world: World): Promise<void> {
  const tools = [counting(world, "pay")];
  await session.run({
    model: script([callBlock("c1", "pay")], "paid"),
    tools,
    prompt: { id: "p1", text: "go" },
  });
}

describe.each([sqliteForTest()])("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("an edited message keeps the results of its calls", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    const world = { effects: [] };
    await ranOnce(session, world);
    await session.compact(
      session.messages.map((each) => (each.role === "assistant" ? shortened(each) : each)),
    );
    expect(session.unfinished).toBe(null);
    await session.append({ role: "user", text: "and now?" });
    expect(await session.run({ model: script("nothing") })).toMatchObject({
      status: "done",
      text: "nothing",
    });
    await bench.dispose();
  });

  test("a message that is put back without results gets them again, and no call runs twice", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    const world: World = { effects: [] };
    await ranOnce(session, world);
    const [prompt, asked] = session.messages as [Message, Message];
    await session.compact([prompt]);
    await session.compact([prompt, asked]);
    const seen: string[][] = [];
    const result = await session.run({
      model: async ({ messages }) => {
        seen.push(messages.map(({ role }) => role));
        return { message: { text: "paid" } };
      },
      tools: [counting(world, "pay")],
    });
    expect(result).toMatchObject({ status: "done", text: "paid" });
    expect(seen).toEqual([["user", "assistant", "tool"]]);
    expect(world.effects).toHaveLength(1);
    await bench.dispose();
  });

  test("an answered prompt is answered from the log after it was compacted away", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    await ranOnce(session, { effects: [] });
    const summary = { id: "s", role: "user", createdAt: new Date(0).toISOString() } as const;
    await session.compact([{ ...summary, blocks: [{ kind: "text", text: "It was paid." }] }]);
    await session.run({ model: script("sent"), prompt: { id: "p2", text: "send it" } });
    const model = script("something else");
    const again = await session.run({ model, prompt: { id: "p1", text: "go" } });
    expect(again).toMatchObject({ status: "done", text: "paid", replayed: ["p1"] });
    expect(model.asked).toBe(0);
    await bench.dispose();
  });
});
