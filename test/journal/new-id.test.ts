import { expect, test, vi } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";

const UUID_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

const journal = new Journal({ store: openMemory() });
const newId = (): string => journal.newId();
const timeOf = (id: string): number => Number.parseInt(id.replace("-", "").slice(0, 12), 16);

test("new ids are UUIDs of version 7 and sort in the order in which they were made", () => {
  const ids = Array.from({ length: 20_000 }, newId);
  for (const id of ids) expect(id).toMatch(UUID_7);
  expect(new Set(ids).size).toBe(ids.length);
  expect(ids).toEqual([...ids].sort());
});

test("an id holds the time, and a clock that goes back does not change the order", () => {
  // Later than every clock that another test of this process has set.
  vi.useFakeTimers({ now: timeOf(newId()) + 60_000 });
  try {
    const earlier = newId();
    expect(timeOf(earlier)).toBe(Date.now());
    vi.setSystemTime(Date.now() - 30_000);
    const ids = [earlier, ...Array.from({ length: 5_000 }, newId)];
    expect(ids).toEqual([...ids].sort());
    expect(timeOf(ids.at(-1) as string)).toBe(timeOf(earlier) + 1);
  } finally {
    vi.useRealTimers();
  }
});
