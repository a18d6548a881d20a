// Leases run by the machine's uptime. The holder is durable; the expiry is only shared with other processes.

import { readFileSync, unlinkSync } from "node:fs";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { LeaseOutcome, Store } from "../../../src/store.ts";
import { append, holder, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(() => folder.dispose());

const name = "session/a";

function take(store: Store, owner: string, ttlMs = 1_000): Promise<LeaseOutcome> {
  return store.lease({ act: "take", namespace: NAMESPACE, name, holder: holder(owner), ttlMs });
}

function renew(store: Store, token: number, ttlMs = 1_000): Promise<LeaseOutcome> {
  return store.lease({ act: "renew", namespace: NAMESPACE, leases: [{ lease: name, token }], ttlMs });
}

test("after a boot every lease has expired, and tokens continue", async () => {
  const before = await folder.open({ clock: { boot: "first", nowMs: () => 5_000_000 } });
  expect(await take(before, "one", 600_000)).toMatchObject({ outcome: "granted", lease: { token: 1 } });
  await before.close();
  const after = await folder.open({ clock: { boot: "second", nowMs: () => 10 } });
  expect(await take(after, "two")).toMatchObject({
    outcome: "granted",
    lease: { token: 2 },
    from: { owner: "one" },
  });
});

test("if the boot is unknown, a lease that would outlast its TTL has expired", async () => {
  const before = await folder.open({ clock: { boot: "unknown", nowMs: () => 5_000_000 } });
  await take(before, "one", 600_000);
  await before.close();
  const after = await folder.open({ clock: { boot: "unknown", nowMs: () => 10 } });
  expect(await take(after, "two")).toMatchObject({ outcome: "granted", lease: { token: 2 } });
});

test("a renewal writes no line, and other handles see it", async () => {
  let now = 1_000;
  const clock = { boot: "test", nowMs: () => now };
  const one = await folder.open({ clock });
  const two = await folder.open({ clock });
  await take(one, "one");
  const lines = folder.lines().length;
  for (let beat = 0; beat < 10; beat++) {
    now += 800;
    expect(await renew(one, 1)).toEqual({ outcome: "renewed", lost: [] });
  }
  expect(folder.lines()).toHaveLength(lines);
  expect(await take(two, "two")).toMatchObject({ outcome: "held", lease: { remainingMs: 1_000 } });
  now += 1_001;
  expect(await take(two, "two")).toMatchObject({ outcome: "granted", lease: { token: 2 } });
  expect(await renew(one, 1)).toMatchObject({ lost: [{ lease: name, token: 1 }] });
});

test("losing the live file ends leases early, but never lowers a token", async () => {
  let now = 1_000;
  const clock = { boot: "test", nowMs: () => now };
  const one = await folder.open({ clock });
  await take(one, "one");
  now += 900;
  await renew(one, 1);
  await one.close();
  unlinkSync(folder.file("live.jsonl"));
  now += 200;
  const two = await folder.open({ clock });
  expect(await take(two, "two")).toMatchObject({ outcome: "granted", lease: { token: 2 } });
  const late = write(name, 0, [1], { guards: [{ lease: name, token: 1 }] });
  expect(await append(two, late)).toMatchObject({ outcome: "fenced", now: { token: 2, remainingMs: 1_000 } });
});

test("every grant and release is a line, and its tokens only grow", async () => {
  const store = await folder.open();
  await take(store, "one");
  await store.close();
  const again = await folder.open();
  await again.lease({ act: "release", namespace: NAMESPACE, lease: { lease: name, token: 1 } });
  await take(again, "two");
  expect(await again.check()).toEqual([]);
  const lines = folder.lines().filter((line) => line.includes('"do":"lease"'));
  const tokens = lines.map((line) => (JSON.parse(line) as { act: { token: number } }).act.token);
  expect(tokens).toEqual([1, 1, 2]);
  expect(readFileSync(folder.file("live.jsonl"), "utf8")).toContain('"token":2');
});

test("a lease keeps its place in the live file, however often it is taken, renewed and released", async () => {
  const store = await folder.open();
  const names = ["session/a", "session/b", "session/c"];
  const sizes = new Set<number>();
  for (let round = 1; round <= 20; round++) {
    for (const each of names) {
      const ttlMs = 60_000;
      const granted = await store.lease({
        act: "take",
        namespace: NAMESPACE,
        name: each,
        holder: holder("one"),
        ttlMs,
      });
      expect(granted).toMatchObject({ outcome: "granted", lease: { token: round } });
      const lease = { lease: each, token: round };
      await store.lease({ act: "renew", namespace: NAMESPACE, leases: [lease], ttlMs });
      await store.lease({ act: "release", namespace: NAMESPACE, lease });
    }
    sizes.add(readFileSync(folder.file("live.jsonl")).length);
  }
  expect(sizes.size, "the file has one size after every round").toBe(1);
});
