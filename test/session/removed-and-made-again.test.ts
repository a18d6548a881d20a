/** A session is made, or removed and made again, while an operation on it is in progress. */

import { expect, test } from "vitest";
import { Holdfast, Journal } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { type MemoryData, memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "../journal/places.ts";
import { counting } from "../ledger/bench.ts";

const LEASE_MS = 60_000;

function program(data: MemoryData, store: Store = openMemory({ data })): Holdfast {
  return new Holdfast(new Journal({ store, leaseMs: LEASE_MS }));
}

/** The same store, with an act right before the first write to a stream. */
function before(data: MemoryData, stream: string, act: () => Promise<unknown>): Store {
  let isFirst = true;
  return altered(openMemory({ data }), {
    append: async (append, batch) => {
      if (isFirst && batch.writes[0]?.stream === stream) {
        isFirst = false;
        await act();
      }
      return append(batch);
    },
  });
}

test("a session that a fork makes while it is opened is not new", async () => {
  const data = memoryData();
  const other = program(data);
  const alpha = await other.session("alpha");
  await alpha.append({ role: "user", text: "hello" });
  const fork = () => other.sessions.fork("alpha", "beta");
  const beta = await program(data, before(data, "session/beta", fork)).session("beta");
  expect(beta.messages).toHaveLength(1);
  expect(beta.resumed).toMatchObject({ messages: 1 });
});

test("a session that is removed and made again during a fork is not forked at old positions", async () => {
  const data = memoryData();
  const other = program(data);
  const first = await other.session("alpha");
  await first.append({ role: "user", text: "old" }, { checkpoint: true });
  await first.close();
  let isFirst = true;
  const store = altered(openMemory({ data }), {
    read: async (read, request) => {
      if (isFirst && request.stream === "session/beta") {
        isFirst = false;
        await other.sessions.erase("alpha");
        const second = await other.session("alpha");
        for (const text of ["new", "newer", "newest"]) await second.append({ role: "user", text });
      }
      return read(request);
    },
  });
  await expect(program(data, store).sessions.fork("alpha", "beta")).rejects.toMatchObject({
    code: "STREAM_NOT_FOUND",
  });
});

const broken = counting({ effects: [] }, "pay", { execute: () => Promise.reject(new Error("no answer")) });

async function withWaitingCall(holdfast: Holdfast): Promise<void> {
  const session = await holdfast.session("alpha");
  await session.call({ tool: broken, args: {}, callId: "x" });
  await session.close();
}

test("a person's answer does not reach a new session of the same name", async () => {
  const data = memoryData();
  const other = program(data);
  await withWaitingCall(other);
  const store = before(data, "session/alpha", async () => {
    await other.calls.resolve("x", { outcome: "failed", by: "bob", why: "no" });
    await other.sessions.erase("alpha");
    await withWaitingCall(other);
  });
  const answer = { outcome: "landed", result: "paid", by: "ada", why: "saw it" } as const;
  await expect(program(data, store).calls.resolve("x", answer)).rejects.toMatchObject({
    code: "STREAM_NOT_FOUND",
  });
  expect((await other.calls.list()).calls).toHaveLength(1);
});

test("a late answer does not reach a new session of the same name", async () => {
  const data = memoryData();
  let nowMs = 0;
  const open = () =>
    new Holdfast(new Journal({ store: openMemory({ data, clock: () => nowMs }), leaseMs: LEASE_MS }));
  const late = open();
  const zombie = await late.session("alpha");
  let answer = (): void => undefined;
  let begin = (): void => undefined;
  const begun = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const slow = counting({ effects: [] }, "pay", {
    execute: () =>
      new Promise((resolve) => {
        answer = () => resolve("of the first life");
        begin();
      }),
  });
  const told = zombie.call({ tool: slow, args: {}, callId: "x" });
  await begun;
  late.journal.leases.stop();
  nowMs += 10 * LEASE_MS;
  const other = open();
  const next = await other.session("alpha");
  await next.settle([broken]);
  await next.close();
  await other.calls.resolve("x", { outcome: "failed", by: "bob", why: "no" });
  await other.sessions.erase("alpha");
  await withWaitingCall(other);
  await zombie.refresh();
  answer();
  await Promise.allSettled([told]);
  expect((await other.sessions.get("alpha")).calls).toMatchObject([{ callId: "x", status: "waiting" }]);
});

test("a version is not loaded from a new session of the same name", async () => {
  const data = memoryData();
  const other = program(data);
  const first = await other.session("alpha");
  for (const text of ["one", "two", "three"]) await first.append({ role: "user", text });
  await first.checkpoint();
  await first.close();
  let isFirst = true;
  const store = altered(openMemory({ data }), {
    list: async (list, request) => {
      const page = await list(request as never);
      if (isFirst && request.of === "items") {
        isFirst = false;
        await other.sessions.erase("alpha");
        const second = await other.session("alpha");
        await second.append({ role: "user", text: "new" }, { checkpoint: true });
        for (const text of ["newer", "newest", "last"]) await second.append({ role: "user", text });
      }
      return page;
    },
  });
  const told = await program(data, store)
    .sessions.at("alpha", 1)
    .then(
      ({ messages }) => messages.length,
      ({ code }: { code: string }) => code,
    );
  expect(told).toBe("VERSION_NOT_FOUND");
});
