// A saved value is loaded exactly or rejected. LangGraph's own serializer changes many of these silently.

import { Document } from "@langchain/core/documents";
import { AIMessage, type BaseMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { Command, Send } from "@langchain/langgraph";
import { DeltaSnapshot, emptyCheckpoint, MemorySaver, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterEach, describe, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import {
  ExactSerializer,
  HoldfastSaver,
  type HoldfastSaverOptions,
} from "../../../src/integrations/langgraph/index.ts";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function freshSaver(options: HoldfastSaverOptions = {}): Promise<HoldfastSaver> {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  return new HoldfastSaver(holdfast, options);
}

/** Saves values as one checkpoint, and loads it with a saver that has not seen them. */
async function roundTrip(values: Record<string, unknown>): Promise<Record<string, unknown>> {
  const saver = await freshSaver();
  await put(saver, values);
  const tuple = await new HoldfastSaver(saver.holdfast).getTuple(config());
  return tuple?.checkpoint.channel_values ?? {};
}

const config = (thread = "t") => ({ configurable: { thread_id: thread, checkpoint_ns: "" } });

let step = 0;
function put(saver: HoldfastSaver, values: Record<string, unknown>, after: object = config()) {
  step += 1;
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, step]));
  const checkpoint = {
    ...emptyCheckpoint(),
    id: uuid6(0),
    channel_values: values,
    channel_versions: versions,
  };
  return saver.put(after, checkpoint, { source: "loop", step, parents: {} }, versions);
}

const SURVIVORS: Readonly<Record<string, unknown>> = {
  bigint: 12345678901234567890n,
  date: new Date("2026-01-31T12:00:00.123Z"),
  "invalid date": new Date(Number.NaN),
  NaN: Number.NaN,
  infinities: [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  "minus zero": -0,
  undefined: { there: undefined },
  Buffer: Buffer.from([0, 255, 10]),
  Uint8Array: new Uint8Array([0, 128, 255]),
  Float32Array: new Float32Array([1.5, Number.NaN, -2]),
  BigInt64Array: new BigInt64Array([-1n, 2n]),
  DataView: new DataView(new Uint8Array([1, 2, 3]).buffer),
  ArrayBuffer: new Uint8Array([9, 8]).buffer,
  map: new Map<unknown, unknown>([
    ["a", 1n],
    [{ key: true }, new Date(0)],
  ]),
  set: new Set(["a", new Map()]),
  regexp: /a+/giu,
  url: new URL("https://example.com/a?b"),
  document: new Document({ pageContent: "text", metadata: { page: 1 } }),
  "a member called __proto__": JSON.parse('{"__proto__": {"polluted": true}}'),
  "half a surrogate pair": "\ud800",
  deep: { list: [{ at: new Date(1), big: [1n] }] },
};

describe("survives in a channel, in a write and in metadata", () => {
  test.each(Object.entries(SURVIVORS))("%s", async (_name, value) => {
    expect(await roundTrip({ channel: value, list: [value], member: { value } })).toEqual({
      channel: value,
      list: [value],
      member: { value },
    });
    const saver = await freshSaver();
    const checkpoint = { ...emptyCheckpoint(), id: uuid6(0) };
    const metadata = { source: "loop" as const, step: 0, parents: {}, value };
    const saved = await saver.put(config(), checkpoint, metadata, {});
    await saver.putWrites(saved, [["channel", value]], "task");
    const tuple = await saver.getTuple(saved);
    expect(tuple?.pendingWrites).toEqual([["task", "channel", value]]);
    expect(tuple?.metadata).toEqual(metadata);
  });

  test("an error with its name, and a snapshot of a delta channel", async () => {
    const { error, snapshot } = (await roundTrip({
      error: new RangeError("too far", { cause: { code: 7 } }),
      snapshot: new DeltaSnapshot([1n]),
    })) as { error: Error; snapshot: DeltaSnapshot };
    expect(error).toBeInstanceOf(Error);
    expect([error.name, error.message, error.cause]).toEqual(["RangeError", "too far", { code: 7 }]);
    expect(snapshot).toEqual(new DeltaSnapshot([1n]));
  });

  test("messages, with members set after construction", async () => {
    const usage_metadata = { input_tokens: 1, output_tokens: 2, total_tokens: 3 };
    const ai = new AIMessage({
      id: "m1",
      content: [{ type: "text", text: "hi" }],
      tool_calls: [{ id: "c", name: "f", args: { at: new Date(5) as never } }],
      additional_kwargs: { raw: Buffer.from("x") },
    });
    Object.assign(ai, { usage_metadata });
    const answer = new ToolMessage({ content: "r", tool_call_id: "c", status: "error", artifact: { n: 1n } });
    const { messages } = (await roundTrip({ messages: [new HumanMessage("x"), ai, answer] })) as {
      messages: [HumanMessage, AIMessage, ToolMessage];
    };
    expect(messages[0]).toBeInstanceOf(HumanMessage);
    expect(messages[1]).toBeInstanceOf(AIMessage);
    expect(messages[1].tool_calls?.[0]?.args).toEqual({ at: new Date(5) });
    expect(messages[1].usage_metadata).toEqual(usage_metadata);
    expect(messages[1].additional_kwargs).toEqual({ raw: Buffer.from("x") });
    expect(messages[2]).toMatchObject({ tool_call_id: "c", status: "error", artifact: { n: 1n } });
  });

  test("other objects that LangChain can load, and LangGraph's own", async () => {
    const prompt = ChatPromptTemplate.fromMessages([["human", "{question}"]]);
    const { loaded, send, command } = await roundTrip({
      loaded: [prompt],
      send: new Send("node", { x: 1n }),
      command: new Command({ goto: "node" }),
    });
    expect((loaded as unknown[])[0]).toBeInstanceOf(ChatPromptTemplate);
    expect(send).toEqual({ node: "node", args: { x: 1n } });
    expect(command).toMatchObject({ lg_name: "Command", goto: ["node"] });
  });
});

describe("data never becomes code", () => {
  const POSING = {
    langchain: { lc: 1, type: "constructor", id: ["langchain_core", "messages", "AIMessage"], kwargs: {} },
    ours: { lc: 2, type: "bigint", value: "1" },
    wrapped: { lc: 2, type: "plain", value: { lc: 2, type: "undefined" } },
  };

  test.each(Object.entries(POSING))(
    "data that looks like a record of %s stays data",
    async (_name, posing) => {
      expect(await roundTrip({ posing, list: [posing] })).toEqual({ posing, list: [posing] });
    },
  );

  test("loading does not pollute the prototype of anything", async () => {
    await roundTrip({ evil: JSON.parse('{"__proto__": {"polluted": 1}, "constructor": {"prototype": 1}}') });
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });
});

describe("is rejected with its path, and nothing is saved", () => {
  class Account {
    balance = 1;
  }
  class OwnMessage extends AIMessage {}
  const circle: Record<string, unknown> = {};
  circle["self"] = circle;

  test.each([
    ["a function", { a: [() => 1] }, "$.a[0] is a function"],
    ["a symbol", { a: Symbol("s") }, "$.a is a symbol"],
    ["an object of an unknown class", { a: new Account() }, "$.a is a Account"],
    ["a message of an unknown class", { a: new OwnMessage("x") }, "$.a is a OwnMessage"],
    ["a promise", { a: Promise.resolve() }, "$.a is a Promise"],
    ["a circle", circle, "or in itself"],
  ])("%s", async (_name, value, problem) => {
    const saver = await freshSaver();
    await expect(put(saver, { whole: new Set([value]) })).rejects.toMatchObject({
      code: "VALUE_NOT_JSON",
      message: expect.stringContaining(problem.replace("$", "$[0]")),
    });
    expect(await saver.getTuple(config())).toBeUndefined();
  });
});

test("a member named by a symbol is rejected, not left out", async () => {
  const saver = await freshSaver();
  await expect(put(saver, { state: { a: 1, [Symbol("s")]: 2 } })).rejects.toMatchObject({
    code: "VALUE_NOT_JSON",
  });
});

describe("values are saved in their state at the call of put", () => {
  test("a list that the graph extends afterwards", async () => {
    const saver = await freshSaver();
    const list = [{ n: 1 }];
    const saving = put(saver, { list });
    list.push({ n: 2 });
    (list[0] as { n: number }).n = 9;
    await saving;
    expect((await saver.getTuple(config()))?.checkpoint.channel_values).toEqual({ list: [{ n: 1 }] });
  });

  test("a caller's changes to a loaded value do not affect the store", async () => {
    const saver = await freshSaver();
    await put(saver, { list: [{ n: 1 }], messages: [new HumanMessage("one")] });
    const first = (await saver.getTuple(config()))?.checkpoint.channel_values as never as {
      list: { n: number }[];
      messages: BaseMessage[];
    };
    first.list.push({ n: 2 });
    (first.messages[0] as BaseMessage).content = "changed";
    const second = (await saver.getTuple(config()))?.checkpoint.channel_values as never as typeof first;
    expect(second.list).toEqual([{ n: 1 }]);
    expect(second.messages[0]?.content).toBe("one");
  });

  const changes: [string, number, (messages: AIMessage[]) => void][] = [
    ["a field of the oldest message", 200, ([first]) => Object.assign(first as object, { content: "e" })],
    [
      "deep inside the latest",
      200,
      (all) => Object.assign(all.at(-1)?.additional_kwargs as object, { x: 1 }),
    ],
    [
      "deep inside the oldest of a short list",
      48,
      ([first]) => Object.assign(first?.additional_kwargs as object, { x: 1 }),
    ],
    [
      "deep inside the oldest of a long list",
      1_000,
      ([first]) => Object.assign(first?.additional_kwargs as object, { x: 1 }),
    ],
  ];
  test.each(changes)("a message that was changed in place: %s", async (_name, count, change) => {
    const saver = await freshSaver();
    const messages = someMessages(count);
    const before = await put(saver, { messages });
    change(messages);
    await put(saver, { messages: [...messages] }, before);
    expect(await savedIn(saver)).toEqual(messages.map(said));
  });

  test("every deep change in place in a long list is in the next checkpoint", async () => {
    const saver = await freshSaver();
    const messages = someMessages(200);
    let last = await put(saver, { messages });
    for (const index of [100, 3, 150, 77]) {
      Object.assign(messages[index]?.additional_kwargs as object, { x: index });
      last = await put(saver, { messages: [...messages] }, last);
      expect(await savedIn(saver)).toEqual(messages.map(said));
    }
  });

  test("other data changed in place is in the next checkpoint, however long the list", async () => {
    const saver = await freshSaver();
    const list = Array.from({ length: 300 }, (_, n) => ({
      n,
      deep: { at: new Date(n), list: [n, -0, "x"] },
    }));
    let last = await put(saver, { list });
    for (const index of [0, 100, 299]) {
      (list[index] as { deep: { list: unknown[] } }).deep.list[1] = 0;
      last = await put(saver, { list: [...list] }, last);
      const loaded = await new HoldfastSaver(saver.holdfast).getTuple(config());
      expect(loaded?.checkpoint.channel_values["list"]).toEqual(list);
    }
  });
});

function someMessages(count: number): AIMessage[] {
  return Array.from({ length: count }, (_, n) => new AIMessage({ id: `m${n}`, content: `${n}` }));
}

const said = ({ content, additional_kwargs }: AIMessage) => [content, additional_kwargs];

/** The messages, loaded by a new saver. */
async function savedIn({ holdfast }: HoldfastSaver): Promise<unknown[]> {
  const loaded = await new HoldfastSaver(holdfast).getTuple(config());
  const messages = (loaded?.checkpoint.channel_values["messages"] ?? []) as AIMessage[];
  return messages.map(said);
}

describe("serializers", () => {
  test("a custom serde's bytes are returned unchanged", async () => {
    const holdfast = await open("memory:");
    opened.push(holdfast);
    const saver = new HoldfastSaver(holdfast, { serde: new MemorySaver().serde });
    const values = { messages: [new HumanMessage({ id: "a", content: "x" })], bytes: new Uint8Array([255]) };
    await put(saver, { ...values, state: { a: [1] } });
    const tuple = await new HoldfastSaver(holdfast, { serde: new MemorySaver().serde }).getTuple(config());
    expect(tuple?.checkpoint.channel_values).toMatchObject({ bytes: values.bytes, state: { a: [1] } });
    const messages = tuple?.checkpoint.channel_values["messages"] as BaseMessage[] | undefined;
    expect(messages?.[0]?.content).toBe("x");
  });

  test("ours rejects bytes of another serializer", async () => {
    const serde = new ExactSerializer();
    expect(await serde.loadsTyped(...(await serde.dumpsTyped({ a: 1n })))).toEqual({ a: 1n });
    await expect(serde.loadsTyped("json", "{}")).rejects.toMatchObject({ code: "CODEC_UNKNOWN" });
  });
});
