// A batch may write several streams. The keys of each of its writes count, wherever in the batch they stand.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Store, Write } from "../../src/store.ts";
import type { Opened } from "../../src/testing/index.ts";
import { storeSubjects } from "../subjects.ts";
import { append, write } from "./sqlite/acts.ts";

describe.each(storeSubjects())("on $name", (subject) => {
  let place: Opened;
  let store: Store;
  beforeEach(async () => {
    place = await subject.open();
    store = place.store;
  });
  afterEach(() => place.dispose());
  afterAll(() => subject.dispose());

  const claiming = (key: string): Partial<Write> => ({ claims: [{ key, event: 0 }] });

  test.each([0, 1, 2])(
    "the key of write %i of three is claimed, refused to others, and released",
    async (at) => {
      /** Three writes, of which one has `parts`. */
      const batch = (name: string, seq: number, parts: Partial<Write>): Write[] =>
        [0, 1, 2].map((index) => write(`session/${name}-${index}`, seq, [name], index === at ? parts : {}));
      expect(await append(store, ...batch("first", 0, claiming("k")))).toMatchObject({ outcome: "ok" });
      const by = { stream: `session/first-${at}`, seq: 1 };
      expect(await append(store, ...batch("second", 0, claiming("k")))).toMatchObject({
        outcome: "taken",
        key: "k",
        by,
      });
      expect(await append(store, ...batch("first", 1, { releases: ["k"] }))).toMatchObject({ outcome: "ok" });
      expect(await append(store, ...batch("second", 0, claiming("k")))).toMatchObject({ outcome: "ok" });
    },
  );
});
