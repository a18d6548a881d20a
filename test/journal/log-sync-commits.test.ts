// `commitMaybeSync` returns the outcome itself if the store answers at once and no other commit is under way.

import { beforeEach, expect, test } from "vitest";
import { Journal, type Log } from "../../src/journal/index.ts";
import type { Batch, Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { said, words } from "./words.ts";

const store = openMemory();
const journal = new Journal({ store });
let log: Log<{ list: string[] }>;

beforeEach(async () => {
  await journal.remove("words/w");
  log = await journal.open(words, "w");
});

test("a commit is synchronous if the store answers at once", () => {
  const outcome = log.commitMaybeSync(() => said("a"));
  expect(outcome).toMatchObject({ outcome: "ok", appended: true, head: { seq: 1 } });
  expect(log.state.list).toEqual(["a"]);
  expect(log.commitMaybeSync(() => ({ events: [], result: 7 }))).toMatchObject({
    result: 7,
    appended: false,
  });
});

test("a failure is a rejected promise, and the next commit works", async () => {
  const failing = log.commitMaybeSync(() => {
    throw new Error("undecided");
  });
  await expect(failing).rejects.toThrow("undecided");
  expect(log.commitMaybeSync(() => said("a"))).toMatchObject({ outcome: "ok" });
});

test("a commit from within `decide` runs after the outer commit", async () => {
  let inner: unknown;
  const outer = log.commitMaybeSync(() => {
    inner = log.commit((state) => said(`after ${state.list.length}`));
    return said("outer");
  });
  expect(outer).toMatchObject({ outcome: "ok" });
  expect(await inner).toMatchObject({ outcome: "ok", head: { seq: 2 } });
  expect(log.state.list).toEqual(["outer", "after 1"]);
});

test("a conflict makes the commit asynchronous and decides again", async () => {
  const other = await journal.open(words, "w");
  await log.commitMaybeSync(() => said("a"));
  const late = other.commitMaybeSync((state) => said(`b${state.list.length}`));
  expect(late).toBeInstanceOf(Promise);
  expect(await late).toMatchObject({ outcome: "ok", head: { seq: 2 } });
  expect(other.state.list).toEqual(["a", "b1"]);
});

test("commits during another commit keep their order", async () => {
  const other = await journal.open(words, "w");
  await log.commitMaybeSync(() => said("a"));
  const late = [other.commit(() => said("b")), other.commit(() => said("c")), other.commit(() => said("d"))];
  await Promise.all(late);
  expect(other.state.list).toEqual(["a", "b", "c", "d"]);
});

test("an append may return any thenable", async () => {
  const inner = openMemory();
  const foreign: Store = Object.create(inner, {
    append: {
      value: (batch: Batch) => ({
        // biome-ignore lint/suspicious/noThenProperty: the test needs a thenable
        then: (tell: (outcome: unknown) => void) => setImmediate(() => tell(inner.append(batch))),
      }),
    },
  });
  for (const verb of ["read", "get", "put", "list"] as const) {
    Object.defineProperty(foreign, verb, { value: inner[verb].bind(inner) });
  }
  const slow = await new Journal({ store: foreign }).open(words, "w");
  expect(await slow.commit(() => said("a"))).toMatchObject({ outcome: "ok", head: { seq: 1 } });
  expect(slow.state.list).toEqual(["a"]);
});
