import fc from "fast-check";
import { beforeEach, expect, test } from "vitest";
import { Journal, type Log } from "../../src/journal/index.ts";
import {
  type CompletedData,
  draftCheckpoint,
  draftCompleted,
  draftIssued,
  draftResults,
  type IssuedData,
  sessionKind,
} from "../../src/model/session/index.ts";
import { writeEvents } from "../../src/model/stream/index.ts";
import { isoTime } from "../../src/model/time.ts";
import type { Batch, Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { anyCodePoint } from "../any-code-point.ts";
import { said, words } from "./words.ts";

const store = openMemory();
const journal = new Journal({ store });
let log: Log<{ list: string[] }>;

beforeEach(async () => {
  await journal.remove("words/w");
  log = await journal.open(words, "w");
});

test("a commit is answered at once where the store does so", () => {
  const outcome = log.commitMaybeSync(() => said("a"));
  expect(outcome).toMatchObject({ outcome: "ok", appended: true, head: { seq: 1 } });
  expect(log.state.list).toEqual(["a"]);
  expect(log.commitMaybeSync(() => ({ events: [], result: 7 }))).toMatchObject({
    result: 7,
    appended: false,
  });
});

test("what fails at once is a promise that rejects, and the next commit goes on", async () => {
  const failing = log.commitMaybeSync(() => {
    throw new Error("undecided");
  });
  await expect(failing).rejects.toThrow("undecided");
  expect(log.commitMaybeSync(() => said("a"))).toMatchObject({ outcome: "ok" });
});

test("a commit within a decision comes after it, and waits for its turn", async () => {
  let inner: unknown;
  const outer = log.commitMaybeSync(() => {
    inner = log.commit((state) => said(`after ${state.list.length}`));
    return said("outer");
  });
  expect(outer).toMatchObject({ outcome: "ok" });
  expect(await inner).toMatchObject({ outcome: "ok", head: { seq: 2 } });
  expect(log.state.list).toEqual(["outer", "after 1"]);
});

test("a conflict is decided again, whoever answers how fast", async () => {
  const other = await journal.open(words, "w");
  await log.commitMaybeSync(() => said("a"));
  const late = other.commitMaybeSync((state) => said(`b${state.list.length}`));
  expect(late).toBeInstanceOf(Promise);
  expect(await late).toMatchObject({ outcome: "ok", head: { seq: 2 } });
  expect(other.state.list).toEqual(["a", "b1"]);
});

test("commits that come while one is under way keep their order", async () => {
  const other = await journal.open(words, "w");
  await log.commitMaybeSync(() => said("a"));
  const late = [other.commit(() => said("b")), other.commit(() => said("c")), other.commit(() => said("d"))];
  await Promise.all(late);
  expect(other.state.list).toEqual(["a", "b", "c", "d"]);
});

test("an append that is awaited, but is no promise of ours, is no outcome yet", async () => {
  const inner = openMemory();
  const foreign: Store = Object.create(inner, {
    append: {
      value: (batch: Batch) => ({
        // biome-ignore lint/suspicious/noThenProperty: that is what it is about
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

const text = fc.string({ unit: anyCodePoint, maxLength: 90 });
const json = fc.jsonValue({ depthSize: "small" });
const issued = fc.record({
  callId: text,
  messageId: fc.option(text),
  tool: text,
  effect: fc.constantFrom("read", "write", "mutate"),
  scope: fc.constantFrom("call", "session", "global"),
  args: json,
  key: text,
  vendorKey: text,
  failures: fc.nat(),
  attempt: fc.nat(),
  token: fc.nat(),
}) as fc.Arbitrary<IssuedData>;
const completed = fc.record(
  {
    callId: text,
    attempt: fc.nat(),
    result: fc.oneof(fc.record({ value: json }), fc.record({ artifact: text, bytes: fc.nat() })),
    by: fc.constantFrom("execute", "late", "person"),
    person: text,
    why: text,
  },
  { requiredKeys: ["callId", "attempt", "result", "by"] },
) as fc.Arbitrary<CompletedData>;
const drafts = fc.oneof(
  issued.map(draftIssued),
  completed.map(draftCompleted),
  fc
    .tuple(text, fc.nat(), fc.array(fc.record({ call: text })))
    .map(([id, at, blocks]) => draftResults(id, isoTime(at), blocks)),
  fc.tuple(fc.nat(), fc.option(text)).map(([version, label]) => draftCheckpoint(version, label)),
);

test("what the ledger writes of a call is what JSON.stringify makes of it", () => {
  fc.assert(
    fc.property(fc.array(drafts, { maxLength: 4 }), fc.nat(), (list, at) => {
      const { events, text } = writeEvents(sessionKind, list, at);
      expect(text.toString()).toBe(JSON.stringify(events));
    }),
  );
});

test("a time reads as a Date writes it", () => {
  const ms = fc.oneof(
    fc.integer({ min: -8.64e15, max: 8.64e15 }),
    fc.integer({ min: 0, max: 5_000 }),
    fc.double({ min: -1e13, max: 1e13, noNaN: true }),
  );
  fc.assert(fc.property(ms, (at) => isoTime(at) === new Date(at).toISOString()));
  expect(() => isoTime(Number.NaN)).toThrow(RangeError);
});
