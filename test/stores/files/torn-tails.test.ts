// Bytes that a crash leaves behind the last synced line are cut. A line that was synced once and is bad now
// is damage. The two look alike, and confusing them loses acknowledged work or keeps good stores from
// opening.

import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openFiles } from "../../../src/stores/files/index.ts";
import { append, headSeq, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.makeQuick();
});

afterEach(() => folder.dispose());

const STREAMS = ["session/a", "session/b", "session/c"];

/** One append, then three that share a write. Returns the journal and where that write begins. */
async function appendTogether(): Promise<{ bytes: Buffer; from: number; ends: number[] }> {
  const store = await folder.open();
  await append(store, write("session/first", 0, [1]));
  const from = readFileSync(folder.journal).length;
  await Promise.all(STREAMS.map((stream) => append(store, write(stream, 0, [stream, "text"]))));
  await store.close();
  const bytes = readFileSync(folder.journal);
  const ends = [...bytes.entries()].filter(([, byte]) => byte === 10).map(([at]) => at + 1);
  return { bytes, from, ends: ends.filter((end) => end > from) };
}

async function expectRead(bytes: Buffer, kept: number, what: string): Promise<void> {
  const path = folder.copy(bytes);
  const store = await openFiles({ path, readOnly: true });
  const heads = await Promise.all(STREAMS.map((stream) => headSeq(store, stream)));
  expect(heads, what).toEqual(STREAMS.map((_, index) => (index < kept ? 2 : 0)));
  await store.close();
  await rm(path, { recursive: true });
}

/** Opens a journal as a power cut may have left it, and expects this many of the three appends. */
async function expectKept(bytes: Buffer, kept: number, what: string): Promise<void> {
  const path = folder.copy(bytes);
  const store = await openFiles({ path });
  try {
    expect(await headSeq(store, "session/first"), what).toBe(1);
    const heads = await Promise.all(STREAMS.map((stream) => headSeq(store, stream)));
    expect(heads, what).toEqual(STREAMS.map((_, index) => (index < kept ? 2 : 0)));
    expect(await append(store, write("session/first", 1, [2]))).toMatchObject({ outcome: "ok" });
    expect(await store.check(), what).toEqual([]);
  } finally {
    await store.close();
  }
  await rm(path, { recursive: true });
}

test("a write that was cut off after any number of bytes leaves the whole lines before that", {
  timeout: 120_000,
}, async () => {
  const { bytes, from, ends } = await appendTogether();
  expect(ends).toHaveLength(3);
  for (let length = from; length <= bytes.length; length++) {
    const kept = ends.filter((end) => end <= length).length;
    const left = bytes.subarray(0, length);
    const what = `${length} of ${bytes.length} bytes`;
    await expectRead(left, kept, what);
    // Cutting and appending takes longer, so only every eighth byte and the end of each line get it.
    const isNearEnd = ends.some((end) => Math.abs(end - length) <= 2);
    if (length % 8 === 0 || isNearEnd) await expectKept(left, kept, what);
  }
});

test("a write with one missing line is cut there, whatever follows", async () => {
  const { bytes, from, ends } = await appendTogether();
  const starts = [from, ...ends];
  for (const index of STREAMS.keys()) {
    for (const filler of [0, 32, 10]) {
      const holed = Buffer.from(bytes);
      holed.fill(filler, starts[index], ends[index]);
      await expectKept(holed, index, `line ${index} is ${filler}`);
    }
  }
});

test("zeros behind the last line, as a file system may leave them, are cut", async () => {
  const { bytes } = await appendTogether();
  await expectKept(Buffer.concat([bytes, Buffer.alloc(5_000)]), 3, "zeros");
});

test("an acknowledged line is never taken for a torn one", async () => {
  const { bytes, from } = await appendTogether();
  const flipped = Buffer.from(bytes);
  flipped[from + 30] = (flipped[from + 30] as number) ^ 1;
  const shorter = bytes.subarray(0, bytes.length - 5);
  for (const damaged of [flipped, shorter]) {
    await expect(openFiles({ path: folder.copy(damaged, true) })).rejects.toMatchObject({
      code: "STORE_CORRUPT",
      message: expect.stringContaining("journal.jsonl, line"),
      hint: expect.stringContaining("backup"),
    });
  }
});

test("a bad line in the middle is an error that names file and line, also without the mark", async () => {
  const { bytes, from } = await appendTogether();
  const store = await folder.open();
  await append(store, write("session/first", 1, [2]));
  await store.close();
  const whole = readFileSync(folder.journal);
  expect(whole.subarray(0, bytes.length).equals(bytes)).toBe(true);
  const flipped = Buffer.from(whole);
  flipped[from + 60] = (flipped[from + 60] as number) ^ 4;
  const path = folder.copy(flipped);
  await expect(openFiles({ path })).rejects.toMatchObject({
    code: "STORE_CORRUPT",
    message: expect.stringContaining("journal.jsonl, line 3"),
    data: { line: 3 },
  });
  expect(readFileSync(`${path}/journal.jsonl`).equals(flipped)).toBe(true);
});

test("a line that is missing in the middle is noticed", async () => {
  const { bytes, from, ends } = await appendTogether();
  const store = await folder.open();
  await append(store, write("session/first", 1, [2]));
  await store.close();
  const whole = readFileSync(folder.journal);
  expect(whole.length).toBeGreaterThan(bytes.length);
  const without = Buffer.concat([whole.subarray(0, from), whole.subarray(ends[0])]);
  await expect(openFiles({ path: folder.copy(without) })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
});

test("a reader skips a torn tail and leaves it; a writer cuts it", async () => {
  const { bytes } = await appendTogether();
  const torn = Buffer.concat([bytes, Buffer.from('{"crc":"00000000","n":6')]);
  const path = folder.copy(torn, true);
  const reader = await openFiles({ path, readOnly: true });
  expect(await headSeq(reader, "session/c")).toBe(2);
  expect(readFileSync(`${path}/journal.jsonl`).length).toBe(torn.length);
  const writer = await openFiles({ path });
  expect(readFileSync(`${path}/journal.jsonl`).length).toBe(bytes.length);
  await append(writer, write("session/c", 2, [3]));
  expect(await headSeq(reader, "session/c")).toBe(3);
  await reader.close();
  await writer.close();
});
