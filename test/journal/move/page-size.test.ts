// A move holds one page in memory at a time, so a page of large rows has few. The memory store needs no
// limit.

import { afterAll, describe, expect, test } from "vitest";
import { sha256 } from "../../../src/model/digest.ts";
import type { MovedRow, Moving, Store } from "../../../src/store.ts";
import { append, NAMESPACE, write } from "../../stores/sqlite/acts.ts";
import { storeSubjects } from "../../subjects.ts";

const subjects = storeSubjects().filter(({ name }) => name !== "memory");
afterAll(async () => {
  await Promise.all(subjects.map((subject) => subject.dispose()));
});

const LARGE = 3_000_000;
const COUNT = 4;
/** Eight megabytes, and the row that exceeds them. */
const PAGE_BYTES = 8 * 1024 * 1024 + LARGE;

const sizeOf = (row: MovedRow): number =>
  row.of === "artifact" ? row.bytes.length : row.of === "write" ? row.payload.length : 0;

async function pages(moving: Moving): Promise<(readonly MovedRow[])[]> {
  const all: (readonly MovedRow[])[] = [];
  for (let cursor: string | null = null; ; ) {
    const page = await moving.dump(cursor);
    all.push(page.rows);
    if (page.cursor === null) return all;
    cursor = page.cursor;
  }
}

async function fill(store: Store): Promise<string[]> {
  const names: string[] = [];
  // Small ones between the large, so that pages end in different places.
  for (let number = 0; number < COUNT; number++) {
    for (const size of [LARGE, 10]) {
      const bytes = Buffer.alloc(size, number);
      const hash = sha256(bytes);
      await store.put({ of: "artifact", namespace: NAMESPACE, hash, bytes, at: 1 });
      await append(store, write(`session/${size}`, number, ["x".repeat(size)]));
      names.push(`artifact ${hash}`, `write session/${size} ${number + 1}`);
    }
  }
  return names.sort();
}

function nameOf(row: MovedRow): string[] {
  if (row.of === "artifact") return [`artifact ${row.hash}`];
  return row.of === "write" ? [`write ${row.stream} ${row.first}`] : [];
}

describe.each(subjects)("$name", (subject) => {
  test("a page exceeds the limit by at most one row, and every row comes once", async () => {
    const opened = await subject.open();
    try {
      const expected = await fill(opened.store);
      const all = await pages(opened.store.moving as Moving);
      for (const rows of all) {
        expect(rows.reduce((sum, row) => sum + sizeOf(row), 0)).toBeLessThan(PAGE_BYTES);
      }
      expect(all.flat().flatMap(nameOf).sort()).toEqual(expected);
    } finally {
      await opened.dispose();
    }
  });
});
