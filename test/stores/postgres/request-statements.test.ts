// Requests and turns cost few statements: with a server elsewhere, each is a round trip (decision 029).

import pg from "pg";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Holdfast, Journal, type Model } from "../../../src/index.ts";
import type { Store } from "../../../src/store.ts";
import { callBlock, counting, script, type World } from "../../ledger/bench.ts";
import { TestSchema } from "./schema.ts";

let schema: TestSchema;
let pool: pg.Pool;
let holdfast: Holdfast;
let statements: string[] = [];

beforeEach(async () => {
  schema = new TestSchema();
  pool = new pg.Pool({ connectionString: schema.url, max: 4 });
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown;
    client.query = ((...args: unknown[]) => {
      const [first] = args as [string | { text: string }];
      statements.push(typeof first === "string" ? first : first.text);
      return query(...args);
    }) as typeof client.query;
  });
  holdfast = new Holdfast(new Journal({ store: unwatched(await schema.open({ pool })) }));
});

/** Without polls, which depend on how long a run takes. Nothing waits for them. */
function unwatched(store: Store): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === "watch") return () => () => undefined;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

afterEach(async () => {
  await holdfast.close();
  await schema.dispose();
  await pool.end();
});

/** Without hints for other processes, which are sent later, for many changes at once. */
function ownStatements(): string[] {
  return statements.filter((each) => !each.includes("pg_notify"));
}

test("a request to a new session and to one that was left costs at most four statements", async () => {
  for (const text of ["first", "second", "third"]) {
    statements = [];
    await holdfast.run("chat", { model: script(text), prompt: `Say ${text}.` });
    const own = ownStatements();
    expect(own.length).toBeLessThanOrEqual(4);
    expect(own.filter((each) => each.includes("append_"))).toHaveLength(2);
  }
});

test("requests that follow each other cost one read and two appends of the fast path", async () => {
  await holdfast.run("chat", { model: script("first"), prompt: "Say first." });
  for (const text of ["second", "third"]) {
    statements = [];
    await holdfast.run("chat", { model: script(text), prompt: `Say ${text}.` });
    const [read, ...appends] = ownStatements();
    expect(read).toContain("FROM");
    expect(appends).toEqual([1, 2].map(() => expect.stringContaining("append_single")));
  }
});

test.each([1, 5])("a turn with %i calls costs one statement per commit", async (count) => {
  const world: World = { effects: [] };
  const pay = counting(world, "pay");
  let turn = 0;
  const seen: string[][] = [];
  const model: Model = async () => {
    turn += 1;
    seen.push(ownStatements());
    statements = [];
    const usage = { usd: 0.01 };
    if (turn === 4) return { message: { text: "Paid." }, usage };
    const ids = Array.from({ length: count }, (_, index) => `c${turn}-${index}`);
    return { message: { blocks: ids.map((id) => callBlock(id, "pay", { id })) }, usage };
  };
  await holdfast.run("chat", { model, tools: [pay], prompt: "Pay.", budget: { usd: 1 } });
  expect(world.effects).toHaveLength(3 * count);
  const [, ...turns] = seen;
  expect(turns).toEqual(
    [1, 2, 3].map(() => [1, 2].map(() => expect.stringMatching(/append_(single|plain)/))),
  );
});
