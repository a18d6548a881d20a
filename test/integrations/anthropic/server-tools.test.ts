// Leftovers of an earlier answer must not make the API reject every later request.

import { describe, expect, test } from "vitest";
import { z } from "zod";
import { tool } from "../../../src/index.ts";
import { fromAnthropic } from "../../../src/integrations/anthropic/index.ts";
import { chargeTool, loopback, said } from "./loopback.ts";

async function begin(...given: Parameters<typeof loopback>) {
  const api = await loopback(...given);
  return { ...api, session: await api.holdfast.session("s") };
}

const TEXT = { type: "text", text: "Let me look." };
const SEARCH = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "o1" } };
const FOUND = { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] };
const CODE = {
  type: "server_tool_use",
  id: "srvtoolu_2",
  name: "code_execution",
  input: { code: "charge()" },
};
const RAN = { type: "code_execution_tool_result", tool_use_id: "srvtoolu_2", content: { type: "x" } };
const CALL = { type: "tool_use", id: "toolu_1", name: "charge", input: {} };
const CALLED = { ...CALL, caller: { type: "code_execution_20260120", tool_id: "srvtoolu_2" } };
const RESULT = { type: "tool_result", tool_use_id: "toolu_1", content: "charged" };
const params = { tools: [{ type: "code_execution_20250825", name: "code_execution" } as const] };

describe("a server tool's call without a result", () => {
  test.each(["max_tokens", "refusal"])(
    "is left out after %s, so that the API accepts the next prompt",
    async (stop) => {
      const { session, client, requests } = await begin([said([TEXT, SEARCH], stop)]);
      const model = fromAnthropic(client, "claude-sonnet-5-5");
      await session.run({ model, prompt: "Search" });
      await session.run({ model, prompt: "And?" });
      expect(requests[1]?.body.messages[1]).toEqual({ role: "assistant", content: [TEXT] });
      expect(session.messages[1]?.blocks).toHaveLength(2);
    },
  );

  test("is sent back with its result, and while it waits for our results", async () => {
    const { session, client, requests } = await begin([
      said([SEARCH, CALL], "tool_use"),
      said([FOUND, TEXT], "end_turn"),
    ]);
    const { charge } = chargeTool();
    const model = fromAnthropic(client, "claude-sonnet-5-5");
    await session.run({ model, tools: [charge], prompt: "Search and pay" });
    await session.run({ model, tools: [charge], prompt: "And?" });
    const turn = [
      { role: "assistant", content: [SEARCH, CALL] },
      { role: "user", content: [RESULT] },
    ];
    expect(requests[1]?.body.messages.slice(1)).toEqual(turn);
    expect(requests[2]?.body.messages.slice(1, 4)).toEqual([
      ...turn,
      { role: "assistant", content: [FOUND, TEXT] },
    ]);
  });

  test("is left out once the answer that it waited for was cut off", async () => {
    const { session, client, requests } = await begin([
      said([CODE, CALLED], "tool_use", {
        container: { id: "container_1", expires_at: "2999-01-01T00:00:00Z" },
      }),
      said([TEXT], "max_tokens"),
    ]);
    const { charge } = chargeTool();
    const model = fromAnthropic(client, "claude-sonnet-5-5", { params });
    await session.run({ model, tools: [charge], prompt: "Pay" });
    await session.run({ model, tools: [charge], prompt: "And?" });
    expect(requests[1]?.body.messages[1].content).toEqual([CODE, CALLED]);
    // The call's caller is missing then, so no result can follow.
    expect(requests[2]?.body.messages[1].content).toEqual([CALL]);
  });
});

test("an answer that is paused too often ends the run, and the next run asks again", async () => {
  const { session, client, requests } = await begin(Array(9).fill(said([TEXT, SEARCH], "pause_turn")));
  const model = fromAnthropic(client, "claude-sonnet-5-5");
  await expect(session.run({ model, prompt: "Search" })).rejects.toThrow(
    /paused its turn 9 times in a row.*run again/,
  );
  expect(requests).toHaveLength(9);
  expect(session.messages).toHaveLength(1);
  await expect(session.run({ model, prompt: "Search" })).resolves.toMatchObject({ text: "Done." });
  expect(requests[9]?.body.messages.every(({ role }: { role: string }) => role === "user")).toBe(true);
});

describe("the container of code execution", () => {
  const container = { id: "container_1", expires_at: "2999-01-01T00:00:00Z", skills: null };

  test("is sent to a paused turn, with our results and with the next prompt until it expires", async () => {
    const { session, client, requests } = await begin([
      said([CODE], "pause_turn", { container }),
      said([CALLED], "tool_use", { container }),
      said([RAN, TEXT], "end_turn", { container }),
    ]);
    const { charge } = chargeTool();
    const model = fromAnthropic(client, "claude-sonnet-5-5", { params });
    await session.run({ model, tools: [charge], prompt: "Pay" });
    await session.run({ model, tools: [charge], prompt: "And?" });
    expect(requests.map(({ body }) => body.container)).toEqual([undefined, ...Array(3).fill("container_1")]);
  });

  test("is added to skills, unless the program names another one", async () => {
    const { session, client, requests } = await begin([
      said([TEXT], "end_turn", { container }),
      said([TEXT], "end_turn", { container }),
    ]);
    const skills = [{ type: "anthropic" as const, skill_id: "pptx" }];
    const ask = (named: string | { skills: typeof skills }, prompt: string) =>
      session.run({
        model: fromAnthropic(client, "claude-sonnet-5-5", { params: { ...params, container: named } }),
        prompt,
      });
    await ask({ skills }, "Draw");
    await ask({ skills }, "And?");
    await ask("container_9", "And there?");
    expect(requests.map(({ body }) => body.container)).toEqual([
      { skills },
      { skills, id: "container_1" },
      "container_9",
    ]);
  });

  test("is not sent after it expired, nor is the code that waited in it", async () => {
    const gone = { ...container, expires_at: "2001-01-01T00:00:00Z" };
    const { session, client, requests } = await begin([
      said([CODE, CALLED], "tool_use", { container: gone }),
    ]);
    const { charge, charged } = chargeTool();
    await session.run({
      model: fromAnthropic(client, "claude-sonnet-5-5", { params }),
      tools: [charge],
      prompt: "Pay",
    });
    expect(charged).toHaveLength(1);
    expect(requests[1]?.body).not.toHaveProperty("container");
    expect(requests[1]?.body.messages.slice(1)).toEqual([
      { role: "assistant", content: [CALL] },
      { role: "user", content: [RESULT] },
    ]);
  });
});

test("a large result of a read is named in a text, and needs no artifact store", async () => {
  const { session, client, requests } = await begin([said([{ ...CALL, name: "rows" }], "tool_use")]);
  const rows = tool({
    name: "rows",
    description: "Reads rows",
    effect: "read",
    input: z.any(),
    execute: () => ({ rows: "x".repeat(300_000) }),
  });
  await session.run({ model: fromAnthropic(client, "claude-sonnet-5-5"), tools: [rows], prompt: "Read" });
  const [result] = requests[1]?.body.messages[2].content ?? [];
  expect(result.content.map(({ type }: { type: string }) => type)).toEqual(["text", "text"]);
  expect(result.content[0].text).toMatch(/^\[300011 bytes, stored as artifact [0-9a-f]{64}\]$/);
  expect(result.content[1].text).toMatch(/^\[file of type application\/json, not shown, .*[0-9a-f]{64}\]$/);
});

test("only supported images, PDFs and text are sent as such; other files are named", async () => {
  const { session, holdfast, client, requests } = await begin([]);
  const artifact = await holdfast.putArtifact(new TextEncoder().encode("bytes"));
  const file = (mediaType: string, name?: string) =>
    ({ kind: "file", artifact, mediaType, ...(name !== undefined && { name }) }) as const;
  const cached = { anthropic: { cache_control: { type: "ephemeral" }, citations: { enabled: true } } };
  await session.append({
    role: "user",
    blocks: [
      file("image/PNG"),
      file("text/csv; charset=utf-8"),
      file("image/svg+xml"),
      { ...file("application/zip", "all.zip"), meta: cached },
    ],
  });
  await session.run({ model: fromAnthropic(client, "claude-sonnet-5-5", { artifacts: holdfast }) });
  const data = Buffer.from("bytes").toString("base64");
  const named = (what: string) => `[file ${what}, not shown, stored as artifact ${artifact}]`;
  expect(requests[0]?.body.messages[0].content).toEqual([
    { type: "image", source: { type: "base64", media_type: "image/png", data } },
    { type: "document", source: { type: "text", media_type: "text/plain", data: "bytes" } },
    { type: "text", text: named("of type image/svg+xml") },
    {
      type: "text",
      text: named('"all.zip" of type application/zip'),
      cache_control: { type: "ephemeral" },
    },
  ]);
});

test.each([{ args: '{"order":' }, { args: 7 }, { args: null }, { args: ["o1"] }])(
  "a recorded call with $args for arguments is sent as {}",
  async ({ args }) => {
    const { session, client, requests } = await begin([]);
    const result = { kind: "tool_result", callId: "toolu_1", content: "no object", isError: true } as const;
    await session.append({ role: "user", text: "Pay" });
    await session.append({
      role: "assistant",
      blocks: [{ kind: "tool_call", id: "toolu_1", name: "charge", args }],
    });
    await session.append({ role: "tool", blocks: [result] });
    await session.run({ model: fromAnthropic(client, "claude-sonnet-5-5") });
    expect(requests[0]?.body.messages[1].content).toEqual([CALL]);
  },
);
