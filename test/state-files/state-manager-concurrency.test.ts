// Many requests of one server share one state manager: what each of them changes counts once.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { StateManager } from "../../src/state-files/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { quickFolder } from "../quick-folder.ts";

interface Count {
  schema_version: number;
  n: number;
}

const schema = {
  type: "object",
  required: ["n"],
  properties: { schema_version: { type: "integer" }, n: { type: "integer", maximum: 100 } },
};
const spec = { schema, initial: { schema_version: 1, n: 0 } as Count };

const folder = mkdtempSync(join(quickFolder(), "holdfast-at-once-"));
const journal = new Journal({ store: await openMemory() });
afterAll(async () => {
  await journal.store.close();
  rmSync(folder, { recursive: true, force: true });
});

let made = 0;
beforeEach(() => {
  made += 1;
});

const PLACES = [
  {
    name: "a file",
    manager: () => StateManager.onFile<Count>(join(folder, `${made}.json`), spec),
    stored: async () => JSON.parse(readFileSync(join(folder, `${made}.json`), "utf8")).n,
  },
  {
    name: "a store",
    manager: () => StateManager.onStore<Count>({ journal }, `count-${made}`, spec),
    stored: async () => (await StateManager.onStore<Count>({ journal }, `count-${made}`, spec).load()).n,
  },
];

function more(state: Count): undefined {
  state.n += 1;
}

describe.each(PLACES)("one manager on $name, used at once", ({ manager, stored }) => {
  test.each([
    [2, "before"],
    [5, "before"],
    [5, "after"],
  ])("%i increments are that many, begun %s the first load", async (count, when) => {
    const state = manager();
    if (when === "after") await state.load();
    const request = async (): Promise<void> => {
      await state.update(more);
      await state.commit();
    };
    await Promise.all(Array.from({ length: count }, request));
    expect(await stored()).toBe(count);
    expect((await state.commit()).n, "and in memory").toBe(count);
  });

  test("two commits of one update keep it once", async () => {
    const state = manager();
    await state.update(more);
    const both = await Promise.all([state.commit(), state.commit()]);
    expect(both.map(({ n }) => n)).toEqual([1, 1]);
    expect(await stored()).toBe(1);
  });

  test("an update during a commit is visible at once and stored by the next commit", async () => {
    const state = manager();
    await state.update(more);
    const [, seen] = await Promise.all([state.commit(), state.update(more)]);
    expect(seen.n).toBe(2);
    expect((await state.update(more)).n).toBe(3);
    await state.commit();
    expect(await stored()).toBe(3);
  });

  test("a refused update does not affect later ones", async () => {
    const state = manager();
    const refused = state.update((all) => {
      all.n = 1_000;
    });
    const after = state.update(more);
    await expect(refused).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect((await after).n).toBe(1);
    await state.commit();
    expect(await stored()).toBe(1);
  });
});
