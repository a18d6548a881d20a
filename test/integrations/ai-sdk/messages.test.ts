// Messages of the SDK and of a session convert both ways without loss.

import type { ModelMessage } from "ai";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { fromModelMessages, toModelMessages } from "../../../src/integrations/ai-sdk/index.ts";
import { anyCodePoint } from "../../any-code-point.ts";
import { anyUrl as url } from "../any-url.ts";

const holdfast = await open("memory:");
afterAll(() => holdfast.close());

const text = fc.string({ unit: anyCodePoint, maxLength: 20 });
const id = fc.string({ minLength: 1, maxLength: 20 }).filter((each) => !/\p{Cc}/u.test(each));
const json = fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)) as never);
const options = fc.option(fc.dictionary(id, fc.dictionary(id, json, { maxKeys: 2 }), { maxKeys: 2 }), {
  nil: undefined,
});
const bytes = fc.uint8Array({ maxLength: 30 });
const base64 = bytes.map((each) => Buffer.from(each).toString("base64"));
const data = fc.oneof(
  bytes,
  bytes.map((each) => new Uint8Array(each).buffer),
  base64,
  base64.map((each) => `data:image/png;base64,${each}`),
  url,
  url.map((each) => new URL(each)),
  fc.constantFrom("not base64 at all", "", "abc"),
);
const mediaType = fc.constantFrom("image/png", "application/pdf", "text/plain", "");

/** Undefined members are left out, as in messages written by hand. */
function record(fields: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<never> {
  return fc
    .record(fields)
    .map(
      (made) => Object.fromEntries(Object.entries(made).filter(([, value]) => value !== undefined)) as never,
    );
}

const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
const type = (name: string) => fc.constant(name);

const textPart = record({ type: type("text"), text, providerOptions: options });
const imagePart = record({
  type: type("image"),
  image: data,
  mediaType: optional(mediaType),
  providerOptions: options,
});
const filePart = record({
  type: type("file"),
  data,
  mediaType,
  filename: optional(text),
  providerOptions: options,
});
const reasoningPart = record({ type: type("reasoning"), text, providerOptions: options });
const toolCallPart = record({
  type: type("tool-call"),
  toolCallId: id,
  toolName: id,
  input: json,
  providerExecuted: optional(fc.boolean()),
  providerOptions: options,
});
const fileId = fc.oneof(id, fc.dictionary(id, id, { maxKeys: 2 }));
const contentPart = fc.oneof(
  textPart,
  record({ type: type("media"), data: base64, mediaType }),
  record({
    type: type("file-data"),
    data: base64,
    mediaType,
    filename: optional(text),
    providerOptions: options,
  }),
  record({ type: type("image-data"), data: base64, mediaType, providerOptions: options }),
  record({ type: fc.constantFrom("file-url", "image-url"), url, providerOptions: options }),
  record({ type: fc.constantFrom("file-id", "image-file-id"), fileId, providerOptions: options }),
  record({ type: type("custom"), providerOptions: options }),
);
const output = fc.oneof(
  record({ type: fc.constantFrom("text", "error-text"), value: text, providerOptions: options }),
  record({ type: fc.constantFrom("json", "error-json"), value: json, providerOptions: options }),
  record({ type: type("execution-denied"), reason: optional(text), providerOptions: options }),
  record({ type: type("content"), value: fc.array(contentPart, { maxLength: 3 }) }),
);
const toolResultPart = record({
  type: type("tool-result"),
  toolCallId: id,
  toolName: id,
  output,
  providerOptions: options,
});
const approvalRequest = record({
  type: type("tool-approval-request"),
  approvalId: id,
  toolCallId: id,
  signature: optional(id),
});
const approvalResponse = record({
  type: type("tool-approval-response"),
  approvalId: id,
  approved: fc.boolean(),
  reason: optional(text),
  providerExecuted: optional(fc.boolean()),
});

const parts = (...kinds: fc.Arbitrary<never>[]) => fc.array(fc.oneof(...kinds), { maxLength: 4 });
const message: fc.Arbitrary<ModelMessage> = fc.oneof(
  record({ role: type("system"), content: text, providerOptions: options }),
  record({
    role: type("user"),
    content: fc.oneof(text, parts(textPart, imagePart, filePart)),
    providerOptions: options,
  }),
  record({
    role: type("assistant"),
    content: fc.oneof(
      text,
      parts(textPart, filePart, reasoningPart, toolCallPart, toolResultPart, approvalRequest),
    ),
    providerOptions: options,
  }),
  record({ role: type("tool"), content: parts(toolResultPart, approvalResponse), providerOptions: options }),
);

test("every message comes back unchanged, also from the store", async () => {
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 4 }), async (messages) => {
      const inputs = await fromModelMessages(messages, holdfast);
      const session = await holdfast.session(`session-${++number}`);
      // Saved as a whole, because single messages of an inconsistent conversation would be rejected.
      const createdAt = new Date(0).toISOString();
      await session.save({
        messages: inputs.map((input, index) => ({ createdAt, ...input, id: `m${index}` })),
      });
      await session.close();
      const again = await holdfast.session(`session-${number}`);
      expect(await toModelMessages(again.messages, holdfast)).toEqual(messages);
      await again.close();
    }),
    { numRuns: 100 },
  );
});

test("bytes are stored once, however often a message contains them", async () => {
  const image = new Uint8Array([1, 2, 3]);
  const content = [
    { type: "image" as const, image },
    { type: "file" as const, data: Buffer.from(image).toString("base64"), mediaType: "image/png" },
  ];
  const [input] = await fromModelMessages([{ role: "user", content }], holdfast);
  const [first, second] = input?.blocks ?? [];
  expect(first).toMatchObject({ kind: "file" });
  expect(second).toMatchObject({ kind: "file", artifact: (first as { artifact: string }).artifact });
});
