import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BLOCK_KINDS, checkMessage, type Message } from "../../../src/model/session/index.ts";
import { open } from "../../../src/open.ts";
import { PLACES, type Place } from "../../journal/places.ts";
import { anyContent } from "./transcripts.ts";

const ODD = [
  "nul \0 here",
  "\ud83d alone \ude00",
  "emoji 👩‍👩‍👧 é e\u0301",
  "\u2028\u2029\u0007\ufeff",
  '"\\/\b',
  "",
];

const base = { id: "m", role: "assistant", createdAt: "2026-07-28T10:00:00.123456+02:00" } as const;

/** Every kind of block, with odd text in every field. */
function oddMessage(text: string): Message {
  const meta = { [text]: text, list: [text, null, 0.1], "": {} };
  return {
    ...base,
    meta,
    blocks: [
      { kind: "text", text, meta },
      { kind: "reasoning", text },
      { kind: "tool_call", id: "c", name: "tool", args: { [text]: [text, { "": text }] } },
      { kind: "tool_result", callId: "c", content: text, isError: true },
      { kind: "tool_result", callId: "c", content: [{ kind: "text", text }] },
    ],
  };
}

describe.each(Object.entries(PLACES))("a transcript on %s comes back exactly", (_, makePlace) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });

  afterEach(() => place.dispose());

  test.each(ODD.map((text) => [JSON.stringify(text), text]))(
    "with %s in every place",
    async (_name, text) => {
      const session = await (await open(undefined, { store: place.store })).session("s");
      const message = oddMessage(text);
      await session.append(message);
      expect(session.messages).toStrictEqual([message]);
      const again = await open(undefined, { store: await place.another() });
      const { messages } = await again.sessions.get("s");
      expect(messages).toStrictEqual([message]);
      expect(JSON.stringify(messages[0]?.blocks)).toBe(JSON.stringify(message.blocks));
      expect(await place.store.check()).toEqual([]);
    },
  );

  test("with any content", async () => {
    let run = 0;
    const holdfast = await open(undefined, { store: place.store });
    await fc.assert(
      fc.asyncProperty(fc.array(anyContent, { minLength: 1, maxLength: 5 }), async (contents) => {
        const id = `run-${++run}`;
        const messages = contents.map((content, index) => ({ id: `m${index}`, ...content }));
        const session = await holdfast.session(id);
        await session.save({ messages });
        await session.close();
        const stored = (await holdfast.sessions.get(id)).messages;
        expect(stored).toStrictEqual(messages);
      }),
      { numRuns: 40 },
    );
  });

  test("and does not follow later changes of the caller's object", async () => {
    const session = await (await open(undefined, { store: place.store })).session("s");
    const block = { kind: "text" as const, text: "as said" };
    await session.append({ ...base, blocks: [block] });
    block.text = "as changed";
    expect(session.messages[0]?.blocks).toEqual([{ kind: "text", text: "as said" }]);
    expect(Object.isFrozen(session.messages[0])).toBe(true);
  });
});

describe("a message is rejected", () => {
  test.each([
    ["an unknown kind of block", [{ kind: "video", url: "x" }], "$.blocks[0].kind", '"video"'],
    ["no kind at all", [{ kind: "text", text: "" }, {}], "$.blocks[1].kind", "(nothing)"],
    [
      "one inside a tool result",
      [{ kind: "tool_result", callId: "c", content: [{ kind: "text", text: "" }, { kind: "audio" }] }],
      "$.blocks[0].content[1].kind",
      '"audio"',
    ],
  ])("for %s, and the error lists the kinds of blocks", (_, blocks, path, shown) => {
    expect(() => checkMessage({ ...base, blocks })).toThrow(
      expect.objectContaining({
        code: "BLOCK_UNKNOWN",
        message: expect.stringContaining(`${path} is ${shown}`),
        hint: expect.stringContaining(BLOCK_KINDS.join(", ")),
      }),
    );
  });

  test.each([
    ["a field that no block has", { blocks: [{ kind: "text", text: "", colour: 1 }] }, "$.blocks[0]"],
    ["a text that is none", { blocks: [{ kind: "text", text: 1 }] }, "$.blocks[0].text"],
    [
      "a call id with a line break",
      { blocks: [{ kind: "tool_call", id: "a\nb", name: "t", args: {} }] },
      "$.blocks[0].id",
    ],
    [
      "a file that is not named by a hash",
      { blocks: [{ kind: "file", artifact: "x", mediaType: "a/b" }] },
      "$.blocks[0].artifact",
    ],
    ["an unknown role", { role: "robot", blocks: [] }, "$.role"],
    ["a time without a zone", { createdAt: "2026-07-28T10:00:00", blocks: [] }, "$.createdAt"],
    ["an empty id", { id: "", blocks: [] }, "$.id"],
    ["a field that no message has", { blocks: [], name: "x" }, "$"],
  ])("for %s, with the path", (_, change, path) => {
    expect(() => checkMessage({ ...base, ...change })).toThrow(
      expect.objectContaining({ code: "INPUT_INVALID", data: { path } }),
    );
  });

  test("for values that JSON cannot hold, with the path", () => {
    const blocks = [{ kind: "tool_call", id: "c", name: "t", args: { when: new Date(0) } }];
    expect(() => checkMessage({ ...base, blocks })).toThrow(
      expect.objectContaining({ code: "VALUE_NOT_JSON", data: { path: "$.blocks[0].args.when" } }),
    );
  });
});
