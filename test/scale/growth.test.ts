// What grows with a store must not slow down what does not need it. The tests count rows and bytes.

import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Holdfast, Journal, type Message } from "../../src/index.ts";
import { readStatus } from "../../src/operations/index.ts";
import type { Store } from "../../src/store.ts";
import { type MemoryData, memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { counting } from "./counting-store.ts";

const wordsOf = ({ blocks }: Message): string =>
  blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");

const program = (store: Store): Holdfast => new Holdfast(new Journal({ store }));

describe("reopening a session", () => {
  let data: MemoryData;
  let holdfast: Holdfast;
  let counts: ReturnType<typeof counting>["counts"];

  beforeEach(() => {
    data = memoryData();
    const counted = counting(openMemory({ data }));
    holdfast = program(counted.store);
    counts = counted.counts;
  });

  async function visit(id: string, text: string, by = holdfast): Promise<number> {
    const before = counts.readBytes;
    const session = await by.session(id);
    const read = counts.readBytes - before;
    await session.append({ role: "user", text });
    await session.close();
    return read;
  }

  const texts = async (id: string): Promise<string[]> =>
    (await holdfast.sessions.get(id))?.messages.map(wordsOf) ?? [];

  test("reads nothing if nobody wrote to it since, however long it is", async () => {
    await visit("alpha", "x".repeat(50_000));
    expect(await visit("alpha", "two")).toBe(0);
    expect(await visit("alpha", "three")).toBe(0);
    expect(await texts("alpha")).toEqual(["x".repeat(50_000), "two", "three"]);
  });

  test("reads what another program wrote since, and no more", async () => {
    await visit("alpha", "x".repeat(50_000));
    await visit("alpha", "from another program", program(openMemory({ data })));
    const read = await visit("alpha", "three");
    expect(read).toBeGreaterThan(0);
    expect(read).toBeLessThan(5_000);
    expect((await texts("alpha")).slice(1)).toEqual(["from another program", "three"]);
  });

  test.each(["this program", "another program"])("finds a new one after %s erased it", async (who) => {
    await visit("alpha", "first life");
    const by = who === "this program" ? holdfast : program(openMemory({ data }));
    await by.sessions.erase("alpha");
    await visit("alpha", "second life");
    expect(await texts("alpha")).toEqual(["second life"]);
  });

  test("reads the store again once others took the room in memory", async () => {
    const long = "x".repeat(3 << 20);
    for (let index = 0; index < 8; index++) await visit(`session-${index}`, long);
    expect(await visit("session-0", "again")).toBeGreaterThan(long.length);
    expect(await visit("session-7", "again")).toBe(0);
  });
});

describe("status", () => {
  async function rowsFor(sessions: number): Promise<number> {
    const counted = counting(openMemory());
    const holdfast = program(counted.store);
    for (let index = 0; index < sessions; index++) await (await holdfast.session(`s-${index}`)).close();
    await holdfast.session("still-open");
    counted.counts.listedRows = 0;
    const { sessions: shown } = await readStatus(counted.store, { now: Date.now() });
    expect(shown).toMatchObject({ running: 1, idle: 499, ofLatest: 500 });
    return counted.counts.listedRows;
  }

  test("reads as many rows among 3,000 sessions as among 600", async () => {
    const rows = await rowsFor(600);
    expect(rows).toBeLessThan(1_100);
    expect(await rowsFor(3_000)).toBe(rows);
  });
});

describe("pages of leases", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "holdfast-scale-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Bytes that this process has read from files, by the system's count. */
  const bytesRead = (): number => Number(/^rchar: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);

  // Only Linux counts the bytes. More than SQLite caches, so that what is read twice is counted twice.
  test.runIf(process.platform === "linux")("read each lease once on SQLite", async () => {
    const path = join(folder, "store.db");
    const store = await openSqlite({ path });
    const namespace = "default";
    const label = "a worker ".repeat(400);
    const unknown = { pid: 1, started: null, boot: null, pidNamespace: null };
    const take = (index: number) => {
      const name = `session/s-${String(index).padStart(5, "0")}`;
      const holder = { owner: `owner-${index}`, label, host: "host", ...unknown };
      return store.lease({ act: "take", namespace, name, holder, ttlMs: 1 });
    };
    await Promise.all(Array.from({ length: 5_000 }, (_, index) => take(index)));
    await store.close();
    const again = await openSqlite({ path });
    const before = bytesRead();
    let [listed, cursor]: [number, string | null] = [0, ""];
    while (cursor !== null) {
      const from: { cursor?: string } = cursor === "" ? {} : { cursor };
      const request = { of: "leases", namespace, prefix: "session/", limit: 250, ...from } as const;
      const page = await again.list<"leases">(request);
      listed += page.rows.length;
      cursor = page.cursor;
    }
    expect(listed).toBe(5_000);
    expect(bytesRead() - before).toBeLessThan(2 * statSync(path).size);
    await again.close();
  });
});
