/** Effects that land late: while an answer is on its way, and after the lease is gone. */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  type Block,
  type Holdfast,
  isHoldfastError,
  landed,
  type Model,
  notYet,
  open,
  type StandardSchema,
  type Tool,
  tool,
} from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/testing/index.ts";

const anything: StandardSchema<unknown, unknown> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
};

const model: Model = async ({ messages }) => {
  const call: Block = { kind: "tool_call", id: "c1", name: "pay", args: {} };
  const answered = messages.some((message) => message.role === "assistant");
  return { message: answered ? { text: "paid" } : { blocks: [call] } };
};

let data: ReturnType<typeof memoryData>;
let holdfast: Holdfast;
let nowMs: number;
/** The periodic lease work of the process, for a test that cannot wait for it. */
let heartbeats: (() => void)[];
beforeEach(async () => {
  data = memoryData();
  nowMs = Date.UTC(2026, 0, 1);
  heartbeats = [];
  const every = globalThis.setInterval;
  const noted = (act: () => void, ms?: number) => {
    heartbeats.push(act);
    return every(act, ms);
  };
  vi.spyOn(globalThis, "setInterval").mockImplementation(noted as typeof setInterval);
  holdfast = await open(undefined, { store: openMemory({ data }), now: () => nowMs });
});
afterEach(async () => {
  vi.restoreAllMocks();
  await holdfast.close();
});

test("an effect that lands while verify's answer is on its way is not taken for missing", async () => {
  const effects: string[] = [];
  let questions = 0;
  const settleMs = 150;
  const pay = tool<unknown, string>({
    name: "pay",
    description: "pays, but its answer is lost",
    input: anything,
    effect: "mutate",
    settleMs,
    execute: () => {
      if (effects.length > 0 || questions > 0) effects.push("doubled");
      throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
    },
    verify: async () => {
      questions++;
      const found = effects.length > 0;
      if (found) return landed("paid");
      // Looked up in time, before the effect arrived; the answer takes longer than the settling.
      effects.push("paid");
      nowMs += settleMs + 50;
      return notYet({ againInMs: 1 });
    },
  });
  const session = await holdfast.session("s");
  const result = await session.run({ model, tools: [pay as Tool], prompt: "go" });
  expect(result.status).toBe("done");
  expect(effects).toEqual(["paid"]);
});

test("an attempt that outlives its lease still records its own answer", async () => {
  let answer: (value: string) => void = () => undefined;
  const reached = new Promise<void>((started) => {
    const pay = tool<unknown, string>({
      name: "pay",
      description: "pays, and does not listen to the signal",
      input: anything,
      effect: "mutate",
      execute: () => {
        started();
        return new Promise((resolve) => {
          answer = resolve;
        });
      },
    });
    running = holdfast
      .session("s")
      .then((session) => session.run({ model, tools: [pay as Tool], prompt: "go" }))
      .catch((error: unknown) => error);
  });
  await reached;
  const { leases } = holdfast.journal;
  const holder = {
    owner: "other",
    label: "other",
    host: "h",
    pid: 1,
    started: null,
    boot: null,
    pidNamespace: null,
  };
  const request = {
    act: "take",
    namespace: "default",
    name: "session/s",
    holder,
    ttlMs: leases.ttlMs,
  } as const;
  await holdfast.journal.store.lease({ ...request, evict: 1 });
  for (const beat of heartbeats) beat();
  expect(isHoldfastError(await running, "LEASE_LOST")).toBe(true);
  const settled = new Promise<void>((resolve) => {
    const unwatch = holdfast.journal.watch("session/s", () => {
      unwatch();
      resolve();
    });
  });
  answer("receipt 7");
  await settled;
  const { calls } = await holdfast.sessions.get("s");
  expect(calls[0]).toMatchObject({ status: "completed", settledBy: "late", result: { value: "receipt 7" } });
});

let running: Promise<unknown>;
