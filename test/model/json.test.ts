import canonicalize from "canonicalize";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isHoldfastError } from "../../src/model/errors.ts";
import { canonicalJson, copyArgs, copyJson } from "../../src/model/json.ts";

class Point {
  readonly x = 1;
}

function cyclic(): unknown {
  const value: { self?: unknown } = {};
  value.self = value;
  return value;
}

function nested(depth: number): unknown {
  return depth === 0 ? 1 : { in: nested(depth - 1) };
}

/** Values that JSON would change silently, with their path and the message. */
const REFUSED: readonly [name: string, value: unknown, path: string, what: RegExp][] = [
  ["NaN", { a: Number.NaN }, "$.a", /is NaN/],
  ["Infinity", [1, Number.POSITIVE_INFINITY], "$[1]", /is Infinity/],
  ["-Infinity", Number.NEGATIVE_INFINITY, "$", /is -Infinity/],
  ["a bigint", { price: { cents: 1n } }, "$.price.cents", /is a bigint/],
  ["undefined", undefined, "$", /is undefined/],
  ["undefined in an array", { list: [1, undefined] }, "$.list[1]", /is undefined/],
  ["a hole in an array", new Array(2), "$[0]", /is undefined/],
  ["a Date", { at: new Date(0) }, "$.at", /is a Date/],
  ["a function", { run: () => 1 }, "$.run", /is a function/],
  ["a symbol", [Symbol("s")], "$[0]", /is a symbol/],
  ["a symbol as key", { inside: { [Symbol("s")]: 1 } }, "$.inside", /has a symbol as key/],
  ["a Map", { map: new Map() }, "$.map", /is a Map/],
  ["a Set", new Set([1]), "$", /is a Set/],
  ["bytes", { raw: new Uint8Array(2) }, "$.raw", /is a Uint8Array/],
  ["a class instance", { "odd key": new Point() }, '$["odd key"]', /is a Point/],
  ["a boxed string", [Object("x")], "$[0]", /is a String/],
  ["a cycle", cyclic(), `$${".self".repeat(200)}`, /deeper than 200 levels/],
  ["too deep", nested(201), `$${".in".repeat(200)}`, /deeper than 200 levels/],
];

/** Rejected only in arguments, whose hash must mean the same to everyone. */
const REFUSED_AS_ARGUMENTS: typeof REFUSED = [
  ["undefined as a member", { a: undefined }, "$.a", /is undefined/],
  ["half of a surrogate pair", { text: "x\ud800" }, "$.text", /half of a surrogate pair/],
  ["a key with half of a pair", { a: { "\udc00": 1 } }, "$.a", /a key with half of a surrogate pair/],
];

function refusal(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    return error;
  }
  return null;
}

describe.each([
  ["copyJson", (value: unknown) => copyJson(value, "the value"), "VALUE_NOT_JSON", REFUSED],
  [
    "copyArgs",
    (value: unknown) => copyArgs(value, "the value"),
    "ARGS_NOT_JSON",
    [...REFUSED, ...REFUSED_AS_ARGUMENTS],
  ],
  [
    "canonicalJson",
    (value: unknown) => canonicalJson(value, "the value"),
    "ARGS_NOT_JSON",
    [...REFUSED, ...REFUSED_AS_ARGUMENTS],
  ],
] as const)("%s refuses", (_, check, code, refused) => {
  test.each(refused)("%s, with its path", (_name, value, path, what) => {
    const error = refusal(() => check(value));
    expect(isHoldfastError(error, code)).toBe(true);
    expect(error).toMatchObject({ data: { path }, message: expect.stringMatching(what) });
    expect(error).toMatchObject({ message: expect.stringContaining(`the value: ${path} `) });
  });
});

describe("a copy keeps", () => {
  const kept = [null, true, 0, 1.5e300, "", "a\0b", "😀", [], {}, [[1], { a: [null] }], nested(200)];

  test.each(kept.map((value) => [JSON.stringify(value).slice(0, 30), value]))("%s", (_, value) => {
    expect(copyJson(value, "it")).toStrictEqual(value);
    expect(JSON.parse(canonicalJson(value))).toStrictEqual(value);
  });

  test("any JSON value, as JSON.parse would give it back", () => {
    const member = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constant(undefined));
    fc.assert(
      fc.property(fc.dictionary(fc.string(), member), fc.array(fc.jsonValue()), (members, list) => {
        const value = { members, list };
        expect(copyJson(value, "it")).toStrictEqual(JSON.parse(JSON.stringify(value)));
      }),
      { numRuns: 300 },
    );
  });

  test("nothing that the caller could change later", () => {
    const mine = { list: [{ a: 1 }] };
    const copied = copyJson(mine, "it") as typeof mine;
    mine.list.push({ a: 2 });
    expect(copied).toEqual({ list: [{ a: 1 }] });
    expect(() => copied.list.push({ a: 3 })).toThrow(TypeError);
    expect(Object.isFrozen(copied.list[0])).toBe(true);
  });

  test("half of a surrogate pair, outside arguments", () => {
    expect(copyJson({ "\ud800": "\udfff" }, "it")).toStrictEqual({ "\ud800": "\udfff" });
  });

  test("no undefined members, like JSON", () => {
    expect(Object.keys(copyJson({ a: undefined, b: 1 }, "it") as object)).toEqual(["b"]);
  });

  test("a member named __proto__", () => {
    const value = JSON.parse('{"__proto__":{"polluted":true}}') as unknown;
    const copied = copyJson(value, "it") as object;
    expect(JSON.stringify(copied)).toBe('{"__proto__":{"polluted":true}}');
    expect((copied as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe("canonical JSON", () => {
  test("sorts keys by code units, at every depth", () => {
    expect(canonicalJson({ b: 1, a: { d: 1, c: [{ z: 1, y: 2 }] }, "€": 1, é: 2, Z: 3 })).toBe(
      '{"Z":3,"a":{"c":[{"y":2,"z":1}],"d":1},"b":1,"é":2,"€":1}',
    );
  });

  test("sorts names that look like numbers as texts", () => {
    expect(canonicalJson({ b: { 10: 1, 9: 2 }, a: [{ 2: 1, 10: 2 }] })).toBe(
      '{"a":[{"10":2,"2":1}],"b":{"10":1,"9":2}}',
    );
  });

  test("spells numbers in one way, and -0 as 0", () => {
    expect(canonicalJson([-0, 1.0, 1e21, 1e-7, 0.1 + 0.2])).toBe("[0,1,1e+21,1e-7,0.30000000000000004]");
  });

  test("is what another implementation of the RFC writes", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
        const strict = JSON.parse(JSON.stringify(value)) as unknown;
        fc.pre(JSON.stringify(strict).isWellFormed() && !/\\ud[89a-f]/i.test(JSON.stringify(strict)));
        expect(canonicalJson(strict)).toBe(canonicalize(strict));
      }),
      { numRuns: 500 },
    );
  });

  test("does not normalise Unicode", () => {
    expect(canonicalJson("é")).not.toBe(canonicalJson("e\u0301"));
  });
});
