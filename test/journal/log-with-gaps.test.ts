// A store that loses a row must not make a shorter history: the log is read without gaps, or not at all.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import type { ReadPage, StoredWrite } from "../../src/store.ts";
import { altered, PLACES, type Place } from "./places.ts";
import { said, words } from "./words.ts";

const DAMAGES: Readonly<Record<string, (writes: readonly StoredWrite[]) => readonly StoredWrite[]>> = {
  "without its first write": (writes) => writes.slice(1),
  "without a write in the middle": (writes) => writes.filter((_, index) => index !== 1),
  "with a write that holds fewer events than its row says": (writes) =>
    writes.map((write, index) => (index === writes.length - 1 ? { ...write, last: write.last + 1 } : write)),
};

describe.each(Object.entries(PLACES))("on %s", (_, makePlace) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
    const log = await new Journal({ store: place.store }).open(words, "w");
    for (const word of ["one", "two", "three"]) await log.commit(() => said(word));
  });
  afterEach(() => place.dispose());

  test.each(Object.entries(DAMAGES))("a log %s is corrupt", async (_name, damage) => {
    const damaged = altered(place.store, {
      read: async (read, request) => {
        const page: ReadPage = await read(request);
        return { ...page, writes: damage(page.writes) };
      },
    });
    const journal = new Journal({ store: damaged });
    await expect(journal.load(words, "w")).rejects.toMatchObject({
      code: expect.stringMatching(/^(EVENT|STORE)_CORRUPT$/),
    });
    await expect(journal.open(words, "w")).rejects.toMatchObject({
      code: expect.stringMatching(/^(EVENT|STORE)_CORRUPT$/),
    });
  });

  test("a whole log is read in its order", async () => {
    const { state } = await new Journal({ store: place.store }).load(words, "w");
    expect(state.list).toEqual(["one", "two", "three"]);
  });
});
