import { afterEach, beforeEach, expect, test } from "vitest";
import { type Holdfast, type Model, open } from "../../src/index.ts";

let holdfast: Holdfast;
beforeEach(async () => {
  holdfast = await open("memory:");
});
afterEach(() => holdfast.close());

const model: Model = async ({ messages }) => ({ message: { text: `done: ${messages.length}` } });
const pay = { id: "p", text: "Pay 4711" };

test("a known prompt id with other words is rejected, and the model is not asked", async () => {
  const session = await holdfast.session("s");
  const first = await session.run({ model, prompt: pay });
  const other = session.run({ model, prompt: { id: "p", text: "Refund 9999" } });
  await expect(other).rejects.toMatchObject({ code: "PROMPT_DIVERGED", message: /"p"/ });
  expect(session.messages).toHaveLength(2);
  expect(await session.run({ model, prompt: pay })).toMatchObject({ text: first.text, replayed: ["p"] });
});

test("so is one without an answer yet", async () => {
  const session = await holdfast.session("s");
  const failing: Model = async () => {
    throw new Error("no answer");
  };
  await expect(session.run({ model: failing, prompt: pay })).rejects.toThrow("no answer");
  const other = session.run({ model, prompt: { id: "p", text: "Refund 9999" } });
  await expect(other).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
  expect(await session.run({ model, prompt: pay })).toMatchObject({ status: "done" });
});

test("with a codec the id alone decides", async () => {
  const redacting = {
    name: "redacting",
    encode: (text: string) => text.replaceAll("4711", "####"),
    decode: (payload: unknown) => String(payload),
  };
  const redacted = await open("memory:", { codecs: [redacting] });
  const session = await redacted.session("s");
  const first = await session.run({ model, prompt: pay });
  expect(session.messages[0]?.blocks).toEqual([{ kind: "text", text: "Pay ####" }]);
  expect(await session.run({ model, prompt: pay })).toMatchObject({ text: first.text, replayed: ["p"] });
  await redacted.close();
});
