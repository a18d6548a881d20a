// The key of a call is stored, and compared after every later release: it must never be computed in another
// way. An effect whose key changed would happen twice.

import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { type Tool, tool } from "../../src/ledger/index.ts";
import { callKey } from "../../src/ledger/keys.ts";
import { sha256 } from "../../src/model/digest.ts";
import type { Json } from "../../src/model/json.ts";

const named = (spec: Partial<Tool>): Tool =>
  tool({
    name: "charge",
    description: "Charges.",
    effect: "mutate",
    input: z.any(),
    execute: () => null,
    ...spec,
  } as Parameters<typeof tool>[0]) as Tool;

const keyOf = (each: Tool, args: Json, namespace = "default", callId = "c1", isDoubted = false) =>
  callKey(namespace, each, callId, args, args, () => isDoubted);

/** As the first release computed it. */
const hashOf = (parts: readonly string[], json = ""): string => `k1_${sha256(JSON.stringify(parts) + json)}`;

const anyArgs = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
const anyName = fc.string({ minLength: 1, maxLength: 20, unit: "binary" });

test("by default the key is that of namespace, tool and canonical arguments, within the session", () => {
  fc.assert(
    fc.property(anyName, anyArgs, (namespace, args) => {
      expect(keyOf(named({}), args, namespace)).toEqual({
        scope: "session",
        key: hashOf([namespace, "session", "charge", "args"], canonicalize(args)),
      });
    }),
    { numRuns: 200 },
  );
});

test("a global scope, a key of the tool's own and a key per call are other keys", () => {
  fc.assert(
    fc.property(anyArgs, anyName, (args, own) => {
      expect(keyOf(named({ dedupe: "global" }), args)).toEqual({
        scope: "global",
        key: hashOf(["default", "global", "charge", "args"], canonicalize(args)),
      });
      for (const scope of ["session", "global"] as const)
        expect(keyOf(named({ dedupe: { scope, key: () => own } }), args)).toEqual({
          scope,
          key: hashOf(["default", scope, "charge", "own", own]),
        });
      expect(keyOf(named({ dedupe: "call" }), args, "default", own)).toEqual({
        scope: "call",
        key: hashOf(["default", "call", "charge", own]),
      });
    }),
    { numRuns: 100 },
  );
});

test("a repeat with a reason has a key of its own, unless the outcome of the first is in doubt", () => {
  const repeatable = named({ repeatable: true });
  const args = { order: "17" };
  const shared = keyOf(named({}), args);
  expect(keyOf(repeatable, args)).toEqual(shared);
  const again = { ...args, againBecause: "the customer wants two" };
  expect(keyOf(repeatable, again)).toEqual({
    scope: "call",
    key: hashOf(["default", "call", "charge", "c1"]),
  });
  expect(keyOf(repeatable, again, "default", "c1", true)).toEqual(shared);
  expect(keyOf(repeatable, { ...args, againBecause: " " }), "a reason without words").toEqual(shared);
  expect(keyOf(named({}), again), "an argument like any other").not.toEqual(shared);
});

test("a key function that fails is named with its error, and an empty key is refused", () => {
  const keyed = (key: () => string) => named({ dedupe: { scope: "session", key } });
  const failing = keyed(() => {
    throw new Error("no order in the input");
  });
  expect(() => keyOf(failing, {})).toThrow(/charge: its dedupe.key threw: .*no order in the input/);
  expect(() =>
    keyOf(
      keyed(() => ""),
      {},
    ),
  ).toThrow(/charge: its dedupe.key returned ""/);
});

test("the key of a known call, as earlier releases have stored it", () => {
  expect(keyOf(named({}), { order: "17", lines: [1, 2.5, "é"] }).key).toBe(
    "k1_b4f9036e3b9684e38066b2dec05b5460d33f1f23a7db03ce507b9b228ff9a4b6",
  );
});
