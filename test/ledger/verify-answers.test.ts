/** A `verify` that returns no valid answer: the error quotes it, and a person decides. */

import { afterEach, expect, test, vi } from "vitest";
import { Holdfast, Journal, never } from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { skipWaits } from "../skip-waits.ts";
import { counting, fatal, type World } from "./bench.ts";

const LEASE_MS = 60_000;
const EXPECTED = "(expected landed(result), never(), notYet({ againInMs }) or unsure(why))";

afterEach(() => vi.restoreAllMocks());

test.each([
  ["the function instead of its answer", never, "function"],
  ["nothing", undefined, "(nothing)"],
  ["a word", "landed", '"landed"'],
  ["another answer", { answer: "perhaps" }, '{"answer":"perhaps"}'],
])("%s", async (_what, given, shown) => {
  const data = memoryData();
  let nowMs = 0;
  const program = () => {
    const clock = () => nowMs;
    const store = openMemory({ data, clock });
    return new Holdfast(new Journal({ store, now: clock, steady: clock, leaseMs: LEASE_MS }));
  };
  const world: World = { effects: [] };
  const verify = () => given as never;
  const first = program();
  const dying = fatal(world, "pay", { verify });
  const session = await first.session("a");
  session.call({ tool: dying.tool, args: {}, callId: "x" }).catch(() => undefined);
  await dying.reached;
  first.journal.leases.stop();
  nowMs += 10 * LEASE_MS;
  skipWaits([400, 1_600], (ms) => {
    nowMs += ms;
  });
  const second = program();
  const next = await second.session("a");
  await next.settle([counting(world, "pay", { verify })]);
  const { calls } = await second.calls.list();
  expect(calls).toMatchObject([
    { status: "waiting", why: `verify failed: verify returned ${shown} ${EXPECTED}` },
  ]);
  expect(world.effects).toHaveLength(1);
});
