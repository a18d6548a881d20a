/**
 * Processes on one machine whose lease clocks cannot be compared: a sandbox hides the boot id, a container
 * has its own time namespace. A renewed lease is not taken, and one that is not renewed still expires.
 */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LeaseOutcome, Store } from "../../src/store.ts";
import type { Clock } from "../../src/stores/kit/index.ts";
import { TestFolder as FilesFolder } from "./files/folder.ts";
import { holder, NAMESPACE } from "./sqlite/acts.ts";
import { TestFolder as SqliteFolder } from "./sqlite/folder.ts";

const name = "session/a";
const TTL_MS = 1_000;

const CLOCKS = [
  ["here the boot is hidden", { boot: "this", zone: "1" }, { boot: "unknown" }],
  ["there the boot is hidden", { boot: "unknown" }, { boot: "this", zone: "1" }],
  ["here another time namespace", { boot: "this", zone: "1" }, { boot: "this", zone: "2" }],
  ["there no time namespace is known", { boot: "this" }, { boot: "this", zone: "1" }],
] as const;

describe.each([
  ["sqlite", SqliteFolder],
  ["files", FilesFolder],
] as const)("on %s", (_store, Folder) => {
  let folder: SqliteFolder | FilesFolder;

  beforeEach(async () => {
    folder = await Folder.make();
  });
  afterEach(() => folder.dispose());

  function take(store: Store, owner: string): Promise<LeaseOutcome> {
    return store.lease({ act: "take", namespace: NAMESPACE, name, holder: holder(owner), ttlMs: TTL_MS });
  }

  function renew(store: Store): Promise<LeaseOutcome> {
    const leases = [{ lease: name, token: 1 }];
    return store.lease({ act: "renew", namespace: NAMESPACE, leases, ttlMs: TTL_MS });
  }

  test.each(CLOCKS)("%s", async (_what, there, here) => {
    // Both clocks run on, from unrelated times.
    let passedMs = 0;
    const from = (place: Pick<Clock, "boot" | "zone">, startMs: number): Clock => ({
      ...place,
      nowMs: () => startMs + passedMs,
    });
    const other = await folder.open({ clock: from(there, 5_000_000) });
    const own = await folder.open({ clock: from(here, 90_000_000) });
    expect(await take(other, "one")).toMatchObject({ outcome: "granted", lease: { token: 1 } });
    expect(await take(own, "two")).toMatchObject({ outcome: "held", lease: { token: 1 } });
    for (let times = 0; times < 3; times++) {
      passedMs += 900;
      expect(await renew(other)).toMatchObject({ outcome: "renewed", lost: [] });
      expect(await take(own, "two")).toMatchObject({ outcome: "held", lease: { token: 1 } });
    }
    passedMs += 900;
    expect(await take(own, "two")).toMatchObject({ outcome: "held", lease: { remainingMs: 100 } });
    passedMs += 101;
    expect(await take(own, "two")).toMatchObject({ outcome: "granted", lease: { token: 2 } });
  });
});
