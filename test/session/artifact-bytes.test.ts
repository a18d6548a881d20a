/** An artifact is stored with exactly its bytes, or rejected. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { type Holdfast, open } from "../../src/index.ts";

let holdfast: Holdfast;
beforeEach(async () => {
  holdfast = await open("memory:");
});
afterEach(() => holdfast.close());

const put = (value: unknown): Promise<string> => holdfast.putArtifact(value as Uint8Array);

test.each([
  ["a string", "hello"],
  ["a Blob", new Blob(["hello"])],
  ["an object", { length: 3 }],
  ["a list of numbers", [1, 2, 3]],
  ["null", null],
  ["nothing", undefined],
  ["a number", 5],
])("%s is not bytes, and is rejected", async (_name, value) => {
  await expect(put(value)).rejects.toMatchObject({
    code: "INPUT_INVALID",
    hint: expect.stringContaining("Uint8Array"),
  });
});

const numbers = new Uint16Array([1, 2, 300]);
const whole = Buffer.from(numbers.buffer);

test.each([
  ["a Uint16Array", numbers, whole],
  ["a part of a buffer", new DataView(numbers.buffer, 2, 2), whole.subarray(2, 4)],
  ["an ArrayBuffer", numbers.buffer, whole],
  ["a Buffer", whole, whole],
  ["a Uint8Array", new Uint8Array([7, 8]), Buffer.from([7, 8])],
])("%s is stored by its bytes", async (_name, value, bytes) => {
  const stored = await holdfast.getArtifact(await put(value));
  expect(Buffer.from(stored)).toEqual(bytes);
});
