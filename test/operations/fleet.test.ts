// The figures of `holdfast fleet`: of the time that was asked for, and a person's pause is no tool's latency.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { tool } from "../../src/ledger/index.ts";
import { open } from "../../src/open.ts";
import { Context, OPERATIONS, perform } from "../../src/operations/index.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-fleet-figures-"));
const store = join(folder, "store.db");
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
const anything = {
  "~standard": {
    version: 1 as const,
    vendor: "test",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
};

/** A session with one call, which a person answers after `waitMs`. */
async function callAnswered(
  id: string,
  clock: { at: number },
  { name, waitMs, tookMs, fails }: { name: string; waitMs: number; tookMs: number; fails: boolean },
): Promise<void> {
  const holdfast = await open(store, { now: () => clock.at });
  const session = await holdfast.session(id, { goal: "checkout" });
  const asked = tool({
    ...{ name, description: "Part of a shop", effect: "mutate", input: anything, needsApproval: !fails },
    execute: () => {
      clock.at += tookMs;
      if (fails) throw new Error("socket hang up");
      return { ok: true };
    },
  });
  const options = {
    tools: [asked],
    prompt: { id: "go", text: "go" },
    budget: { usd: 10 },
    model: async ({ messages }: { messages: readonly { role: string }[] }) => {
      const usage = { usd: 0.25, tokens: 100 };
      const call = { kind: "tool_call", id: "c_1", name, args: {} } as const;
      return messages.at(-1)?.role === "tool"
        ? { message: { text: "done", meta: { model: "large-2" } }, usage }
        : { message: { blocks: [call], meta: { model: "large-2" } }, usage };
    },
  };
  expect(await session.run(options)).toMatchObject({ status: "waiting" });
  clock.at += waitMs;
  const which = { session: id, callId: "c_1" };
  if (fails) await holdfast.calls.resolve(which, { outcome: "landed", result: {}, by: "ann", why: "seen" });
  else await holdfast.calls.approve(which, { by: "ann" });
  expect(await session.run(options)).toMatchObject({ status: "done" });
  await session.close();
  await holdfast.close();
}

test("a wait for a person is no part of a tool's latency, and only the asked time counts", async () => {
  const now = Date.now();
  const refund = { name: "refund", waitMs: 10 * MINUTE, tookMs: 40, fails: false };
  await callAnswered("old", { at: now - 3 * DAY }, { ...refund, tookMs: 900 });
  await callAnswered("approved", { at: now - 30 * MINUTE }, refund);
  const lost = { name: "charge", waitMs: 2 * MINUTE, tookMs: 5, fails: true };
  await callAnswered("lost", { at: now - 30 * MINUTE }, lost);
  const by = { name: "ann", role: "human" } as const;
  const context = await Context.of({ store, by, caller: "person" });
  const operation = OPERATIONS.get("fleet");
  if (!operation) throw new Error("no operation fleet");
  const day = await perform(operation, context, { hours: 24 });
  expect(day).toMatchObject({
    sampled: 2,
    isSample: false,
    tools: expect.arrayContaining([
      { tool: "refund", calls: 1, p50Ms: 40, p99Ms: 40, unknown: 0, failed: 0 },
      { tool: "charge", calls: 1, p50Ms: null, p99Ms: null, unknown: 1, failed: 0 },
    ]),
    humanWait: { answers: 2, p50Ms: 10 * MINUTE, p99Ms: 10 * MINUTE },
  });
  const { spending } = day as { spending: { usd: number; by: Record<string, Record<string, number>> }[] };
  const sums: Record<string, number> = {};
  for (const { by: parts } of spending)
    for (const names of Object.values(parts))
      for (const [name, usd] of Object.entries(names)) sums[name] = (sums[name] ?? 0) + usd;
  expect(sums).toEqual({ checkout: 1, "large-2": 1, refund: 0.25, charge: 0.25, "no tool": 0.5 });
  const week = await perform(operation, context, { hours: 168 });
  expect(week).toMatchObject({ sampled: 3, humanWait: { answers: 3 } });
  const { tools } = week as { tools: { tool: string }[] };
  expect(tools.find((each) => each.tool === "refund")).toMatchObject({ calls: 2, p50Ms: 900, p99Ms: 900 });
  await context.close();
});
