/** A session returns frozen objects, also those it has read from the store. */

import { beforeEach, describe, expect, test } from "vitest";
import { type Message, type Model, open, type PayloadCodec, type Session } from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { callBlock, counting, script } from "../ledger/bench.ts";

type Writable<Value> = { -readonly [Key in keyof Value]: Writable<Value[Key]> };

function firstText(session: Session): Writable<{ text: string }> {
  return session.messages[0]?.blocks[0] as { text: string };
}

function isFrozenThrough(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isFrozenThrough);
}

/** Everything passes through JSON, so that nothing in memory is an object of the caller. */
const plain: PayloadCodec = { name: "plain", encode: (text) => text, decode: (payload) => String(payload) };

describe("a session that was read from the store", () => {
  const place = memoryData();
  const again = async (): Promise<Session> => {
    const holdfast = await open(undefined, { store: openMemory({ data: place }) });
    return holdfast.session("s", { ifHeld: "throw" });
  };

  beforeEach(async () => {
    const session = await again();
    if (session.messages.length === 0) await fill(session);
    await session.close();
  });

  async function fill(session: Session): Promise<void> {
    await session.append({ role: "user", text: "pay 10", meta: { from: { name: "ann" } } });
    const pay = counting({ effects: [] }, "pay");
    const model = script([callBlock("c", "pay", { deep: { amount: 10 } })], "paid");
    await session.run({ model, tools: [pay] });
    await session.setPlan({
      steps: [{ id: "1", description: "pay", status: "pending", postconditions: [], evidence: [] }],
    });
    await session.describe({ metadata: { note: { of: "ann" } } });
  }

  test("returns frozen messages and results", async () => {
    const session = await again();
    expect(session.messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
    expect(session.messages.every(isFrozenThrough)).toBe(true);
    expect(() => {
      firstText(session).text = "pay 9999";
    }).toThrow(TypeError);
    await session.close();
  });

  test("returns frozen plan, metadata and queued prompts", async () => {
    const session = await again();
    const outside = await open(undefined, { store: openMemory({ data: place }) });
    await outside.sessions.prompt("s", { text: "and 20 more" }, { by: "ann" });
    await session.refresh();
    expect(session.prompts.length).toBeGreaterThan(0);
    for (const each of [session.plan, session.metadata, ...session.prompts])
      expect(isFrozenThrough(each)).toBe(true);
    await session.close();
  });

  test("passes frozen messages to the model, also those that arrive during the run", async () => {
    const session = await again();
    const seen: (readonly Message[])[] = [];
    const model: Model = async ({ messages }) => {
      seen.push(messages);
      return { message: { text: "once more" } };
    };
    await session.run({ model, prompt: `again ${session.messages.length}` });
    expect(seen.length).toBeGreaterThan(0);
    expect(seen.flat().every(isFrozenThrough)).toBe(true);
    await session.close();
  });

  test("freezes new messages, also after the transcript was replaced", async () => {
    const session = await again();
    await session.compact([session.messages[0]]);
    await session.append([
      { role: "user", text: "one" },
      { role: "user", text: "two" },
    ]);
    expect(session.messages.every(isFrozenThrough)).toBe(true);
    await session.close();
  });
});

test("with a codec, append and run return frozen messages, too", async () => {
  const holdfast = await open("memory:", { codecs: [plain] });
  const session = await holdfast.session("s");
  expect(isFrozenThrough(await session.append({ role: "user", text: "hello" }))).toBe(true);
  const told: Message[] = [];
  await session.run({
    model: script("hi"),
    on: (progress) => void (progress.type === "message" && told.push(progress.message)),
  });
  expect(told).toHaveLength(1);
  expect(told.every(isFrozenThrough)).toBe(true);
  expect(session.messages.every(isFrozenThrough)).toBe(true);
  await holdfast.close();
});
