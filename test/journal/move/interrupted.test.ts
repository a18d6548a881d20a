// A move that dies: first before and after every step, on memory; then as a killed process, on durable
// stores.

import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { abandonMove, moveStore, undoMove } from "../../../src/journal/index.ts";
import { isHoldfastError } from "../../../src/model/errors.ts";
import { openStore } from "../../../src/open-store.ts";
import type { Moving, Store } from "../../../src/store.ts";
import { memoryData, openMemory } from "../../../src/testing/index.ts";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";
import { TestSchema } from "../../stores/postgres/schema.ts";
import { contentsOf, fill } from "./filled-store.ts";

class Death extends Error {}

/** Counts down the steps until the process dies. */
class Life {
  #left: number;
  readonly #dies: "before" | "after";

  constructor(steps: number, dies: "before" | "after") {
    this.#left = steps;
    this.#dies = dies;
  }

  async step<Result>(act: () => Promise<Result>): Promise<Result> {
    this.#left -= 1;
    if (this.#left < 0 || (this.#left === 0 && this.#dies === "before")) throw new Death();
    const result = await act();
    if (this.#left === 0) throw new Death();
    return result;
  }
}

/** The same store, in a process that dies, under its own address. */
function mortal(store: Store, life: Life, address: string): Store {
  const { moving } = store as { moving: Moving };
  const own: Moving = {
    seal: () => life.step(() => moving.seal()),
    reseal: (expect, next) => life.step(() => moving.reseal(expect, next)),
    dump: (cursor) => life.step(() => moving.dump(cursor)),
    restore: (move, rows) => life.step(() => moving.restore(move, rows)),
  };
  return { ...store, address, moving: own } as Store;
}

async function takesWrites(store: Store): Promise<boolean> {
  try {
    const lease = { lease: "nobody/has-it", token: 1 };
    await store.lease({ act: "release", namespace: "default", lease });
    return true;
  } catch (error) {
    if (isHoldfastError(error, "STORE_READONLY") || isHoldfastError(error, "STORE_MOVED")) return false;
    throw error;
  }
}

const FOREVER = Number.MAX_SAFE_INTEGER;

/** The rows of every source, made once. */
const filled = memoryData();
beforeAll(() => fill(openMemory({ data: filled })));

/** Runs a move that dies at `steps`, then `goOn`. False if the move reached its end. */
async function dieAt(
  steps: number,
  dies: "before" | "after",
  goOn: (source: Store, target: Store) => Promise<void>,
): Promise<boolean> {
  const source = openMemory({ data: structuredClone(filled) });
  const target = openMemory({ data: memoryData() });
  const before = JSON.stringify(await contentsOf(source));
  const life = new Life(steps, dies);
  const copied = moveStore(mortal(source, life, "a"), mortal(target, life, "b")).then(
    () => true,
    (error: unknown) => {
      if (error instanceof Death) return false;
      throw error;
    },
  );
  if (await copied) return false;
  const isOpen = { source: await takesWrites(source), target: await takesWrites(target) };
  const seals = [await source.moving?.seal(), await target.moving?.seal()];
  // Exactly one takes writes, or neither. The target is open only before its seal, and after the source left.
  if (isOpen.source && isOpen.target) expect(seals).toEqual([null, null]);
  if (!isOpen.source) expect(seals[1]).not.toBeNull();
  expect(JSON.stringify(await contentsOf(source))).toBe(before);
  await goOn(source, target);
  return true;
}

async function dieEverywhere(goOn: (source: Store, target: Store) => Promise<void>): Promise<number> {
  let deaths = 0;
  for (const dies of ["before", "after"] as const) {
    for (let steps = 1; await dieAt(steps, dies, goOn); steps++) deaths += 1;
  }
  return deaths;
}

const whole = (store: Store, address: string): Store => mortal(store, new Life(FOREVER, "after"), address);

describe("a move that dies at any step", () => {
  test("is finished by the same call, made again", async () => {
    const deaths = await dieEverywhere(async (source, target) => {
      const expected = JSON.stringify(await contentsOf(source));
      await moveStore(whole(source, "a"), whole(target, "b"));
      expect(JSON.stringify(await contentsOf(target))).toBe(expected);
      expect([await takesWrites(source), await takesWrites(target)]).toEqual([false, true]);
    });
    expect(deaths).toBeGreaterThan(15);
  });

  test("can be restarted with another target until the source has left, and then never", async () => {
    await dieEverywhere(async (source, target) => {
      const hadLeft = (await source.moving?.seal())?.phase === "left";
      const elsewhere = openMemory();
      const again = moveStore(whole(source, "a"), whole(elsewhere, "c"));
      if (hadLeft) await expect(again).rejects.toMatchObject({ code: "STORE_MOVED" });
      else {
        await again;
        // The first target can never open: its move is not the one with which the source left.
        await expect(moveStore(whole(source, "a"), whole(target, "b"))).rejects.toMatchObject({
          code: "STORE_MOVED",
        });
      }
      const open = [await takesWrites(source), await takesWrites(elsewhere)];
      expect(open).toEqual([false, !hadLeft || (await elsewhere.moving?.seal()) === null]);
    });
  });

  test("can be abandoned until the source has left; the source is then open again", async () => {
    await dieEverywhere(async (source, target) => {
      const hadLeft = (await source.moving?.seal())?.phase === "left";
      if (hadLeft) {
        await expect(abandonMove(source)).rejects.toMatchObject({ code: "STORE_MOVED" });
        return;
      }
      await abandonMove(source);
      expect(await takesWrites(source)).toBe(true);
      expect((await target.moving?.seal())?.phase).not.toBe("arrived");
      const holdfast = await open(undefined, { store: source });
      await (await holdfast.session("alpha")).close();
    });
  });

  test("a move that was overtaken by a restart can finish nothing", async () => {
    const source = openMemory();
    const first = openMemory();
    const second = openMemory();
    await fill(source);
    const slow = whole(first, "b");
    const { restore } = slow.moving as Moving;
    let isRestarted = false;
    (slow.moving as Moving).restore = async (move, rows) => {
      if (!isRestarted) await moveStore(whole(source, "a"), whole(second, "c"));
      isRestarted = true;
      return restore(move, rows);
    };
    const overtaken = moveStore(whole(source, "a"), slow);
    await expect(overtaken).rejects.toMatchObject({ code: "STREAM_BUSY" });
    expect([await takesWrites(source), await takesWrites(first), await takesWrites(second)]).toEqual([
      false,
      false,
      true,
    ]);
  });
});

describe("an undo that dies at any step", () => {
  test.each([false, true])("is finished by the same call (new writes in the target: %s)", async (isUsed) => {
    for (const dies of ["before", "after"] as const) {
      for (let steps = 1; ; steps++) {
        const source = openMemory({ data: structuredClone(filled) });
        const target = openMemory({ data: memoryData() });
        await moveStore(whole(source, "a"), whole(target, "b"));
        if (isUsed) await (await (await open(undefined, { store: target })).session("new-there")).close();
        const life = new Life(steps, dies);
        const first = await undoMove(mortal(source, life, "a"), mortal(target, life, "b")).catch(
          (error: unknown) => error,
        );
        const isOpen = [await takesWrites(source), await takesWrites(target)];
        expect(isOpen.filter(Boolean).length, `${dies} ${steps}: ${isOpen}`).toBeLessThan(2);
        const again = undoMove(whole(source, "a"), whole(target, "b"));
        if (isUsed) await expect(again).rejects.toMatchObject({ code: "STREAM_BUSY" });
        else await again;
        expect([await takesWrites(source), await takesWrites(target)]).toEqual([!isUsed, isUsed]);
        if (!(first instanceof Death)) break;
      }
    }
  });

  test("cannot be finished as a move, which would open both stores", async () => {
    const source = openMemory({ data: structuredClone(filled) });
    const target = openMemory({ data: memoryData() });
    await moveStore(whole(source, "a"), whole(target, "b"));
    const { reseal } = source.moving as Moving;
    (source.moving as Moving).reseal = async (expected, next) => {
      await expect(moveStore(whole(source, "a"), whole(target, "b"))).rejects.toMatchObject({
        code: "STORE_MOVED",
      });
      return reseal(expected, next);
    };
    await undoMove(source, target);
    expect([await takesWrites(source), await takesWrites(target)]).toEqual([true, false]);
  });
});

describe.concurrent("a moving process that is killed", () => {
  let folder: string;
  const schemas: TestSchema[] = [];
  beforeAll(async () => {
    folder = await mkdtemp(join(quickFolder(), "holdfast-move-"));
  });
  afterAll(async () => {
    await rm(folder, { recursive: true });
    await Promise.all(schemas.map((schema) => schema.dispose()));
  });

  const program = programFile(new URL("./programs/mover.ts", import.meta.url));
  const run = (...args: string[]): Promise<string> =>
    new Promise((resolve) => {
      execFile(process.execPath, [program, ...args], (error, output) => {
        resolve(error ? String(error.signal ?? error.message) : output);
      });
    });

  /** An address of a store that is not there yet. */
  const addressOf = {
    sqlite: (place: string, name: string) => join(place, `${name}.db`),
    files: (place: string, name: string) => join(place, `${name}/`),
    postgres: () => {
      const schema = new TestSchema();
      schemas.push(schema);
      return `${schema.url}${schema.url.includes("?") ? "&" : "?"}schema=${schema.name}`;
    },
  };

  /** Which of the two stores takes writes after a kill before this phase. Elsewhere neither does. */
  const OPEN_AT: Readonly<Record<string, readonly boolean[]>> = {
    entering: [true, true],
    leaving: [true, false],
  };

  test.each([
    ["sqlite", "sqlite", "1"],
    ["sqlite", "sqlite", "entering"],
    ["sqlite", "files", "leaving"],
    ["sqlite", "postgres", "20"],
    ["sqlite", "postgres", "left"],
    ["postgres", "files", "20"],
    ["postgres", "files", "arrived"],
    ["files", "sqlite", "left"],
  ] as const)("from %s to %s at %s: the same call finishes it", async (from, to, where) => {
    const place = await mkdtemp(join(folder, "case-"));
    const [old, next] = [addressOf[from](place, "from"), addressOf[to](place, "to")];
    let source = await openStore(old);
    await fill(source);
    const before = await contentsOf(source);
    await source.close();
    expect(await run(old, next, where)).toBe("SIGKILL");
    source = await openStore(old);
    const target = await openStore(next);
    const open = [await takesWrites(source), await takesWrites(target)];
    // An untouched target is an ordinary store. From its seal on, only the source takes writes, then neither.
    expect(open).toEqual(OPEN_AT[where] ?? [false, false]);
    await moveStore(source, target);
    expect([await takesWrites(source), await takesWrites(target)]).toEqual([false, true]);
    expect(await contentsOf(target)).toEqual(before);
    await source.close();
    await target.close();
  });

  test.each(["sqlite", "files", "postgres"] as const)(
    "a %s store that another process has open is not moved, until that process ends",
    async (kind) => {
      const place = await mkdtemp(join(folder, "used-"));
      const [old, next] = [addressOf[kind](place, "from"), addressOf.sqlite(place, "to")];
      const filling = await openStore(old);
      await fill(filling);
      await filling.close();
      const user = execFile(process.execPath, [program, old, join(place, "unused.db"), "open"]);
      await new Promise((resolve) => user.stdout?.once("data", resolve));
      const source = await openStore(old);
      const target = await openStore(next);
      await expect(moveStore(source, target)).rejects.toMatchObject({
        code: "STREAM_BUSY",
        message: expect.stringContaining("in use"),
      });
      expect([await takesWrites(source), await takesWrites(target)]).toEqual([true, true]);
      user.kill("SIGKILL");
      await new Promise((resolve) => user.once("exit", resolve));
      await moveStore(source, target);
      expect([await takesWrites(source), await takesWrites(target)]).toEqual([false, true]);
      await source.close();
      await target.close();
    },
  );
});
