// After an I/O error the contents of the disk are unknown. Callers without an answer get `unknown`, and
// nothing is acknowledged until a fresh connection has durably written.

import {
  copyFileSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Connection } from "../../../src/stores/sqlite/index.ts";
import { append, headSeq, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";
import { Companion, hasStrace, needs } from "./processes.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

async function run(
  name: string,
  options: readonly string[],
  together = 2,
): Promise<Record<string, Record<string, unknown>>> {
  const path = folder.file(name);
  const args = [path, folder.file(`${name}.marker`), String(together)];
  const child = new Companion("./programs/io-error.ts", args, ["strace", "-f", "-qq", ...options]);
  const said = await child.hearAll();
  await child.ended();
  return Object.fromEntries(said.map((each) => [each["step"], each]));
}

/** How many calls of `call` on the WAL come before the script's second append. */
async function countBefore(call: string): Promise<number> {
  const trace = folder.file("trace");
  await run("count.db", ["-y", "-o", trace, "-e", `trace=${call},fsync`]);
  const lines = readFileSync(trace, "utf8").split("\n");
  const upTo = lines.findIndex((line) => line.includes(".marker"));
  expect(upTo).toBeGreaterThan(0);
  return lines.slice(0, upTo).filter((line) => line.includes(`${call}(`) && line.includes("-wal>")).length;
}

/** `together`: how many acts share the flush after the marker. */
function inject(
  name: string,
  call: string,
  fault: string,
  together = 2,
): Promise<Record<string, Record<string, unknown>>> {
  const wal = `${folder.file(name)}-wal`;
  const options = ["-o", "/dev/null", "-P", wal, "-e", `trace=${call}`, "-e", `inject=${call}:${fault}`];
  return run(name, options, together);
}

describe.skipIf(!hasStrace)(needs("faults from strace", "strace", hasStrace), () => {
  test("a failed fsync leaves the whole flush unknown, and a resend settles it", async () => {
    const before = await countBefore("fsync");
    const said = await inject("fault.db", "fsync", `error=EIO:when=${before + 1}`);
    expect(said["first"]).toMatchObject({ result: { outcome: "ok" } });
    expect(said["second"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["second"]?.["message"]).toContain("fault.db");
    expect(said["neighbour 1"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["again"]).toMatchObject({ result: { outcome: "ok" } });
    expect(said["third"]).toMatchObject({ result: { outcome: "ok" } });
    expect(said["head"]).toMatchObject({ result: 3 });
    const store = await folder.open({ path: folder.file("fault.db") });
    expect(await headSeq(store, "session/a")).toBe(3);
    expect(await store.check()).toEqual([]);
  });

  test("while the disk keeps failing nothing is acknowledged", async () => {
    const before = await countBefore("fsync");
    const said = await inject("sticky.db", "fsync", `error=EIO:when=${before + 1}+`);
    expect(said["second"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["again"]).toMatchObject({ code: "STORE_IO" });
    expect(said["third"]).toMatchObject({ code: "STORE_IO" });
  });

  test("the next process empties a WAL with failed syncs before its first commit", async () => {
    const before = await countBefore("fsync");
    const failed = await inject("left.db", "fsync", `error=EIO:when=${before + 1}+`);
    expect(failed["third"]).toMatchObject({ code: "STORE_IO" });
    expect(statSync(folder.file("left.db-wal")).size).toBeGreaterThan(0);

    const trace = folder.file("trace");
    const resumed = await run("left.db", ["-y", "-o", trace, "-e", "trace=pwrite64,ftruncate,fsync"]);
    expect(resumed["third"]).toMatchObject({ result: { outcome: "ok" } });
    const lines = readFileSync(trace, "utf8").split("\n");
    const find = (call: string, file: string) =>
      lines.findIndex((line) => line.includes(`${call}(`) && line.includes(`${file}>`));
    const emptied = find("ftruncate", "left.db-wal");
    expect(lines[emptied]).toMatch(/, 0\) += 0$/);
    // The WAL is durable before it is copied, or a power cut during the copy would damage the file.
    expect(find("pwrite64", "left.db-wal")).toBeGreaterThan(-1);
    expect(find("fsync", "left.db-wal")).toBeGreaterThan(find("pwrite64", "left.db-wal"));
    expect(find("pwrite64", "left.db")).toBeGreaterThan(find("fsync", "left.db-wal"));
    expect(find("fsync", "left.db")).toBeGreaterThan(find("pwrite64", "left.db"));
    expect(emptied).toBeGreaterThan(find("fsync", "left.db"));
    const frames = lines.slice(emptied).filter((line) => /pwrite64\(.*left\.db-wal>/.test(line));
    expect(frames.length).toBeGreaterThan(0);
  });

  test.each([
    ["folders", false],
    ["an empty file", true],
  ])("%s that an ended process left have durable names before the first byte", async (_, hasFile) => {
    mkdirSync(folder.file("one/two"), { recursive: true });
    if (hasFile) writeFileSync(folder.file("one/two/store.db"), "");
    const trace = folder.file("trace");
    const said = await run("one/two/store.db", ["-y", "-o", trace, "-e", "trace=pwrite64,fsync"]);
    expect(said["third"]).toMatchObject({ result: { outcome: "ok" } });
    const lines = readFileSync(trace, "utf8").split("\n");
    const written = lines.findIndex((line) => line.includes("pwrite64(") && line.includes("store.db"));
    const synced = lines.slice(0, written).filter((line) => line.includes("fsync("));
    for (const each of ["one/two", "one", "."].map((name) => realpathSync(folder.file(name))))
      expect(synced.filter((line) => line.includes(`<${each}>`))).toHaveLength(1);
  });

  test("a disk that fills up during a commit is STORE_FULL, and the store recovers", async () => {
    const before = await countBefore("pwrite64");
    const said = await inject("full.db", "pwrite64", `error=ENOSPC:when=${before + 1}`);
    expect(said["second"]).toMatchObject({ code: "STORE_FULL", unknown: true });
    expect(said["again"]).toMatchObject({ result: { outcome: "ok" } });
    expect(said["head"]).toMatchObject({ result: 3 });
  });

  test("a resend is acknowledged only after a sync of its own", async () => {
    const before = await countBefore("fsync");
    const said = await inject("resend.db", "fsync", `error=EIO:when=${before + 2}`);
    expect(said["second"]).toMatchObject({ result: { outcome: "ok", resent: false } });
    expect(said["again"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["third"]).toMatchObject({ result: { outcome: "ok" } });
  });

  test("after a failed fsync the WAL is emptied before the next write, also beside another process", async () => {
    // While this process has the file open, closing the broken connection does not empty the WAL.
    await folder.open({ path: folder.file("count.db") });
    await folder.open({ path: folder.file("beside.db") });
    const before = await countBefore("fsync");
    const trace = folder.file("beside.trace");
    const inWal = ["-P", `${folder.file("beside.db")}-wal`, "-e", "trace=fsync,ftruncate,pwrite64"];
    const fault = ["-e", `inject=fsync:error=EIO:when=${before + 1}`];
    const said = await run("beside.db", ["-o", trace, ...inWal, ...fault]);
    expect(said["second"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["again"]).toMatchObject({ result: { outcome: "ok" } });
    const lines = readFileSync(trace, "utf8").split("\n");
    const after = lines.slice(lines.findIndex((line) => line.includes("(INJECTED)")) + 1);
    const emptied = after.findIndex((line) => /ftruncate\(\d+, 0\) += 0/.test(line));
    expect(emptied).toBeGreaterThan(-1);
    // Until then, one write from offset 0 rewrites the same bytes. A new frame would follow the others.
    const writes = after.slice(0, emptied).filter((line) => line.includes("pwrite64("));
    expect(writes).toEqual([expect.stringMatching(/, 0\) += \d+$/)]);
  });

  describe.each([3, 64])("if the COMMIT of a flush of %i acts fails", (together) => {
    test.each([
      ["EIO", "fsync", "STORE_IO"],
      // SQLite reports every failed sync alike.
      ["ENOSPC", "fsync", "STORE_IO"],
      ["EIO", "pwrite64", "STORE_IO"],
      ["ENOSPC", "pwrite64", "STORE_FULL"],
    ])("with %s at %s, every act is rejected, and a resend settles each", async (error, call, code) => {
      const before = await countBefore(call);
      const said = await inject("flush.db", call, `error=${error}:when=${before + 1}`, together);
      const neighbours = Array.from({ length: together - 1 }, (_, index) => `neighbour ${index + 1}`);
      for (const step of [...neighbours, "second"]) {
        expect(said[step], step).toMatchObject({ code, unknown: true });
      }
      for (const step of [...neighbours.map((each) => `${each} again`), "again"]) {
        expect(said[step], step).toMatchObject({ result: { outcome: "ok" } });
      }
      const store = await folder.open({ path: folder.file("flush.db") });
      expect(await headSeq(store, "session/a")).toBe(3);
      expect(await headSeq(store, `session/neighbour-${together - 1}`)).toBe(1);
      expect(await store.check()).toEqual([]);
    });
  });
});

describe("a WAL that a process left without closing", () => {
  async function left(): Promise<string> {
    const store = await folder.open();
    await append(store, write("session/a", 0, ["acknowledged"]));
    const path = folder.file("left.db");
    for (const suffix of ["", "-wal"]) copyFileSync(folder.file() + suffix, path + suffix);
    return path;
  }

  test("is emptied by an opener for writing, also through a symbolic link", async () => {
    const path = await left();
    const link = folder.file("link.db");
    symlinkSync(path, link);
    const store = await folder.open({ path: link });
    expect(statSync(`${path}-wal`).size).toBe(0);
    expect(await headSeq(store, "session/a")).toBe(1);
  });

  test("is not touched by a reader", async () => {
    const path = await left();
    const wal = readFileSync(`${path}-wal`);
    const store = await folder.open({ path, readOnly: true });
    expect(await headSeq(store, "session/a")).toBe(1);
    expect(readFileSync(`${path}-wal`).equals(wal)).toBe(true);
  });

  test("stays while another connection reads from it, and the opener can write", async () => {
    const path = await left();
    const reader = await Connection.open(path, true);
    reader.exec("BEGIN");
    reader.get("SELECT count(*) FROM meta");
    const store = await folder.open({ path });
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
    expect(await append(store, write("session/a", 1, ["next"]))).toMatchObject({ outcome: "ok" });
    await reader.close();
  });
});

test("an act that cannot be stored fails alone; others in the same flush succeed", async () => {
  const store = await folder.open();
  const [before, bad, after] = await Promise.allSettled([
    append(store, write("session/a", 0, [1])),
    append(store, write("session/b", 0, [1], { facets: { openCalls: -1 } })),
    append(store, write("session/c", 0, [1])),
  ]);
  expect(before).toMatchObject({ value: { outcome: "ok", resent: false } });
  expect(bad).toMatchObject({ reason: { code: "BATCH_INVALID", unknown: false } });
  expect(after).toMatchObject({ value: { outcome: "ok", resent: false } });
  expect(await headSeq(store, "session/b")).toBe(0);
});
