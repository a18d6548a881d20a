/** Errors that look as if nothing had happened, although the effect landed. */

import { afterEach, expect, test, vi } from "vitest";
import { Holdfast, Journal, landed, never, notYet, type ToolSpec, unsure } from "../../src/index.ts";
import { openMemory } from "../../src/testing/index.ts";
import { callBlock, counting, script, type World } from "./bench.ts";

const holdfast = new Holdfast(new Journal({ store: openMemory() }));

afterEach(() => vi.restoreAllMocks());

const REFUSED = { code: "ECONNREFUSED" };
const NOT_FOUND = { status: 404 };

interface Vendor extends World {
  /** The charged keys. A vendor that honours keys charges each one once. */
  readonly charged: Set<string>;
}

/** Charges, and then fails with the error of a second request. */
function charge(vendor: Vendor, error: object, spec: Partial<ToolSpec<Record<string, unknown>, unknown>>) {
  return counting(vendor, "charge", {
    ...spec,
    execute: (_args, { key }) => {
      vendor.effects.push(key);
      vendor.charged.add(key);
      if (vendor.effects.length === 1) throw Object.assign(new Error("the second request failed"), error);
      return "charged";
    },
  });
}

let sessions = 0;

async function run(vendor: Vendor, error: object, spec: Partial<ToolSpec<Record<string, unknown>, unknown>>) {
  const session = await holdfast.session(`s${sessions++}`);
  const model = script([callBlock("c1", "charge", { usd: 5 })], [callBlock("c2", "charge", { usd: 5 })]);
  const tools = [charge(vendor, error, spec)];
  const result = await session.run({ model, tools, prompt: "go" });
  return { result, calls: session.openCalls.map(({ callId: id }) => id) };
}

const newVendor = (): Vendor => ({ effects: [], charged: new Set() });

test.each([REFUSED, NOT_FOUND])("a vendor that honours keys charges once (%j)", async (error) => {
  const vendor = newVendor();
  const { result } = await run(vendor, error, { idempotent: true });
  expect(result.status).toBe("done");
  expect(vendor.effects).toHaveLength(2);
  expect(vendor.charged.size).toBe(1);
});

test.each([REFUSED, NOT_FOUND])("definite: false has the last word (%j)", async (error) => {
  const vendor = newVendor();
  const { result } = await run(vendor, error, { definite: () => false });
  expect(result).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: true }] });
  expect(vendor.effects).toHaveLength(1);
});

test("undefined from definite leaves the decision to the error's shape", async () => {
  const vendor = newVendor();
  const { result } = await run(vendor, NOT_FOUND, { definite: () => undefined });
  expect(result.status).toBe("done");
  expect(vendor.charged.size).toBe(1);
});

test("verify is asked first, and a landed effect is completed", async () => {
  const vendor = newVendor();
  const verify = vi.fn(() => landed("charged after all"));
  const { result } = await run(vendor, NOT_FOUND, { verify });
  expect(result.status).toBe("done");
  expect(verify).toHaveBeenCalledTimes(1);
  // The second call is the same and is finished.
  expect(vendor.effects).toHaveLength(1);
});

test("verify: never makes it a failure that the model sees", async () => {
  const vendor = newVendor();
  const { result } = await run(vendor, NOT_FOUND, { verify: () => never() });
  expect(result.status).toBe("done");
  expect(vendor.effects).toHaveLength(2);
  expect(vendor.charged.size).toBe(2);
});

test.each([
  ["unsure", () => unsure("the index lags")],
  ["notYet", () => notYet({ againInMs: 3_600_000 })],
])("verify: %s leaves it unknown, and nothing runs again", async (_answer, verify) => {
  const vendor = newVendor();
  const { result } = await run(vendor, NOT_FOUND, { verify });
  expect(result.status).toBe("waiting");
  expect(vendor.effects).toHaveLength(1);
});
