// A path can lead to anything. A file that is not a Holdfast store is rejected with a reason and not changed.

import { mkdirSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { refuseNetworkDisk } from "../../../src/stores/kit/index.ts";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { append, headSeq, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

async function makeDatabase(sql: string): Promise<void> {
  const connection = await Connection.open(folder.file(), false);
  connection.exec(sql);
  await connection.close();
}

/** Runs `act` and expects that no file of the folder changed. */
async function expectUntouched(act: () => Promise<void>): Promise<void> {
  const look = () =>
    readdirSync(folder.path).map((name) => [name, readFileSync(folder.file(name)).toString("base64")]);
  const before = look();
  await act();
  expect(look()).toEqual(before);
}

describe("a foreign file is rejected and not changed", () => {
  test("a database of another program", async () => {
    await makeDatabase("CREATE TABLE cats (name TEXT); INSERT INTO cats VALUES ('Tom')");
    await expectUntouched(async () => {
      await expect(folder.open()).rejects.toMatchObject({
        code: "STORE_FOREIGN",
        message: expect.stringContaining(folder.file()),
        hint: expect.stringContaining("another path"),
      });
    });
  });

  test("a database of another program in WAL mode", async () => {
    await makeDatabase("PRAGMA journal_mode = WAL; PRAGMA application_id = 7; CREATE TABLE cats (name TEXT)");
    const before = readFileSync(folder.file());
    await expect(folder.open()).rejects.toMatchObject({ code: "STORE_FOREIGN" });
    expect(readFileSync(folder.file()).equals(before)).toBe(true);
  });

  test("a store of a newer version", async () => {
    await (await folder.open()).close();
    await makeDatabase("PRAGMA user_version = 99");
    const before = readFileSync(folder.file());
    await expect(folder.open()).rejects.toMatchObject({
      code: "STORE_TOO_NEW",
      message: expect.stringContaining("format 99"),
      hint: expect.stringContaining("Update"),
    });
    await expect(folder.open({ readOnly: true })).rejects.toMatchObject({ code: "STORE_TOO_NEW" });
    expect(readFileSync(folder.file()).equals(before)).toBe(true);
  });

  // The first table fixes the encoding forever, also after it is dropped.
  test.each(["UTF-16le", "UTF-16be"])("a database without tables whose text is %s", async (encoding) => {
    await makeDatabase(`PRAGMA encoding = '${encoding}'; CREATE TABLE cats (name TEXT); DROP TABLE cats`);
    await expectUntouched(async () => {
      const refusal = {
        code: "STORE_FOREIGN",
        message: expect.stringContaining(`its text is ${encoding}, not UTF-8`),
        hint: expect.stringContaining("another path"),
      };
      await expect(folder.open()).rejects.toMatchObject(refusal);
      await expect(folder.open({ readOnly: true })).rejects.toMatchObject(refusal);
    });
  });

  test("a file that is not a database", async () => {
    writeFileSync(folder.file(), "Dear diary, ".repeat(1000));
    await expectUntouched(async () => {
      await expect(folder.open()).rejects.toMatchObject({
        code: "STORE_CORRUPT",
        message: expect.stringContaining(folder.file()),
      });
    });
  });

  test("a folder", async () => {
    mkdirSync(folder.file());
    await expect(folder.open()).rejects.toMatchObject({ code: "STORE_FOREIGN" });
  });
});

test("a store that was cut short is reported as damaged", async () => {
  const store = await folder.open();
  for (let seq = 0; seq < 50; seq++) await append(store, write("session/a", seq, ["x".repeat(4_000)]));
  await store.close();
  truncateSync(folder.file(), 8_192);
  await expect(
    folder.open().then((opened) => opened.read({ namespace: "default", stream: "session/a", after: 0 })),
  ).rejects.toMatchObject({ code: "STORE_CORRUPT", hint: expect.stringContaining("backup") });
});

test("an empty file, as a crash while creating leaves it, becomes a store", async () => {
  writeFileSync(folder.file(), "");
  const store = await folder.open();
  expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
});

test("a database without tables whose text is UTF-8 becomes a store", async () => {
  await makeDatabase("CREATE TABLE cats (name TEXT); DROP TABLE cats");
  const store = await folder.open();
  expect(await append(store, write("session/a", 0, ["ä"]))).toMatchObject({ outcome: "ok" });
});

test("a missing store is not created when it must exist", async () => {
  await expect(folder.open({ mustExist: true })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  await expect(folder.open({ readOnly: true })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  expect(readdirSync(folder.path)).toEqual([]);
});

test("a path through a file is an error that names it", async () => {
  writeFileSync(folder.file("plain"), "");
  await expect(folder.open({ path: join(folder.file("plain"), "store.db") })).rejects.toMatchObject({
    code: "STORE_IO",
    message: expect.stringContaining("store.db"),
  });
});

test("folders are created, and only the owner can read the files", async () => {
  const path = folder.file("a/b/store.db");
  const store = await folder.open({ path });
  await append(store, write("session/a", 0, ["secret"]));
  for (const suffix of ["", "-wal", "-shm"]) expect(statSync(path + suffix).mode & 0o777).toBe(0o600);
});

test("many handles can create one store at the same time", async () => {
  const stores = await Promise.all(Array.from({ length: 8 }, () => folder.open()));
  const outcomes = await Promise.all(stores.map((store) => append(store, write("session/a", 0, [1]))));
  expect(outcomes.filter(({ outcome }) => outcome === "ok")).toHaveLength(1);
  for (const store of stores) expect(await headSeq(store, "session/a")).toBe(1);
});

test("network disks are rejected by the type of their file system", () => {
  const NFS = 0x6969;
  const CIFS = 0xff534d42;
  const EXT4 = 0xef53;
  expect(() => refuseNetworkDisk(folder.file("a/b/c.db"), () => NFS)).toThrow(/network disk \(NFS\)/);
  expect(() => refuseNetworkDisk(folder.file(), () => CIFS | 0)).toThrow(/CIFS/);
  expect(() => refuseNetworkDisk(folder.file(), () => EXT4)).not.toThrow();
});

test("a reader needs no write permission, and a writer gets STORE_READONLY", async () => {
  const writer = await folder.open();
  await append(writer, write("session/a", 0, [1]));
  const reader = await folder.open({ readOnly: true });
  expect(await headSeq(reader, "session/a")).toBe(1);
  await append(writer, write("session/a", 1, [2]));
  expect(await headSeq(reader, "session/a")).toBe(2);
  await expect(append(reader, write("session/a", 2, [3]))).rejects.toMatchObject({
    code: "STORE_READONLY",
    unknown: false,
  });
});
