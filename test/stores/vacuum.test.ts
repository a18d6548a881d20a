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
async function furnish(store: Store, megabytes = 4): Promise<void> {
  await append(store, write("session/kept", 0, ["kept"], { claims: [{ key: "once", event: 0 }] }));
  for (let seq = 0; seq < megabytes; seq++) {
    await append(store, write("session/large", seq, [randomBytes(MEGABYTE / 2).toString("hex")]));
    await append(store, write("session/kept", seq + 1, ["kept".repeat(10_000)]));
  }
  const expected = { generation: 1, seq: megabytes };
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
    const store = await openStore(address());
    await furnish(store, 8);
    await store.close();
    for (let kill = 0; kill < 4; kill++) {
      const child = spawn(process.execPath, [program, address()], { stdio: ["ignore", "pipe", "inherit"] });
      await once(child.stdout, "data");
      const middle = kind === "sqlite" ? `${address()}-journal` : join(address(), "journal.jsonl.new");
      const written = (): number => statSync(middle, { throwIfNoEntry: false })?.size ?? -1;
      for (let turns = 0; turns < 20_000 && written() < kill * 30_000; turns++)
        await new Promise(setImmediate);
      child.kill("SIGKILL");
      await once(child, "exit");
      const after = await openStore(address());
      await expectWhole(after, 9 + kill);
      await append(after, write("session/kept", 9 + kill, ["after a kill"]));
      expect(existsSync(middle)).toBe(false);
      await after.close();
    }
  });
});

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
