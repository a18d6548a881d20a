// The fast path copies the usual message without the schema. It must accept no message that the schema
// rejects, and accept what agents usually write.

import fc from "fast-check";
import { expect, test } from "vitest";
import { makeTurns } from "../../../bench/turns.ts";
import { copyJson } from "../../../src/model/json.ts";
import { JsonText } from "../../../src/model/json-text.ts";
import { fastCopyMessage, messageSchema } from "../../../src/model/session/index.ts";
import { type MessageInput, readMessage } from "../../../src/session/index.ts";
import { anyCodePoint } from "../../any-code-point.ts";

type Any = fc.Arbitrary<unknown>;

/** Runs of each random check; HOLDFAST_FULL=1 runs three times as many. */
const RUNS = process.env["HOLDFAST_FULL"] ? 2_000 : 700;

/** Mostly valid, sometimes nearly valid or anything at all: one mistake per message, not ten. */
const mostly = (right: Any, ...nearly: readonly unknown[]): Any =>
  fc.oneof(
    { weight: 30, arbitrary: right },
    { weight: 1, arbitrary: fc.constantFrom<unknown>(null, ...nearly) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 1 }) },
  );

const id = mostly(fc.constantFrom("call_1", "x".repeat(256), "é"), "", "x".repeat(257), "new\nline");
const text = mostly(fc.string({ unit: anyCodePoint }), 1, ["text"]);
const meta = mostly(
  fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 1 })),
  [],
  "meta",
  JSON.parse('{"__proto__":1}'),
);

/** Optional members, and sometimes one that is not allowed. */
const record = (required: Record<string, Any>, optional: Record<string, Any> = {}): Any => {
  const members = { ...required, ...optional, meta };
  const right = fc.record(members, { requiredKeys: Object.keys(required) as never[] });
  const more = fc.record({ ...members, extra: fc.constant(1) }, { requiredKeys: ["extra"] });
  return fc.oneof({ weight: 30, arbitrary: right }, { weight: 1, arbitrary: more });
};

const { block } = fc.letrec<{ block: unknown }>((tie) => ({
  block: fc.oneof(
    record({ kind: mostly(fc.constantFrom("text", "reasoning"), "image"), text }),
    record({
      kind: fc.constant("tool_call"),
      id,
      name: mostly(fc.constant("charge"), ""),
      args: fc.jsonValue({ maxDepth: 1 }),
    }),
    record(
      {
        kind: fc.constant("tool_result"),
        callId: id,
        content: fc.oneof({ weight: 4, arbitrary: text }, fc.array(tie("block"), { maxLength: 2 })),
      },
      { isError: mostly(fc.boolean(), 0) },
    ),
    record({ kind: fc.constant("file"), artifact: fc.string(), mediaType: fc.string() }),
  ),
}));

const take = (value: unknown) => fastCopyMessage(value, new JsonText());

const WRONG_TIMES = ["2026-02-30T12:00:00Z", "2026-01-31", "now", 0];

const message = record({
  id,
  role: mostly(fc.constantFrom("system", "user", "assistant", "tool"), "developer"),
  createdAt: mostly(fc.constantFrom("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123+02:00"), ...WRONG_TIMES),
  blocks: mostly(fc.array(block, { maxLength: 3 }), {}),
});

test("a message on the fast path is valid, and its copy and text equal those of JSON", () => {
  let taken = 0;
  fc.assert(
    fc.property(message, (value) => {
      const text = new JsonText();
      const plain = fastCopyMessage(value, text);
      if (!plain) return;
      taken += 1;
      const copied = copyJson(value, "message");
      expect(messageSchema.safeParse(copied).success).toBe(true);
      expect(plain).toStrictEqual(copied);
      expect(text.toString()).toBe(JSON.stringify(copied));
    }),
    { numRuns: RUNS },
  );
  expect(taken).toBeGreaterThan(RUNS / 10);
});

test("the copy is deep, and values that JSON would change are not accepted", () => {
  const [usual] = makeTurns(1)[0]?.messages ?? [];
  const block = { kind: "tool_call", id: "call_1", name: "charge", args: { cents: 1 } };
  const plain = take({ ...usual, blocks: [block] });
  block.args.cents = 2;
  expect(plain?.blocks).toEqual([{ ...block, args: { cents: 1 } }]);
  expect(Object.isFrozen(plain?.blocks[0])).toBe(true);
  const wrong = [
    { ...usual, [Symbol("more")]: 1 },
    { ...usual, blocks: [{ ...block, args: { at: new Date(0) } }] },
    { ...usual, blocks: [{ ...block, args: Number.NaN }] },
    { ...usual, blocks: [Object.assign(Object.create({ more: 1 }), block)] },
    { ...usual, blocks: [block, undefined] },
    { ...usual, meta: undefined },
  ];
  expect(wrong.filter((each) => take(each))).toEqual([]);
});

test("messages from MessageInput are accepted", () => {
  const block = { kind: "reasoning", text: "Hm." } as const;
  const written = [
    { role: "user", text: "Hello." },
    { text: "Hello.", role: "user", id: "m" },
    { role: "assistant", blocks: [block], meta: { model: "m-1" } },
    { meta: {}, createdAt: "2026-01-31T12:00:00Z", blocks: [block], text: "So.", role: "assistant", id: "m" },
  ] as const;
  const drafts = written.map((input) => readMessage(input, 0, () => "given"));
  expect(drafts.filter(({ data }) => !take(data.message))).toEqual([]);
});

test.each([null, "blocks", 1, {}])("blocks that are %j are rejected, with a text and without", (blocks) => {
  for (const more of [{}, { text: "Hello." }]) {
    const input = { role: "user", blocks, ...more } as unknown as MessageInput;
    expect(() => readMessage(input, 0, () => "given")).toThrow(
      "message: $.blocks: Invalid input: expected array",
    );
  }
});

test("usual messages of agents are accepted", () => {
  const usual = makeTurns(50).flatMap(({ messages }) => messages);
  expect(usual.filter((each) => !take(each))).toEqual([]);
});
