// Results that JSON cannot hold: as much as possible is kept, and the change is noted with the call.

import { afterAll, describe, expect, expectTypeOf, test } from "vitest";
import { z } from "zod";
import { type DirectOutcome, type Json, type Jsonify, open, tool } from "../../src/index.ts";
import { landed } from "../../src/ledger/index.ts";
import { jsonify } from "../../src/model/jsonify.ts";
import { storeSubjects } from "../subjects.ts";
import { callBlock, script } from "./bench.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((each) => each.dispose())));

class Point {
  readonly x = 1;
  readonly label: string | undefined = undefined;
  length(): number {
    return this.x;
  }
}

/** A result with one of everything that JSON changes. */
function everything() {
  const circle: { name: string; self?: unknown; list: unknown[] } = { name: "round", list: [] };
  circle.self = circle;
  circle.list.push(circle, 1);
  return {
    at: new Date(0),
    lines: new Map([["tax", 1n]]),
    tags: new Set(["a"]),
    ratio: Number.NaN,
    bytes: new Uint8Array([1, 2]),
    failure: Object.assign(new TypeError("no"), { code: "E_NO" }),
    point: new Point(),
    circle,
    act: () => 1,
  };
}

const KEPT = {
  at: "1970-01-01T00:00:00.000Z",
  lines: [["tax", "1"]],
  tags: ["a"],
  ratio: null,
  bytes: [1, 2],
  failure: { name: "TypeError", message: "no", code: "E_NO" },
  point: { x: 1 },
  circle: { name: "round", list: [null, 1] },
};

const spec = { description: "", effect: "mutate", input: z.object({ n: z.int() }) } as const;
const report = tool({
  ...spec,
  name: "report",
  execute: () => everything(),
});

describe.each(subjects)("$name", (subject) => {
  test("a result that JSON cannot hold is kept as far as possible, and the call says what changed", async () => {
    const place = await subject.open();
    const holdfast = await open(undefined, { store: place.store });
    const session = await holdfast.session("s");
    const first = await session.call({ tool: report, args: { n: 1 }, callId: "c1" });
    const note = expect.stringMatching(
      /^the result is not plain JSON: \$\.at is a Date, kept as text; \$\.lines is a Map, .*; and \d+ more$/,
    );
    expect(first).toMatchObject({ status: "completed", replayed: false, value: KEPT, note });
    await session.close();
    const again = await holdfast.session("s");
    const second = await again.call({ tool: report, args: { n: 1 }, callId: "c1" });
    expect(second).toEqual({ ...first, replayed: true });
    expect((await holdfast.sessions.get("s")).calls).toMatchObject([{ callId: "c1", note, why: null }]);
    await place.dispose();
  });
});

test("every way to an outcome notes the change: run, verify, a mismatch with the output", async () => {
  await using holdfast = await open("memory:");
  const session = await holdfast.session("s");
  const fails = tool({
    ...spec,
    name: "fails",
    execute: (): { at: Date } => {
      throw new Error("cut");
    },
    verify: () => landed({ at: new Date(0) }),
  });
  const wrong = tool({ ...report, name: "wrong", output: z.object({ at: z.string() }) as never });
  const notes: unknown[] = [];
  const calls = [callBlock("c1", "fails", { n: 1 }), callBlock("c2", "wrong", { n: 1 })];
  await session.run({
    model: script(calls),
    prompt: "go",
    tools: [fails, wrong],
    on: (event) => event.type === "call.completed" && notes.push(event.note),
  });
  const [verified, mismatch] = (await holdfast.sessions.get("s")).calls;
  expect(verified?.note).toBe("the result is not plain JSON: $.at is a Date, kept as text");
  expect(verified?.why).toContain("cut");
  expect(mismatch?.note).toMatch(
    /^the result does not match .*; the result is not plain JSON: \$\.at is a Date/,
  );
  expect(notes.sort()).toEqual([verified?.note, mismatch?.note].sort());
});

test("a read returns the same form as a recorded result, and plain results have no note", async () => {
  await using holdfast = await open("memory:");
  const session = await holdfast.session("s");
  const read = tool({ ...report, name: "read", effect: "read" });
  expect(await session.call({ tool: read, args: { n: 1 } })).toMatchObject({ value: KEPT });
  const plain = tool({ ...spec, name: "plain", execute: ({ n }) => ({ n, nothing: undefined }) });
  const outcome = await session.call({ tool: plain, args: { n: 1 } });
  expect(outcome).toMatchObject({ value: { n: 1 }, note: null });
});

test("nothing that a tool returns makes the conversion throw", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const getter = Object.defineProperty({ a: 1 }, "bad", {
    enumerable: true,
    get: () => {
      throw new Error("no");
    },
  });
  let deep: unknown = 1;
  for (let level = 0; level < 100_000; level++) deep = [deep];
  const same = { toJSON: () => same, a: 1 };
  expect(jsonify(proxy)).toEqual({ value: null, changes: "$ cannot be read, left out" });
  expect(jsonify([getter, 2])).toEqual({
    value: [{ a: 1 }, 2],
    changes: "$[0].bad cannot be read, left out",
  });
  expect(jsonify(deep).changes).toMatch(/is nested deeper than 200 levels, left out$/);
  expect(jsonify({ same }).value).toEqual({ same: { a: 1 } });
  expect(jsonify(Symbol("s"))).toEqual({ value: null, changes: "$ is a symbol, left out" });
  expect(jsonify(new Map([["k".repeat(200), { ["k".repeat(200)]: 1n }]])).changes.length).toBeLessThan(250);
  expect(jsonify(JSON.parse('{"__proto__": {"a": 1}}')).value).toEqual(JSON.parse('{"__proto__": {"a": 1}}'));
});

test("the value has the type of what comes back", () => {
  type Value<Result> = Extract<DirectOutcome<Result>, { status: "completed" }>["value"];
  expectTypeOf<Value<{ at: Date; lines: Map<string, bigint> }>>().toEqualTypeOf<{
    at: string;
    lines: [string, string][];
  }>();
  expectTypeOf<Value<Point>>().toEqualTypeOf<{ readonly x: 1; readonly label?: string }>();
  expectTypeOf<Value<{ a?: number; f: () => void }[]>>().toEqualTypeOf<{ a?: number }[]>();
  expectTypeOf<Value<{ id: string } | null>>().toEqualTypeOf<{ id: string } | null>();
  expectTypeOf<Value<[Date, number]>>().toEqualTypeOf<[string, number]>();
  expectTypeOf<Value<void>>().toEqualTypeOf<null>();
  expectTypeOf<Value<unknown>>().toEqualTypeOf<Json>();
  expectTypeOf<Value<Set<Uint8Array>>>().toEqualTypeOf<number[][]>();
  // biome-ignore lint/suspicious/noExplicitAny: the point of this line.
  expectTypeOf<Jsonify<any>>().toBeAny();
});
