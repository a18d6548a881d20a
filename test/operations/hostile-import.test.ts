// A portable file from anywhere: every name and number in it is checked before the first write.

import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { anything } from "../../bench/schema.ts";
import { open, tool } from "../../src/index.ts";
import { runInside } from "../cli/inside.ts";
import { quickFolder } from "../quick-folder.ts";

type Lines = Record<string, unknown>[];

let folder: string;
let honest: Lines;
beforeAll(async () => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-import-"));
  const holdfast = await open(join(folder, "from.db"));
  const session = await holdfast.session("alpha");
  await session.append({ role: "user", blocks: [{ kind: "text", text: "hello" }] });
  await holdfast.close();
  await runInside(folder, ["export", "all.hf", "--store", "from.db"]);
  const text = readFileSync(join(folder, "all.hf"), "utf8");
  honest = text
    .trim()
    .split("\n")
    .map((raw) => JSON.parse(raw) as Record<string, unknown>);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The file with changed lines and a checksum that fits them. */
function forged(change: (lines: Lines) => Lines): string {
  const lines = change(structuredClone(honest));
  const end = lines.pop() as { end: Record<string, unknown> };
  const body = lines.map((each) => `${JSON.stringify(each)}\n`).join("");
  end.end["sha256"] = createHash("sha256").update(body).digest("hex");
  const file = join(folder, "forged.hf");
  writeFileSync(file, `${body}${JSON.stringify(end)}\n`);
  return file;
}

const every =
  (name: string, more: object) =>
  (lines: Lines): Lines =>
    lines.map((each) => (name in each ? { ...each, ...more } : each));
const writes =
  (more: object) =>
  (lines: Lines): Lines =>
    lines.map((each) =>
      "write" in each ? { ...each, write: { ...(each["write"] as object), ...more } } : each,
    );
const payload =
  (change: (events: Record<string, unknown>[]) => unknown) =>
  (lines: Lines): Lines =>
    lines.map((each) => {
      if (!("write" in each)) return each;
      const text = JSON.stringify(change(JSON.parse(String(each["text"])) as Record<string, unknown>[]));
      return { ...each, text, write: { ...(each["write"] as object), sum: crc32(text) } };
    });
const gone = (more: object) => (lines: Lines) => [
  ...lines.slice(0, -1),
  { gone: "session/old", generation: 2, before: [], ...more },
  ...lines.slice(-1),
];

const HOSTILE: Record<string, (lines: Lines) => Lines> = {
  "a name that climbs": every("stream", { stream: "session/../../etc" }),
  "a name of two parts": every("stream", { stream: "session/a/b" }),
  "a name with a NUL": every("stream", { stream: "session/a\0b" }),
  "a name of 5,000 characters": every("stream", { stream: `session/${"a".repeat(5_000)}` }),
  "a kind from the prototype": every("stream", { stream: "__proto__/a" }),
  "a kind that every object has": every("stream", { stream: "constructor/a" }),
  "a name that is a number": every("stream", { stream: 7 }),
  "a negative generation": every("stream", { generation: -1 }),
  "a generation without end": every("stream", { generation: 1e308 }),
  "a fractional base": every("stream", { base: 0.5 }),
  "a parent that climbs": every("stream", { parent: "session/../x" }),
  "a seq of text": writes({ first: "1" }),
  "a write that ends before it begins": writes({ first: 2, last: 1 }),
  "a batch of control characters": writes({ batch: "\u001b[2J" }),
  "a time without end": writes({ at: 1e300 }),
  "an unknown field": every("stream", { admin: true }),
  "a removed session without a generation": gone({ generation: undefined }),
  "a removed session with endless generations": gone({ generation: 1e15 }),
  "a key far behind any event": gone({ before: [["k", 2 ** 40]] }),
  "keys that are no pairs": gone({ before: ["k"] }),
  "a line that is a list": (lines) => [...lines.slice(0, -1), [] as never, ...lines.slice(-1)],
  "a line of no known kind": (lines) => [...lines.slice(0, -1), { nothing: 1 }, ...lines.slice(-1)],
  "an artifact under a path": (lines) => [
    ...lines.slice(0, -1),
    { artifact: "../../x", bytes: "", size: 0 },
    ...lines.slice(-1),
  ],
  "events that are no list": payload(() => ({})),
  "an event without a type": payload((events) => events.map(({ type: _type, ...rest }) => rest)),
  "an event with a type from the prototype": payload((events) =>
    events.map((each) => ({ ...each, type: "__proto__" })),
  ),
  "an event with data of another shape": payload((events) => events.map((each) => ({ ...each, data: 7 }))),
};

test.each(Object.entries(HOSTILE))("%s is refused before anything is written", async (_, change) => {
  const file = forged(change);
  const store = join(folder, "into.db");
  rmSync(store, { force: true });
  const { code, err } = await runInside(folder, ["import", file, "--store", "into.db"]);
  expect(code, err).not.toBe(0);
  expect(err, "an error of ours, not a fault").not.toContain("This is a bug");
  if (!existsSync(store)) return;
  const holdfast = await open(store, { readOnly: true });
  expect((await holdfast.sessions.list()).sessions, err).toEqual([]);
  await holdfast.close();
});

test("the honest file is still imported", async () => {
  const { code, err } = await runInside(folder, ["import", forged((lines) => lines), "--store", "good.db"]);
  expect(code, err).toBe(0);
});

test("a key that a file claims is named, and first the one that no call shows", async () => {
  const file = forged(gone({ before: [["pay:order-7", 1]] }));
  const { out } = await runInside(folder, ["import", file, "--store", "claims.db"]);
  expect(out).toContain("pay:order-7  session/old, removed: the file has no call for it");
  const again = await runInside(folder, ["import", file, "--store", "claims.db", "--json"]);
  expect(JSON.parse(again.out)).toMatchObject({ data: { claims: [] } });
});

test("the keys of calls are named with their session", async () => {
  const holdfast = await open(join(folder, "calls.db"));
  const session = await holdfast.session("beta");
  const pay = tool({
    name: "pay",
    description: "Pay",
    input: anything,
    effect: "mutate",
    dedupe: "global",
    execute: () => 1,
  });
  await session.call({ tool: pay, args: {}, callId: "c1" });
  await holdfast.close();
  await runInside(folder, ["export", "calls.hf", "--store", "calls.db"]);
  const { out } = await runInside(folder, ["import", "calls.hf", "--store", "copy.db", "--json"]);
  const { claims } = (JSON.parse(out) as { data: { claims: object[] } }).data;
  expect(claims).toMatchObject([{ namespace: "default", stream: "session/beta", hasCall: true }]);
});
