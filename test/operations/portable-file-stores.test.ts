// A portable file moves from every kind of store into every other, and an import may be interrupted anywhere.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import type { MaybePromise } from "../../src/model/maybe-promise.ts";
import { type Context, OPERATIONS } from "../../src/operations/index.ts";
import type { MovedRow, Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import type { Opened } from "../../src/testing/index.ts";
import { charge, fill, world } from "../journal/move/filled-store.ts";
import { quickFolder } from "../quick-folder.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
const opened: Opened[] = [];
let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-portable-"));
});
afterEach(async () => {
  rmSync(folder, { recursive: true, force: true });
  await Promise.all(opened.splice(0).map((each) => each.dispose()));
});
afterAll(async () => {
  await Promise.all(subjects.map((subject) => subject.dispose()));
});

type Subject = (typeof subjects)[number];

async function fresh(subject: Subject): Promise<Store> {
  const place = await subject.open();
  opened.push(place);
  return place.store;
}

async function act(name: "export" | "import", store: Store): Promise<unknown> {
  const holdfast = async () => open(undefined, { store, leaseMs: 50 });
  const journals = async () => {
    const { journal } = await holdfast();
    return (await journal.namespaces()).map((namespace) => journal.inNamespace(namespace));
  };
  const parts = { holdfast, create: holdfast, journals, coversAll: true, now: Date.now };
  const context = parts as unknown as Context;
  return OPERATIONS.get(name)?.run(context, { file: join(folder, "all.hf") });
}

/** Streams, tombstones and keys of all namespaces, as a copy would carry them. */
async function rowsOf(store: Store): Promise<string[]> {
  const rows: string[] = [];
  const only: MovedRow["of"][] = ["stream", "key", "write", "item"];
  for (let cursor: string | null = null; ; ) {
    const page: { rows: readonly MovedRow[]; cursor: string | null } | undefined = await store.moving?.dump(
      cursor,
      only,
    );
    for (const row of page?.rows ?? []) {
      expect(only).toContain(row.of);
      rows.push(JSON.stringify(Object.entries(row).sort()));
    }
    cursor = page?.cursor ?? null;
    if (cursor === null) return rows.sort();
  }
}

/** The rows of `fill`, and a session in its third generation that claimed a key in its first. */
async function fillMore(store: Store): Promise<void> {
  await fill(store);
  const holdfast = await open(undefined, { store });
  const first = await holdfast.session("again");
  await first.call({ callId: "c", tool: charge, args: { order: "3" } });
  await first.close();
  await holdfast.journal.remove("session/again");
  await (await holdfast.session("again")).close();
  await holdfast.journal.remove("session/again");
  await (await holdfast.session("again", { title: "Here to stay" })).close();
  const address = await holdfast.session("ann@example.com");
  await address.call({ callId: "c", tool: charge, args: { order: "4" } });
  await address.close();
}

const ring = subjects.map((from, index) => {
  const to = subjects[(index + 1) % subjects.length] ?? from;
  return { from, to, name: `${from.name} to ${to.name}` };
});

test.each(ring)("$name: everything arrives unchanged, tombstones and keys included", async ({ from, to }) => {
  const [source, target] = [await fresh(from), await fresh(to)];
  await fillMore(source);
  await act("export", source);
  await act("import", target);
  const rows = await rowsOf(source);
  expect(await rowsOf(target)).toEqual(rows);
  expect(await act("import", target)).toMatchObject({ added: 0 });
  expect(await rowsOf(target), "twice changes nothing").toEqual(rows);
  expect(await target.check()).toEqual([]);
  world.length = 0;
  const later = await (await open(undefined, { store: target })).session("later");
  for (const order of ["1", "2", "3", "4"])
    await later.call({ callId: `x${order}`, tool: charge, args: { order } });
  expect(world).toEqual([]);
  await later.close();
});

/** The same store through a process that dies at its `spoolFiles`-th change. */
function mortal(store: Store, left: number, dies: "before" | "after"): Store {
  let changes = 0;
  const step =
    <Request, Result>(act: (request: Request) => MaybePromise<Result>) =>
    async (request: Request): Promise<Result> => {
      changes += 1;
      if (changes > left || (changes === left && dies === "before")) throw new Error("killed");
      const result = await act.call(store, request);
      if (changes === left) throw new Error("killed");
      return result;
    };
  const { append, remove, put, lease } = store;
  const verbs = { append: step(append), remove: step(remove), put: step(put), lease: step(lease) };
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(name in verbs ? verbs : target, name);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/**
 * "After one change" equals "before the next", so each case runs every other change. HOLDFAST_FULL=1: all.
 */
const EVERY = process.env["HOLDFAST_FULL"] ? 1 : 2;

test.each(["before", "after"] as const)(
  "an import that is killed right %s any change is finished by the next",
  async (dies) => {
    const source = openMemory({ data: memoryData() });
    await fillMore(source);
    await act("export", source);
    const rows = await rowsOf(source);
    for (let left = 1, isKilled = true; isKilled; left += EVERY) {
      const target = openMemory({ data: memoryData() });
      isKilled = await act("import", mortal(target, left, dies)).then(
        () => false,
        (error: Error) => {
          expect(error.message).toBe("killed");
          return true;
        },
      );
      await act("import", target);
      expect(await rowsOf(target), `${dies} change ${left}`).toEqual(rows);
      if (!isKilled) expect(left).toBeGreaterThan(20);
    }
  },
);
