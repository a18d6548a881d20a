// Disks that fill up or are read-only.

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { append, batchOf, headSeq, write } from "../sqlite/acts.ts";
import { canMount, needs } from "../sqlite/processes.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

describe.skipIf(!canMount)(needs("a small disk of its own", "mounting", canMount), () => {
  let disk: string;

  beforeEach(() => {
    disk = join(folder.path, "disk");
    mkdirSync(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", disk]);
  });

  afterEach(() => {
    execFileSync("umount", ["-l", disk]);
  });

  test("a full disk is STORE_FULL; acknowledged writes stay, and the store recovers", async () => {
    const path = `${disk}/store`;
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

  test("a disk without room for a compaction keeps the existing journal", async () => {
    const path = `${disk}/store`;
    const store = await folder.open({ path, wasteBytes: 1_000 });
    await append(store, write("session/kept", 0, ["y".repeat(600_000)]));
    await append(store, write("session/gone", 0, ["x".repeat(800_000)]));
    const expect1 = { generation: 1, seq: 1 };
    await store.remove({ of: "stream", namespace: "default", stream: "session/gone", expect: expect1 });
    expect(await append(store, write("session/kept", 1, [1]))).toMatchObject({ outcome: "ok" });
    expect(await store.check()).toEqual([]);
    await store.close();
  });

  test("no store can be created on a full disk", async () => {
    expect(() => writeFileSync(`${disk}/filler`, Buffer.alloc(3_000_000))).toThrow();
    await expect(folder.open({ path: `${disk}/store` })).rejects.toMatchObject({ code: "STORE_FULL" });
  });

  test("a read-only disk can be opened with `readOnly`, and is STORE_READONLY otherwise", async () => {
    const path = `${disk}/store`;
    const store = await folder.open({ path });
    await append(store, write("session/a", 0, ["kept"]));
    await store.close();
    execFileSync("mount", ["-o", "remount,ro", disk]);
    await expect(folder.open({ path })).rejects.toMatchObject({
      code: "STORE_READONLY",
      hint: expect.stringContaining("readOnly: true"),
    });
    await expect(folder.open({ path: `${disk}/other` })).rejects.toMatchObject({ code: "STORE_READONLY" });
    const reader = await folder.open({ path, readOnly: true });
    expect(await headSeq(reader, "session/a")).toBe(1);
    expect(await reader.check()).toEqual([]);
    await expect(append(reader, write("session/a", 1, ["no"]))).rejects.toMatchObject({
      code: "STORE_READONLY",
      unknown: false,
    });
    await reader.close();
  });
});
