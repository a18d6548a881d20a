/**
 * SQLite stores larger numbers than JavaScript can read. None is written, and an existing one harms nothing
 * else.
 */

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Journal } from "../../../src/journal/index.ts";
import type { Store, Write } from "../../../src/store.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { said, words } from "../../journal/words.ts";
import { TestFolder } from "./folder.ts";

const UNSAFE = Number.MAX_SAFE_INTEGER + 1;

let folder: TestFolder;
let store: Store;

beforeEach(async () => {
  folder = await TestFolder.make();
  store = await folder.open();
});

afterEach(() => folder.dispose());

const write: Write = {
  stream: "words/w",
  expect: { generation: 1, seq: 0 },
  count: 1,
  payload: "[]",
  codec: null,
  sum: 0,
  at: 1,
};

const item = { kind: "call", id: "c" };
const oversized: Readonly<Record<string, Partial<Write>>> = {
  at: { at: UNSAFE },
  "not even a number": { at: Number.NaN },
  expiresAt: { facets: { expiresAt: UNSAFE } },
  openCalls: { facets: { openCalls: UNSAFE } },
  "an item's time": { items: [{ ...item, at: UNSAFE }] },
  "an item's end": { items: [{ ...item, doneAt: -UNSAFE }] },
};

test.each(Object.entries(oversized))(
  "%s: a number that could not be read back is rejected",
  async (_name, part) => {
    const append = store.append({ id: "b", namespace: "default", writes: [{ ...write, ...part }] });
    await expect(append).rejects.toMatchObject({
      code: "BATCH_INVALID",
      message: expect.stringMatching(/read back/),
    });
    const { stream } = await store.read({ namespace: "default", stream: "words/w", after: 0 });
    expect(stream.state).toBe("gone");
  },
);

test.each([0, -5, 1_700_000_000_000.5, 1e-7, Number.MAX_SAFE_INTEGER])(
  "a time of %d is read back unchanged",
  async (at) => {
    await store.append({
      id: 'b "1" 2',
      namespace: "default",
      writes: [{ ...write, at, sum: 4_294_967_295 }],
    });
    const { writes } = await store.read({ namespace: "default", stream: "words/w", after: 0 });
    expect(writes).toEqual([
      { first: 1, last: 1, at, sum: 4_294_967_295, payload: "[]", codec: null, batch: 'b "1" 2' },
    ]);
  },
);

test("a number that another program wrote is reported, and the connection stays usable", async () => {
  const journal = new Journal({ store });
  const [hurt, sound] = [await journal.open(words, "hurt"), await journal.open(words, "sound")];
  await hurt.commit(() => said("one"));
  const stranger = await Connection.open(folder.file(), false);
  stranger.exec("UPDATE streams SET expires_at = 1 << 60 WHERE stream = 'words/hurt'");
  await stranger.close();
  const opening = vi.spyOn(Connection, "open");
  await expect(hurt.refresh()).rejects.toMatchObject({
    code: "STORE_CORRUPT",
    message: expect.stringMatching(/a value that JavaScript cannot read/),
  });
  await sound.commit(() => said("two"));
  expect((await journal.load(words, "sound")).state.list).toEqual(["two"]);
  expect(opening).not.toHaveBeenCalled();
  opening.mockRestore();
});
