// Prompts beyond their text: images, queued prompts, and compaction.

import { Agent, type AgentInputItem, run, setTracingDisabled } from "@openai/agents";
import { generateText } from "ai";
import { afterEach, expect, test } from "vitest";
import { type Holdfast, open, type Session } from "../../../src/index.ts";
import { type DurablePrompt, durable } from "../../../src/integrations/ai-sdk/index.ts";
import {
  type DurableInput,
  durable as durableAgents,
} from "../../../src/integrations/openai-agents/index.ts";
import { says, scripted } from "../ai-sdk/scripted-world.ts";
import { ScriptedModel } from "../openai-agents/scripted-model.ts";

setTracingDisabled(true);

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const holdfast of opened.splice(0)) await holdfast.close();
});

async function conversation(): Promise<{ holdfast: Holdfast; session: Session }> {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  return { holdfast, session: await holdfast.session("s") };
}

/** The text of each user message or item. */
function heard(prompt: readonly object[]): string[] {
  return prompt.flatMap((each) => {
    const { role, content } = each as { role?: string; content?: string | { text?: string }[] };
    if (role !== "user") return [];
    return [typeof content === "string" ? content : (content ?? []).map(({ text }) => text).join("")];
  });
}

async function askSdk(session: Session, prompt?: DurablePrompt, fails = false) {
  const model = scripted(fails ? new Error("killed here") : says(`answer ${session.messages.length}`));
  const d = durable(session);
  const messages = await d.messages(prompt);
  const { text } = await generateText({ model: d.model(model), messages, maxRetries: 0 });
  return { text, heard: heard(messages), asked: model.doGenerateCalls.length };
}

async function askAgent(session: Session, input: DurableInput, fails = false) {
  const model: ScriptedModel = new ScriptedModel(({ input: items }) => {
    if (fails) throw new Error("killed here");
    return [{ text: `saw ${JSON.stringify(items).match(/base64,\w+/g)} ${session.messages.length}` }];
  });
  const d = durableAgents(session);
  const agent = new Agent({ name: "Shop", model: d.model(model) });
  const { finalOutput } = await run(agent, await d.input(input), { session: d.session });
  return { text: finalOutput, heard: heard(await d.session.getItems()), asked: model.asked.length };
}

const invoice = (bytes: string, more: object = {}): AgentInputItem[] => [
  {
    type: "message",
    role: "user",
    content: [
      { type: "input_text", text: "Which number is on it?" },
      { type: "input_image", image: `data:image/png;base64,${bytes}` },
    ],
    ...more,
  },
];

test("OpenAI Agents: another image is another input, with or without an id", async () => {
  const { holdfast, session } = await conversation();
  const first = await askAgent(session, { id: "inv", items: invoice("AAAA") });
  expect(first.text).toContain("AAAA");
  const other = askAgent(session, { id: "inv", items: invoice("BBBB") });
  await expect(other).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
  const same = await askAgent(session, {
    id: "inv",
    items: invoice("AAAA", { providerData: { cache: true } }),
  });
  expect(same).toMatchObject({ text: first.text, asked: 0 });

  const plain = await holdfast.session("plain");
  await expect(askAgent(plain, { items: invoice("AAAA") }, true)).rejects.toThrow("killed here");
  const next = await askAgent(plain, { items: invoice("BBBB") });
  expect(next.text).toContain("BBBB");
});

test("AI SDK: queued prompts are delivered with the next prompt, once, also when it is resumed", async () => {
  const { holdfast, session } = await conversation();
  await askSdk(session, "hello");
  await holdfast.sessions.prompt("s", { id: "q", text: "wrong customer!" }, { by: "ann" });
  await expect(askSdk(session, { id: "ship", text: "ship it" }, true)).rejects.toThrow("killed here");
  await holdfast.sessions.prompt("s", { text: "too late for this one" }, { by: "ann" });
  const shipped = await askSdk(session, { id: "ship", text: "ship it" });
  expect(shipped.heard).toEqual(["hello", "wrong customer!", "ship it"]);
  expect(await askSdk(session, { id: "ship", text: "ship it" })).toMatchObject({
    text: shipped.text,
    asked: 0,
  });
  expect(session.messages.find(({ id }) => id === "q")?.meta).toMatchObject({ by: "ann" });
  const next = await askSdk(session);
  expect(next).toMatchObject({ asked: 1 });
  expect(next.heard).toEqual(["hello", "wrong customer!", "ship it", "too late for this one"]);
  expect(session.prompts).toEqual([]);
});

test("AI SDK: a prompt with the id of a queued one is that prompt", async () => {
  const { holdfast, session } = await conversation();
  for (const text of ["one", "two"]) await holdfast.sessions.prompt("s", { id: text, text }, { by: "ann" });
  await expect(askSdk(session, { id: "two", text: "three" })).rejects.toMatchObject({
    code: "PROMPT_DIVERGED",
  });
  expect((await askSdk(session, { id: "two", text: "two" })).heard).toEqual(["one", "two"]);
  expect(session.prompts).toEqual([]);
});

test("OpenAI Agents: queued prompts are delivered once with the next input, also if resumed", async () => {
  const { holdfast, session } = await conversation();
  await askAgent(session, "hello");
  await holdfast.sessions.prompt("s", { text: "wrong customer!" }, { by: "ann" });
  await expect(askAgent(session, "ship it", true)).rejects.toThrow("killed here");
  await holdfast.sessions.prompt("s", { text: "too late for this one" }, { by: "ann" });
  expect((await askAgent(session, "ship it")).heard).toEqual(["hello", "wrong customer!", "ship it"]);
  const again = await askAgent(session, "ship it");
  expect(again.asked, "a new run, because the first has its answer").toBe(1);
  const all = ["hello", "wrong customer!", "ship it", "too late for this one", "ship it"];
  expect(again.heard).toEqual(all);
  expect(session.prompts).toEqual([]);
});

test("a prompt id that was compacted away gets an error with the next step", async () => {
  const { holdfast, session } = await conversation();
  const agents = await holdfast.session("agents");
  await askSdk(session, { id: "pay", text: "Pay" });
  await askAgent(agents, { id: "pay", text: "Pay" });
  const summary = { id: "sum", role: "user", createdAt: new Date(0).toISOString() };
  for (const each of [session, agents])
    await each.compact([{ ...summary, blocks: [{ kind: "text", text: "Summary" }] }]);
  for (const again of [
    askSdk(session, { id: "pay", text: "Pay" }),
    askAgent(agents, { id: "pay", text: "Pay" }),
  ]) {
    const refused = await again.catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "PROMPT_DIVERGED",
      message: expect.stringContaining("compacted away"),
    });
    expect((refused as { hint: string }).hint).toMatch(/earlier version/);
  }
  const earlier = await session.at(session.versions.at(-1)?.version ?? 0);
  expect(earlier.messages.map(({ role }) => role)).toEqual(["user", "assistant"]);
  expect((await askSdk(session, { id: "other", text: "Go on" })).heard).toEqual(["Summary", "Go on"]);
});
