// The parts of a prompt that are stored, and when.

import { generateText, type ModelMessage } from "ai";
import { expect, test } from "vitest";
import { freshHoldfast, program, says, scripted } from "./scripted-world.ts";

test("a prompt whose id is too long for a run's name is rejected, and nothing is written", async () => {
  const holdfast = await freshHoldfast();
  const long = "x".repeat(201);
  await program(holdfast, async (d, session) => {
    for (const id of [long, ""])
      await expect(d.messages({ id, text: "Pay" })).rejects.toMatchObject({ code: "NAME_INVALID" });
    expect(session.messages).toEqual([]);
    await holdfast.sessions.prompt(session.id, { id: long, text: "Pay" }, { by: "ann" });
    await expect(d.messages()).rejects.toMatchObject({ code: "NAME_INVALID" });
    expect(session.messages).toEqual([]);
    expect(await d.messages({ id: "x".repeat(200), text: "Pay" })).toHaveLength(2);
  });
});

test("messages that a program adds after d.messages are stored once, also after a crash", async () => {
  const holdfast = await freshHoldfast();
  const run = (text: string, extra: ModelMessage[], ...answers: Parameters<typeof scripted>) =>
    program(holdfast, async (d, session) => {
      const messages = [...(await d.messages({ id: text, text })), ...extra];
      await generateText({ model: d.model(scripted(...answers)), messages, maxRetries: 0 });
      return session.messages.map(
        ({ role, blocks }) => `${role}: ${blocks.map((b) => "text" in b && b.text)}`,
      );
    });
  const card: ModelMessage[] = [{ role: "user", content: [{ type: "text", text: "my card is 4711" }] }];
  await expect(run("Pay", card, new Error("down"))).rejects.toThrow("down");
  const paid = ["user: Pay", "user: my card is 4711", "assistant: paid"];
  expect(await run("Pay", card, says("paid"))).toEqual(paid);
  expect(await run("Pay", card)).toEqual(paid);
  expect(await run("And now?", [], says("hello"))).toEqual([...paid, "user: And now?", "assistant: hello"]);
  expect(await run("Pay", card)).toHaveLength(5);
});

test("messages that a program has rewritten do not count as new", async () => {
  const holdfast = await freshHoldfast();
  await program(holdfast, async (d, session) => {
    await d.messages("Pay");
    const messages: ModelMessage[] = [{ role: "user", content: "Please pay" }];
    await generateText({ model: d.model(scripted(says("paid"))), messages });
    expect(session.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  });
});
