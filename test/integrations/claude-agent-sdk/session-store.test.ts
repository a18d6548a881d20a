// The SDK's SessionStore on every store: each line once, in order, and none dropped.

import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import {
  HoldfastSessionStore,
  type SessionStoreEntry,
} from "../../../src/integrations/claude-agent-sdk/index.ts";
import { HoldfastError } from "../../../src/model/errors.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { storeSubjects } from "../../subjects.ts";

const KEY = { projectKey: "-shop", sessionId: "8e03ba8d-0d7a-4c91-9c98-000000000001" };
const line = (uuid: string): SessionStoreEntry => ({
  type: "user",
  uuid,
  message: { content: [uuid, "ü\u0000"] },
});
const title: SessionStoreEntry = { type: "title", title: "Orders" };

describe.each(storeSubjects())("on $name", (subject) => {
  let made: Opened;
  let holdfast: Holdfast;
  let store: HoldfastSessionStore;
  beforeEach(async () => {
    made = await subject.open();
    holdfast = await open(undefined, { store: made.store });
    store = new HoldfastSessionStore(holdfast);
  });
  afterEach(() => made.dispose());
  afterAll(() => subject.dispose());

  const elsewhere = async () =>
    new HoldfastSessionStore(await open(undefined, { store: await made.another() }));

  test("every process reads the lines in order, and a line sent twice is stored once", async () => {
    expect(await store.load(KEY)).toBeNull();
    await store.append(KEY, [line("a"), title]);
    await store.append(KEY, [line("a"), line("b"), line("b"), title]);
    const other = await elsewhere();
    await other.append(KEY, [line("b"), line("c")]);
    const all = [line("a"), title, line("b"), title, line("c")];
    expect(await other.load(KEY)).toEqual(all);
    expect(await store.load(KEY)).toEqual(all);
  });

  test("batches of two processes that append in parallel are all there, each whole", async () => {
    const other = await elsewhere();
    await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        (n % 2 ? store : other).append(KEY, [line(`${n}a`), line(`${n}b`)]),
      ),
    );
    const uuids = ((await store.load(KEY)) ?? []).map(({ uuid }) => uuid as string);
    expect(uuids).toHaveLength(16);
    for (const [index, uuid] of uuids.entries())
      if (uuid.endsWith("a")) expect(uuids[index + 1]).toBe(uuid.replace("a", "b"));
  });

  test("transcripts of sub-agents are apart, and are removed with their session", async () => {
    await store.append(KEY, [line("main")]);
    await store.append({ ...KEY, subpath: "subagents/agent-1" }, [line("main"), line("sub")]);
    await store.append({ ...KEY, projectKey: "-other" }, [line("other")]);
    expect(await store.listSubkeys(KEY)).toEqual(["subagents/agent-1"]);
    expect(await store.load({ ...KEY, subpath: "subagents/agent-1" })).toHaveLength(2);
    const [listed, ...more] = await store.listSessions(KEY.projectKey);
    expect([listed?.sessionId, Number.isInteger(listed?.mtime), more]).toEqual([KEY.sessionId, true, []]);
    await store.delete(KEY);
    const other = await elsewhere();
    expect([await other.load(KEY), await other.listSubkeys(KEY)]).toEqual([null, []]);
    expect(await other.load({ ...KEY, projectKey: "-other" })).toEqual([line("other")]);
    await other.append(KEY, [line("again")]);
    expect(await other.load(KEY)).toEqual([line("again")]);
  });
});

test("a batch is not dropped while the store is busy, and the next one waits for it", async () => {
  const holdfast = await open("memory:");
  const store = new HoldfastSessionStore(holdfast);
  await store.append(KEY, [line("a")]);
  const append = vi.spyOn(holdfast.journal.store, "append");
  // More failures than the SDK's three tries.
  for (let failure = 0; failure < 4; failure++)
    append.mockImplementationOnce(() => {
      throw new HoldfastError("STORE_BUSY", "store: busy (free)", { hint: "Wait." });
    });
  await Promise.all([store.append(KEY, [line("b")]), store.append(KEY, [line("c")])]);
  expect(append.mock.calls.length).toBeGreaterThan(4);
  expect((await store.load(KEY))?.map(({ uuid }) => uuid)).toEqual(["a", "b", "c"]);
  await holdfast.close();
});

test("entries that are no lines of a transcript are refused, and nothing is stored", async () => {
  const holdfast = await open("memory:");
  const store = new HoldfastSessionStore(holdfast);
  for (const entry of [{ uuid: "a" }, { type: "user", uuid: 7 }, "text", null])
    expect(() => store.append(KEY, [line("a"), entry as never])).toThrow(/entry 1/);
  expect(await store.load(KEY)).toBeNull();
  await holdfast.close();
});
