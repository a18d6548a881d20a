import Anthropic from "@anthropic-ai/sdk";
import { expect, onTestFinished, test } from "vitest";
import { type ModelScript, startAnthropicServer } from "./anthropic-server.ts";

const TOOLS = [{ name: "pay", input_schema: { type: "object" as const } }];

async function startClient(script: ModelScript) {
  const server = await startAnthropicServer(script);
  onTestFinished(() => server.close());
  const client = new Anthropic({ baseURL: server.url, apiKey: "none", maxRetries: 0 });
  return { server, client };
}

const REQUEST = { model: "claude-sonnet-5-5", max_tokens: 100, tools: TOOLS };

test("Anthropic's client reads the same answer plain and streamed", async () => {
  const { client } = await startClient([
    { text: "I will pay.", calls: [{ id: "toolu_1", name: "pay", input: { order: "4711" } }] },
  ]);
  const messages = [{ role: "user" as const, content: "Pay" }];
  const plain = await client.messages.create({ ...REQUEST, messages });
  const streamed = await client.messages.stream({ ...REQUEST, messages }).finalMessage();
  expect(plain.stop_reason).toBe("tool_use");
  expect(streamed.content).toEqual(plain.content);
  expect(streamed.usage.output_tokens).toBe(plain.usage.output_tokens);
});

test("a script decides by the conversation since the last prompt of a person", async () => {
  const { server, client } = await startClient(({ prompt, results, turn }) => ({
    text: `${prompt} ${turn} ${results.map(({ text, isError }) => `${text} ${isError}`).join()}`,
  }));
  const answer = await client.messages.create({
    ...REQUEST,
    messages: [
      { role: "user", content: "Before" },
      { role: "assistant", content: "Yes." },
      { role: "user", content: "<system-reminder>Be brief.</system-reminder>\nPay" },
      { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "pay", input: {} }] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "toolu_1", content: "no card", is_error: true },
          { type: "text", text: "<system-reminder>One left.</system-reminder>" },
        ],
      },
    ],
  });
  expect(answer.content).toEqual([{ type: "text", text: "Pay 1 no card true" }]);
  expect((await server.asked(1)).tools).toEqual(["pay"]);
  expect(server.requests[0]?.text).toContain("One left.");
});

test("requests without tools are answered beside the script", async () => {
  const { server, client } = await startClient(() => ({ status: 529 }));
  const { tools: _, ...title } = REQUEST;
  await client.messages.create({ ...title, messages: [{ role: "user", content: "A title" }] });
  expect(server.requests).toEqual([]);
  expect(server.asides).toHaveLength(1);
  const asked = client.messages.create({ ...REQUEST, messages: [{ role: "user", content: "Pay" }] });
  await expect(asked).rejects.toMatchObject({ status: 529 });
});
