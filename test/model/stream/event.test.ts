import { expect, test } from "vitest";
import { z } from "zod";
import { Journal, payloadSum } from "../../../src/journal/index.ts";
import type { Json } from "../../../src/model/json.ts";
import { applyEvent, event, makeEvent, type StreamKind } from "../../../src/model/stream/index.ts";
import { openMemory } from "../../../src/stores/memory/index.ts";

interface Prices {
  cents: number[];
  currencies: string[];
}

type Priced = { cents: number; currency: string };

/** An event whose data was once `{ dollars }`, then `{ cents }`, and now names its currency. */
const prices: StreamKind<Prices> = {
  kind: "prices",
  foldVersion: 1,
  events: {
    priced: event(
      3,
      z.strictObject({ cents: z.int(), currency: z.string() }),
      (state: Prices, { cents, currency }: Priced) => {
        state.cents.push(cents);
        state.currencies.push(currency);
      },
      {
        1: (data) => ({ cents: Math.round((data as { dollars: number }).dollars * 100) }),
        2: (data) => ({ ...(data as { cents: number }), currency: "USD" }),
      },
    ),
    gap: event(3, z.strictObject({}), () => undefined, { 2: (data) => data }),
  },
  initial: () => ({ cents: [], currencies: [] }),
  encode: (state) => ({ ...state }) as unknown as Json,
  decode: (json) => structuredClone(json) as unknown as Prices,
};

function fold(...events: { type: string; v: number; data: unknown }[]): Prices {
  const state = prices.initial();
  for (const [index, each] of events.entries()) applyEvent(prices, state, { at: 0, ...each }, index + 1);
  return state;
}

test("an older version of an event goes through every upcast", () => {
  const state = fold(
    { type: "priced", v: 1, data: { dollars: 1.1 } },
    { type: "priced", v: 2, data: { cents: 220 } },
    { type: "priced", v: 3, data: { cents: 330, currency: "EUR" } },
  );
  expect(state).toEqual({ cents: [110, 220, 330], currencies: ["USD", "USD", "EUR"] });
});

test("a newer version of an event is rejected", () => {
  const act = () => fold({ type: "priced", v: 4, data: { cents: 1, currency: "EUR" } });
  expect(act).toThrow(expect.objectContaining({ code: "EVENT_TOO_NEW" }));
  expect(act).toThrow(/version 4 \(this release knows 3\)/);
});

test("an unknown type of event is rejected, even `toString`", () => {
  for (const type of ["reprised", "toString", "__proto__"]) {
    expect(() => fold({ type, v: 1, data: {} })).toThrow(expect.objectContaining({ code: "EVENT_UNKNOWN" }));
    const draft = { type, data: {} };
    expect(() => makeEvent(prices, draft, 0)).toThrow(expect.objectContaining({ code: "EVENT_UNKNOWN" }));
  }
});

test("a missing upcast is an error that asks for a report", () => {
  const act = () => fold({ type: "gap", v: 1, data: {} });
  expect(act).toThrow(expect.objectContaining({ code: "EVENT_CORRUPT" }));
});

test("a stream with old and new events loads; one with a newer version does not", async () => {
  const store = openMemory();
  const journal = new Journal({ store });
  const write = async (seq: number, v: number, data: unknown) => {
    const payload = JSON.stringify([{ type: "priced", v, at: 1, data }]);
    const expected = { generation: 1, seq };
    const sum = payloadSum(payload);
    const stored = { stream: "prices/p", expect: expected, count: 1, payload, codec: null, sum, at: 1 };
    await store.append({ id: String(seq), namespace: "default", writes: [stored] });
  };
  await write(0, 1, { dollars: 2 });
  const log = await journal.open(prices, "p");
  await log.commit(() => ({
    events: [{ type: "priced", data: { cents: 5, currency: "EUR" } }],
    result: null,
  }));
  expect((await journal.load(prices, "p")).state.cents).toEqual([200, 5]);
  await write(2, 9, { cents: 1 });
  await expect(journal.load(prices, "p")).rejects.toMatchObject({ code: "EVENT_TOO_NEW" });
  expect((await journal.load(prices, "p", 2)).state.cents).toEqual([200, 5]);
  expect(await journal.check(prices, "prices/p")).toContainEqual(
    expect.objectContaining({ invariant: "I10", where: "prices/p" }),
  );
});
