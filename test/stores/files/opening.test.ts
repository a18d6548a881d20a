// A path can lead to anything. A folder that is not a Holdfast store is rejected with a reason and not
// changed.

import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { sha256 } from "../../../src/model/digest.ts";
import type { Store } from "../../../src/store.ts";
import { append, headSeq, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

function everything(home: string): string[] {
  return readdirSync(home, { recursive: true, withFileTypes: true })
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

/** Runs `act` and expects that no file of the folder changed. */
async function expectUntouched(act: () => Promise<void>): Promise<void> {
  const look = () =>
    everything(folder.file()).map((path) => [path, statSync(path).isFile() && readFileSync(path, "hex")]);
  const before = look();
  await act();
  expect(look()).toEqual(before);
}

describe("a foreign path is rejected and not changed", () => {
  test("a folder with other files", async () => {
    mkdirSync(folder.file());
    writeFileSync(folder.file("thesis.doc"), "chapter one");
    await expectUntouched(async () => {
      await expect(folder.open()).rejects.toMatchObject({
        code: "STORE_FOREIGN",
        message: expect.stringContaining("thesis.doc"),
        hint: expect.stringContaining("another path"),
      });
    });
  });

  test("a folder with another program's journal", async () => {
    mkdirSync(folder.file());
    writeFileSync(folder.journal, '{"level":"info","msg":"hello"}\n');
    await expectUntouched(async () => {
      await expect(folder.open()).rejects.toMatchObject({ code: "STORE_FOREIGN" });
    });
  });

  test("a file", async () => {
    writeFileSync(folder.file(), "");
    await expect(folder.open()).rejects.toMatchObject({ code: "STORE_FOREIGN" });
  });

  test("a store of a newer version", async () => {
    await (await folder.open()).close();
    writeFileSync(
      folder.journal,
      readFileSync(folder.journal, "utf8").replace('"version":1', '"version":99'),
    );
    await expectUntouched(async () => {
      await expect(folder.open()).rejects.toMatchObject({
        code: "STORE_TOO_NEW",
        message: expect.stringContaining("format 99"),
        hint: expect.stringContaining("Update"),
      });
      await expect(folder.open({ readOnly: true })).rejects.toMatchObject({ code: "STORE_TOO_NEW" });
    });
  });
});

test("an unfinished start after a crash becomes a store", async () => {
  mkdirSync(folder.file());
  writeFileSync(folder.file("lock.db"), "");
  writeFileSync(folder.file("journal.jsonl.new"), '{"crc":"');
  const store = await folder.open();
  expect(await append(store, write("session/a", 0, [1]))).toMatchObject({ outcome: "ok" });
  expect(readdirSync(folder.file()).sort()).toEqual(["journal.jsonl", "live.jsonl", "lock.db", "open.db"]);
});

test("a damaged lock file is named, with a hint", async () => {
  await (await folder.open()).close();
  writeFileSync(folder.file("lock.db"), "Dear diary, ".repeat(1_000));
  await expect(folder.open()).rejects.toMatchObject({
    code: "STORE_CORRUPT",
    message: expect.stringContaining("lock.db"),
    hint: expect.stringContaining("delete"),
  });
  rmSync(folder.file("lock.db"));
  await folder.open();
});

test("a missing store is not created when it must exist", async () => {
  await expect(folder.open({ mustExist: true })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  await expect(folder.open({ readOnly: true })).rejects.toMatchObject({ code: "STORE_NOT_FOUND" });
  expect(readdirSync(folder.path)).toEqual([]);
});

test("a path through a file is an error that names it", async () => {
  writeFileSync(join(folder.path, "plain"), "");
  await expect(folder.open({ path: join(folder.path, "plain", "store") })).rejects.toMatchObject({
    code: "STORE_IO",
    message: expect.stringContaining("plain"),
  });
});

test("folders are created readable only by the owner", async () => {
  const path = folder.file("a", "b");
  const store = await folder.open({ path });
  const bytes = new TextEncoder().encode("secret");
  await store.put({ of: "artifact", namespace: NAMESPACE, hash: sha256(bytes), bytes, at: 1 });
  await append(store, write("session/a", 0, ["secret"]));
  const snapshot = { stream: "session/a", generation: 1, seq: 1, fold: "f", payload: "{}", codec: null };
  await store.put({ of: "snapshot", namespace: NAMESPACE, ...snapshot });
  const made = [path, ...everything(path)];
  expect(made.length).toBeGreaterThan(8);
  for (const each of made) {
    const stats = statSync(each);
    expect(stats.mode & 0o777, each).toBe(stats.isDirectory() ? 0o700 : 0o600);
  }
});

test("names that look like paths never become paths", async () => {
  const hostile = ["../../escape", "/etc/passwd", "a/../../b", "..", "a\0b", "C:\\x", "x".repeat(5_000)];
  const store = await folder.open();
  const bytes = new TextEncoder().encode("x");
  for (const name of hostile) {
    const stream = `session/${name}`;
    const hash = `../${name}`;
    await store.put({ of: "artifact", namespace: name, hash, bytes, at: 1 });
    await store.append({
      id: name,
      namespace: name,
      writes: [write(stream, 0, [name], { artifacts: [hash] })],
    });
    const snapshot = { stream, generation: 1, seq: 1, fold: name, payload: "{}", codec: null };
    await store.put({ of: "snapshot", namespace: name, ...snapshot });
  }
  await store.close();
  expect(readdirSync(folder.path)).toEqual(["store"]);
  for (const path of everything(folder.file())) expect(path).toMatch(/^[\w./-]+$/);
  const again = await folder.open();
  for (const name of hostile) {
    const { writes } = await again.read({ namespace: name, stream: `session/${name}`, after: 0 });
    expect(writes.map(({ payload }) => payload)).toEqual([JSON.stringify([name])]);
    expect(await again.get({ of: "artifact", namespace: name, hash: `../${name}` })).not.toBeNull();
    const ask = { namespace: name, stream: `session/${name}`, fold: name, upTo: 1 };
    expect(await again.get({ of: "snapshot", ...ask })).toMatchObject({ payload: "{}" });
  }
});

test("many handles can create one store at the same time", async () => {
  const stores = await Promise.all(Array.from({ length: 8 }, () => folder.open()));
  const outcomes = await Promise.all(stores.map((store) => append(store, write("session/a", 0, [1]))));
  expect(outcomes.filter(({ outcome }) => outcome === "ok")).toHaveLength(1);
  for (const store of stores) expect(await headSeq(store, "session/a")).toBe(1);
});

test.skipIf(process.platform !== "linux")(
  "opening and closing many times leaves no descriptor behind",
  async () => {
    const left = () =>
      readdirSync("/proc/self/fd").filter((name) => {
        try {
          return readFileSync(`/proc/self/fdinfo/${name}`) && statSync(`/proc/self/fd/${name}`).isFile();
        } catch {
          return false;
        }
      }).length;
    await (await folder.open()).close();
    const before = left();
    for (let seq = 0; seq < 30; seq++) {
      const store = await folder.open();
      await append(store, write("session/a", seq, [seq]));
      await store.close();
    }
    expect(left()).toBe(before);
  },
);

describe("an address", () => {
  const addressOf = async (address: string): Promise<string> => {
    const holdfast = await open(address);
    await holdfast.close();
    return holdfast.address;
  };

  test("that ends with a slash creates a folder of files, and is found again without it", async () => {
    expect(await addressOf(`${folder.file()}/`)).toMatch(/^files /);
    expect(await addressOf(folder.file())).toMatch(/^files /);
  });

  test("without a slash still creates an SQLite file, and is found again with it", async () => {
    expect(await addressOf(folder.file())).toMatch(/^sqlite /);
    expect(await addressOf(`${folder.file()}/`)).toMatch(/^sqlite /);
    expect(await addressOf(folder.file("other.db"))).toMatch(/^sqlite /);
  });
});

describe("a replaced folder is noticed and not written to", () => {
  const twice = async (act: () => Promise<unknown>) => {
    await expect(act()).rejects.toMatchObject({ code: "STORE_REPLACED", unknown: false });
    await expect(act()).rejects.toMatchObject({ code: "STORE_REPLACED" });
  };

  test("when an older copy of the journal was put in its place", async () => {
    const store = await folder.open();
    await append(store, write("session/a", 0, [1]));
    writeFileSync(folder.file("older"), readFileSync(folder.journal));
    await append(store, write("session/a", 1, [2]));
    renameSync(folder.file("older"), folder.journal);
    await twice(() => append(store, write("session/a", 2, [3])));
    await twice(() => store.read({ namespace: NAMESPACE, stream: "session/a", after: 0 }));
  });

  test.each(["a generation", "events", "a lease"])(
    "when a newer journal lacks %s that this handle has read",
    async (lacks) => {
      const store = await folder.open();
      const remove = (from: Store, seq: number) =>
        from.remove({
          of: "stream",
          namespace: NAMESPACE,
          stream: "session/a",
          expect: { generation: 1, seq },
        });
      const take = (name: string) =>
        store.lease({ act: "take", namespace: NAMESPACE, name, holder: holder("one"), ttlMs: 60_000 });
      await append(store, write("session/a", 0, [1]));
      await take("session/kept");
      const path = folder.copy(readFileSync(folder.journal), true);
      // From here on both have acknowledged writes of their own. The copy is compacted, so its journal is newer.
      if (lacks === "a lease") await take("session/a");
      else await append(store, write("session/a", 1, [2]));
      if (lacks === "a generation") {
        await remove(store, 2);
        await append(store, write("session/a", 0, [3], { expect: { generation: 2, seq: 0 } }));
      }
      const copy = await folder.open({ path });
      await copy.vacuum?.();
      await copy.close();
      renameSync(join(path, "journal.jsonl"), folder.journal);
      await twice(() => store.read({ namespace: NAMESPACE, stream: "session/a", after: 0 }));
    },
  );

  test("when the folder was moved away, and also after another was created there", async () => {
    const store = await folder.open();
    await append(store, write("session/a", 0, [1]));
    renameSync(folder.file(), join(folder.path, "elsewhere"));
    await twice(() => append(store, write("session/a", 1, [2])));
    const fresh = await folder.open();
    expect(await headSeq(fresh, "session/a")).toBe(0);
    await twice(() => append(store, write("session/a", 1, [2])));
  });

  test("when the journal is the same file with another content", async () => {
    const one = { id: "one", namespace: NAMESPACE, writes: [write("session/a", 0, ["ours"])] };
    const store = await folder.open();
    await store.append(one);
    const path = join(folder.path, "twin");
    const twin = await folder.open({ path });
    await twin.append({ ...one, writes: [write("session/a", 0, ["thei"])] });
    const other = readFileSync(join(path, "journal.jsonl"));
    expect(other.length).toBe(readFileSync(folder.journal).length);
    writeFileSync(folder.journal, other);
    await twice(() => append(store, write("session/a", 1, [2])));
  });

  test("when the lock file was replaced, because two lock files exclude nothing", async () => {
    const store = await folder.open();
    await append(store, write("session/a", 0, [1]));
    unlinkSync(folder.file("lock.db"));
    await twice(() => append(store, write("session/a", 1, [2])));
  });
});

test("losing the live file loses nothing", async () => {
  const store = await folder.open();
  const other = await folder.open();
  await append(store, write("session/a", 0, [1]));
  unlinkSync(folder.file("live.jsonl"));
  await append(other, write("session/a", 1, [2]));
  await append(store, write("session/a", 2, [3]));
  expect(await headSeq(store, "session/a")).toBe(3);
  expect(await headSeq(other, "session/a")).toBe(3);
  expect(await store.check()).toEqual([]);
});
