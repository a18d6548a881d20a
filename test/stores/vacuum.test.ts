// `vacuum` gives back the space of removed sessions. The store stays the same store for every process, and a
// process that is killed in the middle leaves it whole.

import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openStore } from "../../src/open-store.ts";
import type { Store } from "../../src/store.ts";
import { runInside } from "../cli/inside.ts";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { TestSchema } from "./postgres/schema.ts";
import { append, headSeq, NAMESPACE, write } from "./sqlite/acts.ts";

const place = mkdtempSync(join(quickFolder(), "holdfast-vacuum-"));
afterAll(() => rmSync(place, { recursive: true }));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(place, "case-"));
  vi.stubEnv("XDG_STATE_HOME", join(folder, "home"));
});
afterEach(() => vi.unstubAllEnvs());

const program = programFile(new URL("./programs/vacuumer.ts", import.meta.url));

const MEGABYTE = 1_000_000;

/** A session that stays, and one of some megabytes that is removed. */
async function furnish(store: Store): Promise<void> {
  await append(store, write("session/kept", 0, ["kept"], { claims: [{ key: "once", event: 0 }] }));
  for (let seq = 0; seq < 4; seq++) {
    await append(store, write("session/large", seq, [randomBytes(MEGABYTE / 2).toString("hex")]));
    await append(store, write("session/kept", seq + 1, ["kept".repeat(10_000)]));
  }
  const expected = { generation: 1, seq: 4 };
  const stream = { namespace: NAMESPACE, stream: "session/large", expect: expected } as const;
  await store.remove({ of: "stream", ...stream });
}

async function expectWhole(store: Store, seq: number): Promise<void> {
  expect(await store.check()).toEqual([]);
  expect(await headSeq(store, "session/kept")).toBe(seq);
  const keys = await store.list<"keys">({ of: "keys", namespace: NAMESPACE, keys: ["once"] });
  expect(keys.rows).toEqual([{ key: "once", stream: "session/kept", seq: 1 }]);
  const gone = await store.read({ namespace: NAMESPACE, stream: "session/large", after: 0 });
  expect(gone.stream).toMatchObject({ state: "gone", head: { generation: 2, seq: 0 } });
}

describe.each([
  ["sqlite", "s.db"],
  ["files", "files/"],
])("%s", (kind, name) => {
  const address = (): string => join(folder, name);

  test("the removed megabytes are given back, and the store goes on", async () => {
    const store = await openStore(address());
    await furnish(store);
    const report = await store.vacuum?.();
    expect(report?.before).toBeGreaterThan(4 * MEGABYTE);
    expect(report?.after).toBeLessThan(MEGABYTE);
    if (kind === "sqlite") expect(statSync(address()).size).toBe(report?.after);
    await expectWhole(store, 5);
    expect(await append(store, write("session/kept", 5, ["after"]))).toMatchObject({ outcome: "ok" });
    await store.close();
    const again = await openStore(address());
    await expectWhole(again, 6);
    await again.close();
  });

  test("killed in the middle, it leaves the store whole, and nothing beside it", async () => {
    const file = kind === "sqlite" ? address() : join(address(), "journal.jsonl.new");
    const beside = kind === "sqlite" ? `${address()}-journal` : file;
    let seq = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      const store = await openStore(address());
      seq = await fragment(store, kill, seq);
      await store.close();
      const child = spawn(process.execPath, [program, address()], { stdio: ["ignore", "pipe", "inherit"] });
      await once(child.stdout, "data");
      await changes(file, kill);
      child.kill("SIGKILL");
      await once(child, "exit");
      const after = await openStore(address());
      expect(await after.check()).toEqual([]);
      expect(await headSeq(after, "session/kept")).toBe(seq);
      expect(existsSync(beside)).toBe(false);
      await after.close();
    }
  });
});

const KILLS = 6;

/** Adds to a session that stays, between writes of one that is removed: a vacuum has to move every page. */
async function fragment(store: Store, round: number, seq: number): Promise<number> {
  const stream = `session/large-${round}`;
  for (let index = 0; index < 30; index++) {
    await append(store, write(stream, index, [randomBytes(50_000).toString("hex")]));
    await append(store, write("session/kept", seq + index, [randomBytes(20_000).toString("hex")]));
  }
  const expected = { generation: 1, seq: 30 };
  await store.remove({ of: "stream", namespace: NAMESPACE, stream, expect: expected });
  return seq + 30;
}

/** Waits until the file was seen to change this many times, or for a while. */
async function changes(path: string, times: number): Promise<void> {
  const look = (): string => {
    const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
    return `${stats?.mtimeNs} ${stats?.size}`;
  };
  let last = look();
  for (let seen = 0, turns = 0; seen < times && turns < 20_000; turns++) {
    await new Promise(setImmediate);
    const now = look();
    if (now !== last) seen += 1;
    last = now;
  }
}

test("sqlite: refused while another handle has the file open, and neither notices anything", async () => {
  const address = join(folder, "s.db");
  const store = await openStore(address);
  await furnish(store);
  const other = await openStore(address);
  await expect(store.vacuum?.()).rejects.toMatchObject({
    code: "STORE_BUSY",
    message: expect.stringContaining("in use"),
    hint: expect.stringContaining("Stop every program"),
  });
  expect(await append(other, write("session/kept", 5, ["other"]))).toMatchObject({ outcome: "ok" });
  expect(await append(store, write("session/kept", 6, ["own"]))).toMatchObject({ outcome: "ok" });
  await other.close();
  expect((await store.vacuum?.())?.after).toBeLessThan(MEGABYTE);
  await expectWhole(store, 7);
  await store.close();
});

test("files: another handle goes on with the new journal", async () => {
  const address = join(folder, "files/");
  const store = await openStore(address);
  await furnish(store);
  const other = await openStore(address);
  expect((await store.vacuum?.())?.after).toBeLessThan(MEGABYTE);
  expect(await append(other, write("session/kept", 5, ["other"]))).toMatchObject({ outcome: "ok" });
  await expectWhole(store, 6);
  await Promise.all([store.close(), other.close()]);
});

test("postgres: the tables are vacuumed while others use them", async () => {
  const schema = new TestSchema();
  try {
    const store = await schema.open();
    const other = await schema.open();
    await furnish(store);
    const report = await store.vacuum?.();
    expect(report?.after).toBeLessThan((report?.before ?? 0) - MEGABYTE);
    expect(await append(other, write("session/kept", 5, ["other"]))).toMatchObject({ outcome: "ok" });
    await expectWhole(store, 6);
  } finally {
    await schema.dispose();
  }
});

test("the command says how much it gave back", async () => {
  const address = join(folder, "s.db");
  const store = await openStore(address);
  await furnish(store);
  await store.close();
  const { code, out } = await runInside(folder, ["vacuum", "--store", address]);
  expect([code, out]).toEqual([0, expect.stringMatching(/s\.db: [4-9]\.\d MB given back, 0\.\d MB left\n$/)]);
});
