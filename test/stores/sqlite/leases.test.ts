import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { LeaseOutcome, Store } from "../../../src/store.ts";
import { append, holder, NAMESPACE, write } from "./acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.make();
});

afterEach(async () => {
  vi.useRealTimers();
  await folder.dispose();
});

function take(store: Store, owner: string, ttlMs = 30_000): Promise<LeaseOutcome> {
  return store.lease({ act: "take", namespace: NAMESPACE, name: "session/a", holder: holder(owner), ttlMs });
}

test("a lease of another boot has expired, whatever its TTL, and the next token is larger", async () => {
  const before = await folder.open({ clock: { boot: "first", nowMs: () => 5_000_000 } });
  await take(before, "old", 1_000_000);
  const after = await folder.open({ clock: { boot: "second", nowMs: () => 1_000 } });
  expect(await take(after, "new")).toMatchObject({
    outcome: "granted",
    lease: { token: 2 },
    from: { owner: "old" },
  });
  const guards = [{ lease: "session/a", token: 1 }];
  expect(await append(before, write("session/a", 0, [1], { guards }))).toMatchObject({ outcome: "fenced" });
});

test("if the boot is unknown, a lease from before it does not last forever", async () => {
  const before = await folder.open({ clock: { boot: "unknown", nowMs: () => 900_000_000 } });
  await take(before, "old");
  const after = await folder.open({ clock: { boot: "unknown", nowMs: () => 1_000 } });
  expect(await take(after, "new")).toMatchObject({ outcome: "granted" });
});

test("setting the wall clock changes nothing for a lease", async () => {
  const store = await folder.open();
  await take(store, "one");
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 365 * 86_400_000 });
  expect(await take(store, "two")).toMatchObject({ outcome: "held", lease: { token: 1 } });
  vi.setSystemTime(0);
  expect(await take(store, "two")).toMatchObject({ outcome: "held", lease: { token: 1 } });
});

test("a guarded append renews its lease, by its TTL, once a quarter has passed", async () => {
  let upMs = 1_000_000;
  const store = await folder.open({ clock: { boot: "this", nowMs: () => upMs } });
  await take(store, "one", 1_000);
  const remaining = async () => {
    const { rows } = await store.list({ of: "leases", namespace: NAMESPACE, limit: 1 });
    return rows[0]?.remainingMs;
  };
  const guards = [{ lease: "session/a", token: 1 }];
  upMs += 200;
  await append(store, write("session/a", 0, [1], { guards }));
  expect(await remaining()).toBe(800);
  upMs += 100;
  await append(store, write("session/a", 1, [2], { guards }));
  expect(await remaining()).toBe(1_000);
  upMs += 5_000;
  await append(store, write("session/a", 2, [3], { guards }));
  expect(await remaining()).toBe(1_000);
});

test("a cached lease does not outlive a change by another handle", async () => {
  let upMs = 1_000_000;
  const clock = { boot: "this", nowMs: () => upMs };
  const first = await folder.open({ clock });
  const second = await folder.open({ clock });
  await take(first, "one", 1_000);
  const guards = [{ lease: "session/a", token: 1 }];
  expect(await append(first, write("session/a", 0, [1], { guards }))).toMatchObject({ outcome: "ok" });
  upMs += 2_000;
  expect(await take(second, "two")).toMatchObject({ outcome: "granted", lease: { token: 2 } });
  expect(await append(first, write("session/a", 1, [2], { guards }))).toMatchObject({
    outcome: "fenced",
    now: { token: 2, holder: { owner: "two" } },
  });
});
