// After an I/O error the contents of the disk are unknown. Callers without an answer get `unknown`, and
// nothing is acknowledged until a fresh handle has judged the tail and durably written.

import { mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFiles } from "../../../src/stores/files/index.ts";
import { append, headSeq, write } from "../sqlite/acts.ts";
import { hasStrace, needs } from "../sqlite/processes.ts";
import { FilesWorkshop } from "./workshop.ts";

let workshop: FilesWorkshop;

beforeAll(async () => {
  workshop = await FilesWorkshop.make();
});

afterAll(() => workshop.dispose());

type Said = Record<string, Record<string, unknown>>;

async function run(place: string, options: readonly string[]): Promise<Said> {
  const program = workshop.command("io-error", join(place, "store"), join(place, "marker"));
  const running = workshop.run(["strace", "-f", "-qq", ...options, ...program]);
  const { code, errors } = await running.ended;
  expect(code, errors).toBe(0);
  const said = running.lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  return Object.fromEntries(said.map((each) => [String(each["step"]), each]));
}

/** How many calls of `call` on this file come before the script's second append. */
async function countBefore(call: string, name: string): Promise<number> {
  const place = await workshop.place();
  const trace = join(place, "trace");
  await run(place, ["-y", "-o", trace, "-e", `trace=${call},fsync`]);
  const lines = readFileSync(trace, "utf8").split("\n");
  const upTo = lines.findIndex((line) => line.includes("/marker"));
  expect(upTo).toBeGreaterThan(0);
  return lines.slice(0, upTo).filter((line) => line.includes(`${call}(`) && line.includes(`/${name}>`))
    .length;
}

async function inject(
  call: string,
  fault: string,
  name = "journal.jsonl",
): Promise<{ said: Said; path: string; injected: number }> {
  const place = await workshop.place();
  const path = join(place, "store");
  const trace = join(place, "trace");
  const only = ["-P", join(path, name), "-e", `trace=${call}`, "-e", `inject=${call}:${fault}`];
  const said = await run(place, ["-o", trace, ...only]);
  const injected = readFileSync(trace, "utf8").split("(INJECTED)").length - 1;
  return { said, path, injected };
}

describe.skipIf(!hasStrace)(needs("faults from strace", "strace", hasStrace), () => {
  const OK = { result: { outcome: "ok" } };

  test("a failed sync leaves the whole flush unknown, and a resend settles it", async () => {
    const before = await countBefore("fdatasync", "journal.jsonl");
    const { said, path, injected } = await inject("fdatasync", `error=EIO:when=${before + 1}`);
    expect(injected).toBe(1);
    expect(said["first"]).toMatchObject(OK);
    expect(said["second"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["second"]?.["message"]).toContain(path);
    expect(said["neighbour 1"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["again"]).toMatchObject(OK);
    expect(said["third"]).toMatchObject(OK);
    expect(said["head"]).toMatchObject({ result: 3 });
    const store = await openFiles({ path });
    expect(await headSeq(store, "session/a")).toBe(3);
    expect(await store.check()).toEqual([]);
    await store.close();
  });

  test("the tail of a failed sync is written and synced again before anything follows it", async () => {
    const before = await countBefore("fdatasync", "journal.jsonl");
    const place = await workshop.place();
    const path = join(place, "store");
    const trace = join(place, "trace");
    const calls = "pwrite64,fsync,fdatasync,openat";
    const only = ["-P", join(path, "journal.jsonl"), "-e", `trace=${calls}`];
    await run(place, ["-o", trace, ...only, "-e", `inject=fdatasync:error=EIO:when=${before + 1}`]);
    const names = readFileSync(trace, "utf8")
      .split("\n")
      .map((line) => (line.includes("INJECTED") ? "failed" : (/ (\w+)\(/.exec(line)?.[1] ?? "")));
    const after = names.slice(names.indexOf("failed") + 1);
    // The tail again, synced; the proof line, synced; only then the resend, which finds its batch.
    expect(after.slice(0, 5)).toEqual(["openat", "pwrite64", "fsync", "pwrite64", "fdatasync"]);
  });

  /** The folders that are synced before the first write to the journal or to a new one. */
  async function syncedFirst(place: string): Promise<string[]> {
    const trace = join(place, "trace");
    await run(place, ["-y", "-o", trace, "-e", "trace=pwrite64,fsync"]);
    const lines = readFileSync(trace, "utf8").split("\n");
    const written = lines.findIndex((line) => line.includes("pwrite64(") && line.includes("journal.jsonl"));
    return lines.slice(0, written).flatMap((line) => /fsync\(\d+<([^>]+)>/.exec(line)?.[1] ?? []);
  }

  test("folders that an ended process left have durable names before the first byte", async () => {
    const place = await workshop.place();
    mkdirSync(join(place, "store"));
    expect(await syncedFirst(place)).toEqual(expect.arrayContaining([join(place, "store"), place]));
  });

  test("a journal whose last holder ended before its mark has a durable name before a line follows", async () => {
    const place = await workshop.place();
    const path = join(place, "store");
    await (await openFiles({ path })).close();
    rmSync(join(path, "live.jsonl"));
    expect(await syncedFirst(place)).toContain(path);
    // With the mark it is known to be durable.
    const other = await workshop.place();
    await (await openFiles({ path: join(other, "store") })).close();
    expect(await syncedFirst(other)).not.toContain(join(other, "store"));
  });

  test("while the disk keeps failing nothing is acknowledged", async () => {
    const before = await countBefore("fdatasync", "journal.jsonl");
    const { said } = await inject("fdatasync", `error=EIO:when=${before + 1}+`);
    expect(said["second"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["again"]).toMatchObject({ code: "STORE_IO" });
    expect(said["third"]).toMatchObject({ code: "STORE_IO" });
  });

  test("a disk that fills up during a write is STORE_FULL, and the store recovers", async () => {
    const before = await countBefore("pwrite64", "journal.jsonl");
    const { said, path } = await inject("pwrite64", `error=ENOSPC:when=${before + 1}`);
    expect(said["second"]).toMatchObject({ code: "STORE_FULL", unknown: true });
    expect(said["again"]).toMatchObject(OK);
    expect(said["head"]).toMatchObject({ result: 3 });
    const store = await openFiles({ path });
    expect(await store.check()).toEqual([]);
    await store.close();
  });

  test("a mark that cannot be written prevents the acknowledgement", async () => {
    const before = await countBefore("pwrite64", "live.jsonl");
    const { said, path } = await inject("pwrite64", `error=EIO:when=${before + 1}`, "live.jsonl");
    expect(said["second"]).toMatchObject({ code: "STORE_IO", unknown: true });
    expect(said["again"]).toMatchObject({ result: { outcome: "ok", resent: true } });
    const store = await openFiles({ path });
    expect(await headSeq(store, "session/a")).toBe(3);
    await store.close();
  });
});

test("an act that cannot be stored fails alone; others in the same flush succeed", async () => {
  const store = await openFiles({ path: join(await workshop.place(), "store") });
  const impossible = { budget: 1n as unknown as string };
  const [before, bad, after] = await Promise.allSettled([
    append(store, write("session/a", 0, [1])),
    append(store, write("session/b", 0, [1], { facets: impossible })),
    append(store, write("session/c", 0, [1])),
  ]);
  expect(before).toMatchObject({ value: { outcome: "ok", resent: false } });
  expect(bad).toMatchObject({ reason: { code: "BATCH_INVALID", unknown: false } });
  expect(after).toMatchObject({ value: { outcome: "ok", resent: false } });
  expect(await headSeq(store, "session/b")).toBe(0);
  await store.close();
});
