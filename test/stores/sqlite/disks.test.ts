// Disks that fill up or are read-only, and files that are replaced.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, renameSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { append, batchOf, headSeq, NAMESPACE, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";
import { canMount, needs } from "./processes.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

describe.skipIf(!canMount)(needs("a small disk of its own", "mounting", canMount), () => {
  let disk: string;

  beforeEach(() => {
    disk = folder.file("disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  });

  afterEach(() => {
    execFileSync("umount", ["-l", disk]);
  });

  test("a full disk is STORE_FULL; acknowledged writes stay, and the store recovers", async () => {
    const path = `${disk}/store.db`;
    writeFileSync(`${disk}/filler`, Buffer.alloc(1_400_000));
    const store = await folder.open({ path });
    const big = "x".repeat(20_000);
    let acknowledged = 0;
    let refused = batchOf(write("session/a", 0, [big]));
    for (;;) {
      refused = batchOf(write("session/a", acknowledged, [big]));
      const outcome = await Promise.resolve(store.append(refused)).catch((error: unknown) => error);
      if (outcome instanceof Error) {
        expect(outcome).toMatchObject({ code: "STORE_FULL", retryable: true });
        break;
      }
      expect(outcome).toMatchObject({ outcome: "ok" });
      acknowledged += 1;
    }
    expect(acknowledged).toBeGreaterThan(2);
    rmSync(`${disk}/filler`);
    expect(await store.append(refused)).toMatchObject({ outcome: "ok" });
    expect(await headSeq(store, "session/a")).toBe(acknowledged + 1);
    expect(await store.check()).toEqual([]);
    await store.close();
  });

  test("no store can be created on a full disk", async () => {
    expect(() => writeFileSync(`${disk}/filler`, Buffer.alloc(3_000_000))).toThrow();
    await expect(folder.open({ path: `${disk}/store.db` })).rejects.toMatchObject({ code: "STORE_FULL" });
  });

  test("a read-only disk can be opened with `readOnly`, and is STORE_READONLY otherwise", async () => {
    const path = `${disk}/store.db`;
    const store = await folder.open({ path });
    await append(store, write("session/a", 0, ["kept"]));
    await store.close();
    execFileSync("mount", ["-o", "remount,ro", disk]);
    await expect(folder.open({ path })).rejects.toMatchObject({
      code: "STORE_READONLY",
      hint: expect.stringContaining("readOnly: true"),
    });
    await expect(folder.open({ path: `${disk}/other.db` })).rejects.toMatchObject({ code: "STORE_READONLY" });
    const reader = await folder.open({ path, readOnly: true });
    expect(await headSeq(reader, "session/a")).toBe(1);
    expect(await reader.check()).toEqual([]);
    await expect(append(reader, write("session/a", 1, ["no"]))).rejects.toMatchObject({
      code: "STORE_READONLY",
    });
    await reader.close();
  });
});

describe("a replaced file is noticed and not written to", () => {
  const twice = async (act: () => Promise<unknown>) => {
    await expect(act()).rejects.toMatchObject({ code: "STORE_REPLACED", unknown: false });
    await expect(act()).rejects.toMatchObject({ code: "STORE_REPLACED" });
  };

  test("when an older copy was put in its place", async () => {
    const store = await folder.open();
    await append(store, write("session/a", 0, [1]));
    await store.close();
    copyFileSync(folder.file(), folder.file("backup.db"));
    const again = await folder.open();
    await append(again, write("session/a", 1, [2]));
    renameSync(folder.file("backup.db"), folder.file());
    await twice(() => append(again, write("session/a", 2, [3])));
    await twice(() => again.read({ namespace: NAMESPACE, stream: "session/a", after: 0 }));
  });

  test("when it was deleted, and also after another was created there", async () => {
    const store = await folder.open();
    await append(store, write("session/a", 0, [1]));
    for (const suffix of ["", "-wal", "-shm"]) unlinkSync(folder.file() + suffix);
    await twice(() => append(store, write("session/a", 1, [2])));
    const fresh = await folder.open();
    expect(await headSeq(fresh, "session/a")).toBe(0);
    await twice(() => append(store, write("session/a", 1, [2])));
  });

  test("by a writer without pauses, within a few milliseconds", async () => {
    const store = await folder.open();
    let seq = 0;
    // Alone for so long that its writes no longer wait for the next turn of the event loop.
    for (const until = performance.now() + 120; performance.now() < until; seq++) {
      await append(store, write("session/a", seq, [seq]));
    }
    for (const suffix of ["", "-wal", "-shm"]) unlinkSync(folder.file() + suffix);
    const taken = performance.now();
    let last = taken;
    const goOn = async (): Promise<never> => {
      for (; ; seq++) {
        await append(store, write("session/a", seq, [seq]));
        last = performance.now();
      }
    };
    await expect(goOn()).rejects.toMatchObject({ code: "STORE_REPLACED", unknown: false });
    // A flush that began in time may end late on a busy machine.
    expect(last - taken).toBeLessThan(500);
    await twice(() => append(store, write("session/a", seq, [seq])));
  });

  test("by a writer that waits for the event loop, in the next turn", async () => {
    const store = await folder.open();
    let seq = 0;
    for (const until = performance.now() + 120; performance.now() < until; seq++) {
      await append(store, write("session/a", seq, [seq]));
    }
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    await turn();
    await append(store, write("session/a", seq, [seq]));
    await turn();
    for (const suffix of ["", "-wal", "-shm"]) unlinkSync(folder.file() + suffix);
    await twice(() => append(store, write("session/a", seq + 1, [seq + 1])));
  });

  test("when the file is the same but holds another store", async () => {
    const store = await folder.open();
    await append(store, write("session/a", 0, [1]));
    const connection = await Connection.open(folder.file(), false);
    connection.exec("UPDATE meta SET value = 'another' WHERE name = 'store'");
    await connection.close();
    await twice(() => append(store, write("session/a", 1, [2])));
  });
});
