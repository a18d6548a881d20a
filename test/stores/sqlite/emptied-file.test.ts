// SQLite discards a WAL that it finds beside an empty file, and with it acknowledged writes. Opening a store
// whose file was emptied or moved away is an error, as long as anything of the store is left to show it.

import { copyFileSync, existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { append, headSeq, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

const LOSSES: Readonly<Record<string, (path: string) => void>> = {
  emptied: (path) => writeFileSync(path, ""),
  gone: (path) => rmSync(path),
};

/** The files of a store as a crash leaves them: an acknowledged write is in the WAL. */
async function crashed(): Promise<string> {
  const store = await folder.open();
  await append(store, write("session/a", 0, ["acknowledged"]));
  const path = folder.file("crashed.db");
  for (const suffix of ["", "-wal"]) copyFileSync(folder.file() + suffix, path + suffix);
  return path;
}

describe.each(Object.entries(LOSSES))("a file that is %s beside a WAL with writes", (_, lose) => {
  test.each([{}, { readOnly: true }, { mustExist: true }])(
    "is rejected, and the WAL stays (%o)",
    async (how) => {
      const path = await crashed();
      const wal = readFileSync(`${path}-wal`);
      lose(path);
      const wasThere = existsSync(path);
      for (let tries = 0; tries < 2; tries++) {
        await expect(folder.open({ path, ...how })).rejects.toMatchObject({
          code: "STORE_CORRUPT",
          message: expect.stringContaining(`${path}-wal`),
          hint: expect.stringContaining("backup"),
        });
      }
      expect(readFileSync(`${path}-wal`).equals(wal)).toBe(true);
      expect(existsSync(path)).toBe(wasThere);
    },
  );

  test("opens with all its writes once it is back", async () => {
    const path = await crashed();
    const kept = readFileSync(path);
    lose(path);
    await expect(folder.open({ path })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
    writeFileSync(path, kept);
    expect(await headSeq(await folder.open({ path }), "session/a")).toBe(1);
  });
});

test("a store that is emptied while it is open is no longer written to, and its WAL stays", async () => {
  const store = await folder.open();
  await append(store, write("session/a", 0, [1]));
  const kept = readFileSync(folder.file());
  truncateSync(folder.file(), 0);
  const refused = { code: "STORE_REPLACED", unknown: false };
  await expect(append(store, write("session/a", 1, [2]))).rejects.toMatchObject(refused);
  await expect(headSeq(store, "session/a")).rejects.toMatchObject(refused);
  const path = folder.file("again.db");
  writeFileSync(path, kept);
  copyFileSync(`${folder.file()}-wal`, `${path}-wal`);
  expect(await headSeq(await folder.open({ path }), "session/a")).toBe(1);
});

test("an empty file with an empty WAL is accepted", async () => {
  for (const suffix of ["", "-wal"]) writeFileSync(folder.file() + suffix, "");
  const store = await folder.open();
  expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
});
