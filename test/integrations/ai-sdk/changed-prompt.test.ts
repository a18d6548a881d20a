// A prompt id identifies one prompt forever: another text with that id never gets the old answer.

import { generateText } from "ai";
import { expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { type DurablePrompt, durable } from "../../../src/integrations/ai-sdk/index.ts";
import { says, scripted } from "./scripted-world.ts";

/** Hides card numbers from the store. */
const redaction = {
  name: "no-cards",
  encode: (text: string) => text.replaceAll(/card \d+/g, "card ***"),
  decode: String,
};

async function asking(codecs: (typeof redaction)[] = []) {
  const holdfast = await open("memory:", { codecs });
  const ask = async (prompt: DurablePrompt): Promise<string> => {
    const session = await holdfast.session("s");
    try {
      const d = durable(session);
      const model = d.model(scripted(says(`answer ${session.messages.length}`)));
      return (await generateText({ model, messages: await d.messages(prompt) })).text;
    } finally {
      await session.close();
    }
  };
  return { holdfast, ask };
}

test("the same id with another text or file is PROMPT_DIVERGED, and nothing is recorded", async () => {
  const { holdfast, ask } = await asking();
  const picture = (bytes: string) => ({
    id: "look",
    content: [
      { type: "text", text: "Look" } as const,
      { type: "image", image: Buffer.from(bytes), mediaType: "image/png" } as const,
    ],
  });
  expect(await ask({ id: "p1", text: "Pay order 1" })).toBe("answer 0");
  expect(await ask(picture("one"))).toBe("answer 2");
  const before = await holdfast.sessions.get("s");
  const diverged = { code: "PROMPT_DIVERGED", data: { session: "s", prompt: "p1" } };
  await expect(ask({ id: "p1", text: "Pay order 2" })).rejects.toMatchObject(diverged);
  await expect(ask({ id: "p1", text: "" })).rejects.toMatchObject(diverged);
  await expect(ask(picture("two"))).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
  expect((await holdfast.sessions.get("s")).messages).toEqual(before.messages);
  expect(await ask({ id: "p1", text: "Pay order 1" })).toBe("answer 0");
  expect(await ask(picture("one"))).toBe("answer 2");
  await holdfast.close();
});

test("the same words in another form, or with other settings, are the same prompt", async () => {
  const { holdfast, ask } = await asking();
  expect(await ask({ id: "p1", text: "Pay" })).toBe("answer 0");
  const providerOptions = { anthropic: { cacheControl: { type: "ephemeral" } } };
  expect(await ask({ id: "p1", content: [{ type: "text", text: "Pay", providerOptions }] })).toBe("answer 0");
  await holdfast.close();
});

test("with a codec, the id alone identifies a prompt", async () => {
  const { holdfast, ask } = await asking([redaction]);
  expect(await ask({ id: "p1", text: "Pay with card 4711" })).toBe("answer 0");
  expect(await ask({ id: "p1", text: "Pay with card 4711" })).toBe("answer 0");
  await holdfast.close();
});
