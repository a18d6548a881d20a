// A record that was changed, moved, dropped or added behind Holdfast's back breaks the chain of its stream,
// even if its checksum was made anew.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { sha256 } from "../../src/model/digest.ts";
import { runInside } from "../cli/inside.ts";
import { needs } from "../stores/sqlite/processes.ts";

let folder: string;
let file: string;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "holdfast-chain-"));
  file = join(folder, "state.db");
  const holdfast = await open(file);
  const session = await holdfast.session("order-1");
  for (const text of ["pay 100", "to ann", "today"]) await session.append({ role: "user", text });
  await session.checkpoint("before");
  await session.close();
  await holdfast.sessions.fork("order-1", "order-2", { version: 1 });
  const fork = await holdfast.session("order-2");
  await fork.append({ role: "user", text: "pay 200" });
  await fork.close();
  await holdfast.close();
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

const verify = (...args: string[]) => runInside(folder, ["verify", ...args], { HOLDFAST_STORE: file });

type Database = InstanceType<typeof DatabaseSync>;
type Row = { id: number | bigint; payload: string; batch: string };

/** Changes the file as somebody with a SQL shell would. */
function tamper(change: (database: Database, rows: Row[]) => void): void {
  const database = new DatabaseSync(file);
  const rows = database
    .prepare(
      "SELECT id, CAST(payload AS TEXT) AS payload, batch FROM writes WHERE payload LIKE '%pay 100%' OR payload LIKE '%to ann%' ORDER BY id",
    )
    .all() as unknown as Row[];
  expect(rows).toHaveLength(2);
  change(database, rows);
  database.close();
}

function setPayload(database: Database, id: Row["id"], payload: string): void {
  database
    .prepare("UPDATE writes SET payload = CAST(? AS BLOB), sum = ? WHERE id = ?")
    .run(payload, crc32(payload), id);
}

test("an untouched store verifies, and grows without breaking a link", async () => {
  const first = await verify();
  expect(first).toMatchObject({ code: 0 });
  expect(first.out).toContain("are as they were written");
  const holdfast = await open(file);
  const session = await holdfast.session("order-1");
  await session.append({ role: "user", text: "one more" });
  await session.close();
  expect(await holdfast.check()).toEqual([]);
  await holdfast.close();
  expect(await verify()).toMatchObject({ code: 0 });
});

test("a stream with a snapshot, opened again and again, stays linked", async () => {
  const holdfast = await open(file);
  for (let round = 0; round < 5; round++) {
    const session = await holdfast.session("long");
    for (let turn = 0; turn < 40; turn++) await session.append({ role: "user", text: "x".repeat(2_000) });
    await session.save({
      messages: [{ id: "m", role: "user", createdAt: new Date().toISOString(), blocks: [] }],
    });
    await session.close();
  }
  await holdfast.close();
  const database = new DatabaseSync(file, { readOnly: true });
  expect(database.prepare("SELECT count(*) AS count FROM snapshots").get()).not.toEqual({ count: 0 });
  database.close();
  expect(await verify()).toMatchObject({ code: 0 });
});

describe("verify and check notice", () => {
  test.each<[string, (database: Database, rows: Row[]) => void]>([
    [
      "a changed amount with a new checksum",
      (database, [row]) => setPayload(database, row?.id ?? 0, row?.payload.replace("100", "999") ?? ""),
    ],
    [
      "two records that were exchanged",
      (database, [one, two]) => {
        setPayload(database, one?.id ?? 0, two?.payload ?? "");
        setPayload(database, two?.id ?? 0, one?.payload ?? "");
      },
    ],
    [
      "a changed time",
      (database, [row]) => database.prepare("UPDATE writes SET at = at + 1 WHERE id = ?").run(row?.id ?? 0),
    ],
    [
      "a link that was removed",
      (database, [row]) =>
        database.prepare("UPDATE writes SET batch = 'mine' WHERE id = ?").run(row?.id ?? 0),
    ],
  ])("%s", async (_, change) => {
    tamper(change);
    const { code, out } = await verify();
    expect({ code, out }).toMatchObject({ code: 5, out: expect.stringContaining("session/order-1: events") });
    const holdfast = await open(file);
    expect((await holdfast.check()).map(({ where }) => where)).toContain("session/order-1");
    await holdfast.close();
  });
});

test("an export carries the links, and a changed one is noticed", async () => {
  const exported = join(folder, "all.jsonl");
  expect(await runInside(folder, ["export", exported], { HOLDFAST_STORE: file })).toMatchObject({ code: 0 });
  expect(await verify(exported)).toMatchObject({ code: 0 });
  const changed = readFileSync(exported, "utf8").replace("pay 100", "pay 999");
  const lines = changed.trimEnd().split("\n");
  const body = `${lines.slice(0, -1).join("\n")}\n`;
  const end = JSON.parse(lines.at(-1) ?? "");
  end.end.sha256 = sha256(body);
  writeFileSync(exported, `${body}${JSON.stringify(end)}\n`);
  const { code, out } = await verify(exported);
  expect(code).toBe(5);
  expect(out).toContain("session/order-1");
});

const hasKeygen = (() => {
  try {
    execFileSync("ssh-keygen", ["-?"], { stdio: "ignore" });
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ENOENT";
  }
  return true;
})();

describe.skipIf(!hasKeygen)(needs("signed heads", "ssh-keygen", hasKeygen), () => {
  let key: string;
  let signers: string;
  let heads: string;

  beforeEach(async () => {
    key = join(folder, "key");
    signers = join(folder, "allowed_signers");
    heads = join(folder, "heads.json");
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", key]);
    writeFileSync(signers, `ann@example.com ${readFileSync(`${key}.pub`, "utf8")}`);
    expect(await verify("--save", heads, "--sign", key)).toMatchObject({ code: 0 });
  });

  const against = () => verify("--against", heads, "--signers", signers);

  test("a store that only grew agrees with them", async () => {
    const holdfast = await open(file);
    const session = await holdfast.session("order-1");
    await session.append({ role: "user", text: "one more" });
    await session.close();
    await holdfast.close();
    const { code, out } = await against();
    expect(code).toBe(0);
    expect(out).toContain("signed by ann@example.com");
  });

  test("a whole new chain is noticed, which verify alone cannot", async () => {
    rmSync(file);
    for (const each of ["-wal", "-shm"]) rmSync(`${file}${each}`, { force: true });
    const holdfast = await open(file);
    const session = await holdfast.session("order-1");
    for (const text of ["pay 999", "to bob", "today", "and", "more"])
      await session.append({ role: "user", text });
    await session.close();
    await holdfast.close();
    expect(await verify()).toMatchObject({ code: 0 });
    const { code, out } = await against();
    expect(code).toBe(5);
    expect(out).toContain("session/order-1: its events up to");
    expect(out).toContain("session/order-2: it was removed since the heads were saved");
  });

  test("changed heads, or heads that another key signed, are refused", async () => {
    const honest = readFileSync(heads, "utf8");
    writeFileSync(heads, honest.replace('"seq": ', '"seq":  '));
    expect(await against()).toMatchObject({ code: 2, err: expect.stringContaining("signature") });
    writeFileSync(heads, honest);
    const other = join(folder, "other");
    execFileSync("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", other]);
    rmSync(`${heads}.sig`);
    execFileSync("ssh-keygen", ["-q", "-Y", "sign", "-n", "holdfast-heads", "-f", other, heads]);
    expect(await against()).toMatchObject({ code: 2, err: expect.stringContaining("signature") });
  });
});
