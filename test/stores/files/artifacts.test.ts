// Files of artifacts: a repeated put repairs a damaged file, and a write that did not fit or was killed
// leaves nothing behind.

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, watch, writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../../../src/store.ts";
import { append, NAMESPACE, write } from "../sqlite/acts.ts";
import { Companion, hasStrace, needs } from "../sqlite/processes.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.makeQuick();
});

afterEach(() => folder.dispose());

const BYTES = Buffer.alloc(3_000_000, "A");
const HASH = createHash("sha256").update(BYTES).digest("hex");

const put = (store: Store, at: number) =>
  store.put({ of: "artifact", namespace: NAMESPACE, hash: HASH, bytes: BYTES, at });

function files(): string[] {
  return readdirSync(folder.file(), { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(folder.file(name)).isFile())
    .sort();
}

const artifactFile = (): string => {
  const [name] = files().filter((each) => each.startsWith("artifacts"));
  return folder.file(name as string);
};

async function expectWhole(store: Store): Promise<void> {
  const found = await store.get({ of: "artifact", namespace: NAMESPACE, hash: HASH });
  expect(BYTES.equals(found?.payload as Uint8Array)).toBe(true);
  expect(await store.check()).toEqual([]);
}

const DAMAGES: Readonly<Record<string, (path: string) => void>> = {
  "changed near the end": (path) => {
    const bytes = readFileSync(path);
    bytes[bytes.length - 5] = 66;
    writeFileSync(path, bytes);
  },
  "cut short": (path) => truncateSync(path, 1_000),
  lost: (path) => rmSync(path),
};

test.each(Object.entries(DAMAGES))(
  "bytes that were %s are repaired by putting them again",
  async (_, hurt) => {
    const store = await folder.open();
    await put(store, 1_000);
    hurt(artifactFile());
    expect(await store.check()).toMatchObject([{ invariant: "I2" }]);
    // Also by a process whose clock is behind.
    await put(store, 500);
    await expectWhole(store);
  },
);

test("correct bytes are not written again", async () => {
  const store = await folder.open();
  await put(store, 1_000);
  const { ino, mtimeNs } = statSync(artifactFile(), { bigint: true });
  await put(store, 2_000);
  expect(statSync(artifactFile(), { bigint: true })).toMatchObject({ ino, mtimeNs });
});

/** A process that puts the artifact, then appends. */
function putter(...wrapper: string[]): Companion {
  return new Companion(
    new URL("./programs/artifact-putter.ts", import.meta.url).href,
    [folder.file()],
    wrapper,
  );
}

test("an artifact that does not fit leaves nothing behind, and the store stays usable", async () => {
  // No file may grow beyond a megabyte.
  const child = putter("sh", "-c", 'ulimit -f 2048; exec "$0" "$@"');
  const said = await child.hearAll();
  expect(said[0]).toMatchObject({ step: "put", code: "STORE_IO" });
  expect(said[1]).toMatchObject({ step: "append", outcome: "ok" });
  expect(files()).toEqual(["journal.jsonl", "live.jsonl", "lock.db", "open.db"]);
});

test("erasing a stream also erases a half-written artifact", async () => {
  const store = await folder.open();
  await append(store, write("session/a", 0, [1]));
  const before = files();
  writeFileSync(folder.file("unnamed.new"), "a secret");
  const what = { stream: "session/a", expect: { generation: 1, seq: 1 }, erase: true } as const;
  await store.remove({ of: "stream", namespace: NAMESPACE, ...what });
  expect(files()).toEqual(before);
});

/** Right before it gets its name: the process renames nothing else. */
const atRename = (fault: string): string[] => {
  const calls = "?rename,?renameat,renameat2";
  const options = ["-f", "-qq", "-o", "/dev/null", "-e", `trace=${calls}`, "-e", `inject=${calls}:${fault}`];
  return ["strace", ...options];
};

describe.skipIf(!hasStrace)(needs("faults from strace", "strace", hasStrace), () => {
  test("the next opener deletes a file that a crash left half-written", async () => {
    await (await folder.open()).close();
    const before = files();
    const child = putter(...atRename("signal=SIGKILL"));
    expect(await child.hearAll()).toEqual([]);
    await child.ended();
    const left = files().filter((name) => !before.includes(name));
    expect(left.map((name) => statSync(folder.file(name)).size)).toEqual([BYTES.length]);
    const store = await folder.open();
    expect(files()).toEqual(before);
    await put(store, 1_000);
    await expectWhole(store);
  });

  test("an opener leaves a file alone that another process is writing", async () => {
    await (await folder.open()).close();
    const isWriting = new Promise<void>((resolve) => {
      const watcher = watch(folder.file(), (_, name) => {
        if (!name?.endsWith(".new")) return;
        watcher.close();
        resolve();
      });
    });
    const child = putter(...atRename("delay_enter=500000"));
    await isWriting;
    const store = await folder.open();
    expect(await child.hearAll()).toMatchObject([{ step: "put", ok: true }, { outcome: "ok" }]);
    await expectWhole(store);
  });
});
