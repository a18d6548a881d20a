// Random histories on the store and on a very simple model must agree in every answer and in everything
// that can be read afterwards. A failure prints its seed, its path and the shortest history found.

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { afterAll, describe, expect, test } from "vitest";
import type { LeaseRow, Store } from "../../../src/store.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { FAULTS, withFault } from "./faulty-stores.ts";
import { openMemoryForTest } from "./memory-subject.ts";
import {
  type Act,
  HASHES,
  type Intention,
  intention,
  KEYS,
  LEASES,
  NAMESPACE,
  Requests,
  STREAMS,
} from "./random-acts.ts";
import { sqliteForTest } from "./sqlite-subject.ts";
import { StoreModel } from "./store-model.ts";

const TIME_LIMIT_MS = 5_000;
const RUNS_IN_MEMORY = process.env["HOLDFAST_FULL"] ? 300 : 60;
/**
 * The short form is for the first of two Node versions, where closing a store takes as long as ten
 * histories in memory.
 */
const RUNS_ON_SQLITE = process.env["HOLDFAST_FULL"] ? 180 : process.env["HOLDFAST_SHORT"] ? 20 : 30;
const sqlite = sqliteForTest();
afterAll(() => sqlite.dispose());

function onStore(store: Store, act: Act): unknown {
  switch (act.verb) {
    case "append":
      return store.append(act.batch);
    case "lease":
      return store.lease(act.request);
    case "remove":
      return store.remove(act.request);
    case "put":
      return store.put(act.request);
  }
}

function onModel(model: StoreModel, act: Act): unknown {
  switch (act.verb) {
    case "append":
      return model.append(act.batch);
    case "lease":
      return model.leaseAct(act.request);
    case "remove":
      return model.remove(act.request);
    case "put":
      return model.put(act.request);
  }
}

/** More than any short lease has left, and less than a long one loses here. */
const LONG_MS = 500_000;

/**
 * Only two facts about a lease's remaining time count: whether it has expired, and whether it is a long
 * one, which shows who won a race. A store may renew less often than it could.
 */
const plain = (value: unknown): unknown => judged(JSON.parse(JSON.stringify(value ?? null)));

/** Changes parsed JSON in place: a reviver takes longer than the store under test. */
function judged(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  for (const [name, each] of Object.entries(value)) {
    if (name === "remainingMs") {
      Object.assign(value, { remainingMs: each > LONG_MS ? "long" : each > 0 ? "short" : "none" });
    } else judged(each);
  }
  return value;
}

/** Compares first, because `expect` takes much longer to find no difference. */
function agree(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
}

/** Everything that can be read from the store. */
async function seen(store: Store): Promise<unknown> {
  const rows = await Promise.all(
    STREAMS.map(async (stream) => {
      const { stream: row, writes } = await store.read({ namespace: NAMESPACE, stream, after: 0 });
      const items = await store.list({
        of: "items",
        namespace: NAMESPACE,
        kind: "checkpoint",
        stream,
        limit: 9,
      });
      return {
        state: row.state,
        head: row.head,
        parent: row.state === "gone" ? null : row.parent,
        base: row.state === "gone" ? 0 : row.base,
        status: row.state === "live" ? row.facets.status : null,
        writes: writes.map(({ first, last, batch, payload, at }) => ({ first, last, batch, payload, at })),
        items: items.rows.map(({ id, doneAt }) => ({ id, doneAt })).sort((a, b) => (a.id < b.id ? -1 : 1)),
      };
    }),
  );
  const live = await store.list({ of: "streams", namespace: NAMESPACE, limit: 99 });
  const hidden = await store.list({ of: "streams", namespace: NAMESPACE, hidden: true, limit: 99 });
  const leases = await store.list({ of: "leases", namespace: NAMESPACE, limit: 99 });
  const keys = await store.list({ of: "keys", namespace: NAMESPACE, keys: KEYS });
  const artifacts = HASHES.map((hash) => store.get({ of: "artifact", namespace: NAMESPACE, hash }));
  return plain({
    rows,
    live: live.rows.map(({ stream }) => stream),
    hidden: hidden.rows.map(({ stream }) => stream),
    leases: leases.rows,
    keys: [...keys.rows].sort((a, b) => (a.key < b.key ? -1 : 1)),
    artifacts: (await Promise.all(artifacts)).map((found) => found !== null),
  });
}

/** Everything that can be read, by the model. */
function foreseen(model: StoreModel): unknown {
  const rows = STREAMS.map((stream) => {
    const state = model.state(stream);
    const { writes } = state === "gone" ? { writes: [] } : model.life(stream);
    const fork = state === "gone" ? undefined : model.parent(stream);
    return {
      state,
      head: model.head(stream),
      parent: fork ? { stream: fork.stream, generation: fork.generation } : null,
      base: fork?.seq ?? 0,
      status: state === "live" ? model.status(stream) : null,
      writes: writes.map(({ write: { expect: at, count, payload, at: time }, batch }) => {
        return { first: at.seq + 1, last: at.seq + count, batch, payload, at: time };
      }),
      items: model.items(stream).sort((a, b) => (a.id < b.id ? -1 : 1)),
    };
  });
  const changedAt = (stream: string) => model.life(stream).writes.at(-1)?.write.at ?? 0;
  const latest = model.streams().sort((a, b) => changedAt(b) - changedAt(a));
  return plain({
    rows,
    live: latest.filter((stream) => model.state(stream) === "live"),
    hidden: latest.filter((stream) => model.state(stream) !== "gone"),
    leases: [...LEASES, "erased/names"]
      .sort()
      .flatMap((name): LeaseRow | LeaseRow[] => model.leaseRow(name) ?? []),
    keys: model.keys().sort((a, b) => (a.key < b.key ? -1 : 1)),
    artifacts: HASHES.map((hash) => model.artifacts().has(hash)),
  });
}

/** Two acts at once must answer as in one order or the other. */
async function race(
  handles: readonly [Store, Store],
  acts: readonly [Act, Act],
  model: StoreModel,
): Promise<StoreModel> {
  const answers = plain(await Promise.all([onStore(handles[0], acts[0]), onStore(handles[1], acts[1])]));
  const forwards = model.copy();
  const inOrder = plain([onModel(forwards, acts[0]), onModel(forwards, acts[1])]);
  const backwards = model.copy();
  const reversed = plain([onModel(backwards, acts[1]), onModel(backwards, acts[0])].reverse());
  if (isDeepStrictEqual(answers, inOrder) && isDeepStrictEqual(await seen(handles[0]), foreseen(forwards))) {
    return forwards;
  }
  expect(answers).toEqual(reversed);
  return backwards;
}

async function live(opened: Opened, history: readonly Intention[]): Promise<void> {
  const handles: [Store, Store] = [await opened.another(), await opened.another()];
  const requests = new Requests();
  let model = new StoreModel();
  for (const step of history) {
    if (step.kind === "pass") {
      await opened.advanceMs?.(step.ms);
      model.now += step.ms;
    } else if (step.kind === "reopen") {
      await handles[step.handle].close();
      handles[step.handle] = await opened.another();
    } else if (step.kind === "race") {
      const [one, two] = step.requests;
      model = await race(handles, [requests.make(one, model), requests.make(two, model)], model);
    } else {
      const act = requests.make(step.request, model);
      const answer = await onStore(handles[step.handle], act);
      agree(plain(answer), plain(onModel(model, act)));
    }
    agree(await seen(handles[0]), foreseen(model));
  }
  agree(await seen(handles[1]), foreseen(model));
  expect(await handles[1].check()).toEqual([]);
}

/** Runs histories until time is up, and at least one: a slow machine is not a failure. */
function property(
  open: () => Promise<Opened>,
  limitMs = Number.POSITIVE_INFINITY,
): fc.IAsyncProperty<[Intention[]]> {
  const end = performance.now() + limitMs;
  let passed = 0;
  let isFailing = false;
  return fc.asyncProperty(fc.array(intention, { maxLength: 40, size: "max" }), async (history) => {
    if (passed > 0 && !isFailing && performance.now() > end) return;
    const opened = await open();
    try {
      await live(opened, history);
      passed += 1;
    } catch (error) {
      isFailing = true;
      throw error;
    } finally {
      await opened.dispose();
    }
  });
}

describe("a random history with two handles and reopening agrees with the model", () => {
  test("memory", async () => {
    await fc.assert(property(openMemoryForTest, TIME_LIMIT_MS), { numRuns: RUNS_IN_MEMORY });
  });

  test("sqlite", async () => {
    await fc.assert(property(sqlite.open, TIME_LIMIT_MS), { numRuns: RUNS_ON_SQLITE });
  });
});

describe("random histories notice that", () => {
  test.each([
    "a released key stays claimed",
    "removal frees keys",
    "the first write of a batch stays when the second is refused",
    "a resend is applied twice",
    "release forgets the token",
    "a parent is removed under its forks",
    "a guard looks at the clock",
    "collection takes artifacts that are referred to",
  ])("%s", async (name) => {
    const fault = FAULTS[name]?.fault;
    if (!fault) throw new Error(`there is no fault ${name}`);
    const faulty = property(() => openMemoryForTest((store, data) => withFault(store, data, fault)));
    const { failed, errorInstance } = await fc.check(faulty, { numRuns: 500, endOnFailure: true });
    expect(failed).toBe(true);
    expect(errorInstance).toMatchObject({ name: "AssertionError" });
  });
});
