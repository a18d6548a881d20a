// Misspelt options of programs without types: they are rejected, not ignored.

import { expect, test, vi } from "vitest";
import { type HoldfastError, open, tool } from "../../src/index.ts";
import { altered } from "../journal/places.ts";

const anything = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;
const right = {
  name: "charge",
  description: "Charges.",
  input: anything,
  effect: "mutate",
  execute: () => "ok",
};
const declare = (more: object): unknown => tool({ ...right, ...more } as never);

/** The error's message and hint. */
async function refusalOf(act: () => unknown): Promise<string> {
  try {
    await act();
  } catch (error) {
    const { code, message, hint } = error as HoldfastError;
    expect(code).toBe("INPUT_INVALID");
    return `${message} | ${hint}`;
  }
  return "not refused";
}

test("tool() returns a valid declaration unchanged", () => {
  const more = { dedupe: { scope: "global", key: () => "k" }, idempotent: { forMs: 1 }, verify: undefined };
  expect(declare(more)).toEqual({ ...right, ...more });
  expect(() => declare({ idempotent: true, dedupe: "call", settleMs: 0, output: anything })).not.toThrow();
});

test.each([
  [{ dedupe: "gobal" }, 'dedupe is "gobal" | Did you mean global?'],
  [{ dedupe: { scope: "global" } }, "dedupe.key is undefined"],
  [{ dedupe: { scope: "call", key: () => "k" } }, 'dedupe.scope is "call"'],
  [{ effect: "delete" }, 'effect is "delete" | It has to be one of read, write, mutate'],
  [{ effect: undefined }, "effect is undefined"],
  [{ name: undefined }, "a tool has no name"],
  [{ execute: undefined }, "execute is undefined"],
  [{ exeucte: () => 1 }, 'has no option "exeucte" | Did you mean execute?'],
  [{ input: { type: "object" } }, "its input schema is no Standard Schema"],
  [{ input: undefined }, "its input schema is missing"],
  [{ idempotent: "yes" }, 'idempotent is "yes"'],
  [{ idempotent: { forMS: 1 } }, 'idempotent has no option "forMS" | Did you mean forMs?'],
  [{ idempotent: { forMs: "1h" } }, 'forMs is "1h"'],
  [{ settleMs: Number.NaN }, "settleMs is NaN"],
])("tool() rejects %o", async (more, words) => {
  expect(await refusalOf(() => declare(more))).toContain(words);
});

const model = async () => ({ message: { text: "done" } });

test.each([
  [{ budgt: { usd: 1 } }, 'has no option "budgt" | Did you mean budget?'],
  [{ promt: "x" }, "Did you mean prompt?"],
  [{ parallel: 0 }, "parallel is 0 | It has to be a whole number of 1 or more"],
  [{ parallel: Number.NaN }, "parallel is NaN"],
  [{ maxTurns: Number.NaN }, "maxTurns is NaN"],
  [{ deadlineMs: Number.NaN }, "deadlineMs is NaN"],
  [{ cadence: "turns" }, 'cadence is "turns" | Did you mean turn?'],
  [{ cadence: { turns: 0 } }, "turns is 0"],
  [{ model: undefined }, "model is undefined | It has to be a function"],
  [{ loop: { warnAt: 1, stopsAt: 2 } }, "Did you mean stopAt?"],
])("run rejects %o before it asks the model", async (more, words) => {
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  let asked = 0;
  const counting = async () => {
    asked += 1;
    return { message: { text: "done" } };
  };
  const options = { model: counting, prompt: "Go", ...more } as never;
  expect(await refusalOf(() => session.run(options))).toContain(words);
  expect(asked).toBe(0);
  expect(session.messages).toEqual([]);
  await holdfast.close();
});

test("open, session, fork, list and calls reject misspelt options", async () => {
  expect(await refusalOf(() => open("memory:", { namspace: "a" } as never))).toContain(
    "Did you mean namespace?",
  );
  expect(await refusalOf(() => open("memory:", { leaseMs: "1s" } as never))).toContain('leaseMs is "1s"');
  expect(await refusalOf(() => open("memory:", { leaseMs: Number.NaN }))).toContain("leaseMs is NaN");
  expect(await refusalOf(() => open(""))).toContain("is empty or not a string");
  expect(await refusalOf(() => open(42 as never))).toContain("come second");
  expect(await refusalOf(() => open({ readOnly: true } as never))).toContain("come second");
  expect(await refusalOf(() => open({ namspace: "a" } as never))).toContain("Did you mean namespace?");
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  await session.append({ role: "user", text: "a" }, { checkpoint: true });
  const refusals = {
    tittle: () => holdfast.session("t", { tittle: "x" } as never),
    versoin: () => session.fork("f", { versoin: 1 } as never),
    runing: () => holdfast.sessions.list({ status: "runing" as never }),
    maybe: () => holdfast.calls.resolve("c", { outcome: "maybe", by: "ann", why: "w" } as never),
    "by is undefined": () => holdfast.calls.resolve("c", { outcome: "landed" } as never),
    "sessions.cancel: by": () => holdfast.sessions.cancel("s", undefined as never),
    '"2"': () => session.at("2" as never),
    "a message is null": () => session.append(null as never),
    "messages is": () => session.save({ messages: {} as never }),
  };
  for (const [words, act] of Object.entries(refusals)) expect(await refusalOf(act)).toContain(words);
  expect((await holdfast.sessions.list()).sessions.map(({ id }) => id)).toEqual(["s"]);
  await holdfast.close();
});

test.each([
  { keep: Number.NaN },
  { keep: "all" },
  { keep: -1 },
  { keep: 0, dryrun: true },
  { olderThanMs: Number.NaN },
  { olderThanMs: null },
  { olderThanMs: -1 },
  { status: "complete" },
])("prune with %o removes nothing", async (options) => {
  const holdfast = await open("memory:");
  for (const id of ["a", "b", "c"]) await (await holdfast.session(id)).close();
  expect(await refusalOf(() => holdfast.sessions.prune(options as never))).not.toBe("not refused");
  expect((await holdfast.sessions.list()).sessions).toHaveLength(3);
  await holdfast.close();
});

test("an empty HOLDFAST_STORE names nothing", async () => {
  vi.stubEnv("HOLDFAST_STORE", "");
  // The default is rejected on such a platform, so that this test creates no store in the project.
  vi.stubEnv("VERCEL", "1");
  await expect(open()).rejects.toMatchObject({ code: "STORE_NOT_DURABLE" });
  vi.unstubAllEnvs();
});

test("the returned transcript is frozen", async () => {
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  await session.run({ model, prompt: "Go" });
  const before = session.messages;
  expect(() => (before as unknown[]).push({ id: "m", role: "user", blocks: [] })).toThrow(TypeError);
  expect(session.messages).toBe(before);
  await session.append({ role: "user", text: "More" });
  expect(session.messages).toHaveLength(before.length + 1);
  await holdfast.close();
});

test("closing the store while a session is being opened releases it", async () => {
  const first = await open("memory:");
  const { store } = first.journal;
  let taken = 0;
  for (let ticks = 0; ticks < 30; ticks++) {
    const own = altered(store, { close: async () => undefined });
    const holdfast = await open(undefined, { store: own });
    const opening = holdfast.session(`s-${ticks}`).then(
      () => "taken",
      (error: HoldfastError) => error.code,
    );
    for (let tick = 0; tick < ticks; tick++) await Promise.resolve();
    await holdfast.close();
    const outcome = await opening;
    if (outcome === "taken") taken += 1;
    else expect(outcome).toBe("STORE_CLOSED");
    const again = await first.session(`s-${ticks}`, { ifHeld: "throw" });
    await again.close();
  }
  expect(taken).toBeGreaterThan(0);
  await first.close();
});
