// Mistakes of a program's first hours: each is refused with a hint, before anything is written.

import { afterEach, describe, expect, test } from "vitest";
import * as z from "zod";
import { type Holdfast, open, type Session, type Tool, tool } from "../../src/index.ts";

let holdfast: Holdfast;
afterEach(() => holdfast.close());

async function begin(): Promise<{ session: Session; events: () => Promise<number> }> {
  holdfast = await open("memory:");
  const session = await holdfast.session("order-17");
  const before = (await holdfast.journal.row("session/order-17")).head.seq;
  const events = async () => (await holdfast.journal.row("session/order-17")).head.seq - before;
  return { session, events };
}

const model = async () => ({ message: { text: "Done." } });
const input = z.object({});
const execute = () => "done";
const plain = { name: "pay", description: "Pays", input, effect: "mutate", execute } as const;

describe("a tool that skipped tool()", () => {
  const withoutEffect = { ...plain, effect: undefined } as unknown as Tool;

  test("is checked like one that did not", async () => {
    const { session, events } = await begin();
    const uses = [
      () => session.run({ model, tools: [withoutEffect], prompt: "Pay." }),
      () => session.call({ callId: "c1", tool: withoutEffect as typeof plain, args: {} }),
      () => session.settle([withoutEffect]),
      () => session.run({ model, tools: [null as never], prompt: "Pay." }),
      () => session.run({ model, tools: [{ ...plain, dedup: "global" } as never], prompt: "Pay." }),
    ];
    for (const use of uses) await expect(use()).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(await events()).toBe(0);
  });

  test("works if it is complete", async () => {
    const { session } = await begin();
    expect(await session.call({ callId: "c1", tool: plain, args: {} })).toMatchObject({ value: "done" });
  });
});

test.each(["my tool", "send.receipt", "ärger", "", "x".repeat(65)])(
  "a tool name that vendors refuse is refused by tool() and run: %j",
  async (name) => {
    const { session, events } = await begin();
    expect(() => tool({ ...plain, name })).toThrow(expect.objectContaining({ code: "INPUT_INVALID" }));
    const tools = [{ ...plain, name }];
    await expect(session.run({ model, tools, prompt: "Pay." })).rejects.toMatchObject({
      code: "INPUT_INVALID",
    });
    expect(await events()).toBe(0);
    expect(tool({ ...plain, name: "x".repeat(64) }).name).toHaveLength(64);
  },
);

test.each(["", " \n\t", undefined])("an empty prompt is refused: %j", async (text) => {
  const { session, events } = await begin();
  const hint = { code: "INPUT_INVALID" };
  await expect(session.run({ model, prompt: { id: "p", text: text as string } })).rejects.toMatchObject(hint);
  const queued = holdfast.sessions.prompt("order-17", { text: text as string }, { by: "inbox" });
  await expect(queued).rejects.toMatchObject(hint);
  expect(await events()).toBe(0);
});

describe("a text of 540 MB as JSON", () => {
  // Each character takes six as JSON.
  const long = "\u0001".repeat(90_000_000);

  test("is refused as a prompt and in arguments, and nothing is written", async () => {
    const { session, events } = await begin();
    const acts = [
      () => session.run({ model, prompt: long }),
      () =>
        session.call({
          callId: "c1",
          tool: tool({ ...plain, input: z.any(), inputJsonSchema: {} }),
          args: long,
        }),
    ];
    for (const act of acts)
      await expect(act()).rejects.toMatchObject({ code: "INPUT_INVALID", message: /too long/ });
    expect(await events()).toBe(0);
  });

  test("is cut if it is a result, because the effect has happened", async () => {
    const { session } = await begin();
    const outcome = await session.call({
      callId: "c1",
      tool: tool({ ...plain, execute: () => long }),
      args: {},
    });
    expect(outcome).toMatchObject({ status: "completed", note: expect.stringContaining("500 MB") });
    expect(outcome.status === "completed" && outcome.value).toHaveLength(1_000_000);
    expect((await session.run({ model, prompt: "Go on." })).status).toBe("done");
  });
});
