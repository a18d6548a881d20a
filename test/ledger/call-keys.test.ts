// The key of a call is stored, and compared after every later release: it must never be computed in another
// way. An effect whose key changed would happen twice.

import canonicalize from "canonicalize";
import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { open } from "../../src/index.ts";
import { type Tool, tool } from "../../src/ledger/index.ts";
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

/** The key that the call's intent has on record, in a session of its own. */
async function keyOf(each: Tool, args: Json, namespace = "default", callId = "c1"): Promise<object> {
  await using holdfast = await open("memory:", { namespace });
  await using session = await holdfast.session("s");
  const outcome = await session.call({ tool: each, args: args as never, callId });
  if (outcome.status === "failed") throw new Error(outcome.error.message);
  for await (const [, { type, data }] of holdfast.journal.events("session/s")) {
    const { scope, key } = data as { scope?: string; key?: string };
    if (type === "call.issued") return { scope, key };
  }
  throw new Error(`${each.name} was not issued`);
}

/** As the first release computed it. */
const hashOf = (parts: readonly string[], json = ""): string => `k1_${sha256(JSON.stringify(parts) + json)}`;

const anyArgs = fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<Json>;
const anyName = fc.string({ minLength: 1, maxLength: 20, unit: "binary" });

test("by default the key is that of namespace, tool and canonical arguments, within the session", async () => {
  const property = fc.asyncProperty(fc.constantFrom("default", "acme"), anyArgs, async (namespace, args) => {
    expect(await keyOf(named({}), args, namespace)).toEqual({
      scope: "session",
      key: hashOf([namespace, "session", "charge", "args"], canonicalize(args)),
    });
  });
  await fc.assert(property, { numRuns: 50 });
});

test("a global scope, a key of the tool's own and a key per call are other keys", async () => {
  const property = fc.asyncProperty(
    anyArgs,
    anyName,
    fc.stringMatching(/^[a-z]{1,9}$/),
    async (args, own, id) => {
      expect(await keyOf(named({ dedupe: "global" }), args)).toEqual({
        scope: "global",
        key: hashOf(["default", "global", "charge", "args"], canonicalize(args)),
      });
      for (const scope of ["session", "global"] as const)
        expect(await keyOf(named({ dedupe: { scope, key: () => own } }), args)).toEqual({
          scope,
          key: hashOf(["default", scope, "charge", "own", own]),
        });
      expect(await keyOf(named({ dedupe: "call" }), args, "default", id)).toEqual({
        scope: "call",
        key: hashOf(["default", "call", "charge", id]),
      });
    },
  );
  await fc.assert(property, { numRuns: 25 });
});

test("a repeat with a reason has a key of its own, and only for a repeatable tool", async () => {
  const repeatable = named({ repeatable: true });
  const args = { order: "17" };
  const shared = await keyOf(named({}), args);
  expect(await keyOf(repeatable, args)).toEqual(shared);
  const again = { ...args, againBecause: "the customer wants two" };
  const own = { scope: "call", key: hashOf(["default", "call", "charge", "c1"]) };
  expect(await keyOf(repeatable, again)).toEqual(own);
  expect(await keyOf(repeatable, { ...args, againBecause: " " }), "a reason without words").toEqual(shared);
  expect(await keyOf(named({}), again), "an argument like any other").not.toEqual(shared);
});

test("a key function that fails is named with its error, and an empty key is refused", async () => {
  const keyed = (key: () => string) => named({ dedupe: { scope: "session", key } });
  const failing = keyed(() => {
    throw new Error("no order in the input");
  });
  await expect(keyOf(failing, {})).rejects.toThrow(/charge: its dedupe.key threw: .*no order in the input/);
  await expect(
    keyOf(
      keyed(() => ""),
      {},
    ),
  ).rejects.toThrow(/charge: its dedupe.key returned ""/);
});

test("the key of a known call, as earlier releases have stored it", async () => {
  expect(await keyOf(named({}), { order: "17", lines: [1, 2.5, "é"] })).toEqual({
    scope: "session",
    key: "k1_b4f9036e3b9684e38066b2dec05b5460d33f1f23a7db03ce507b9b228ff9a4b6",
  });
});
