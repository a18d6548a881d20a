/**
 * Containers with an uptime of their own, as LXCFS makes it: a file is mounted over /proc/uptime. The boot
 * and the time namespace are still the machine's.
 */

import { writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { LeaseOutcome, Store } from "../../../src/store.ts";
import { holder, NAMESPACE } from "./acts.ts";
import { TestFolder } from "./folder.ts";
import { Companion, canMountOnProc, needs } from "./processes.ts";

const LONG_MS = 30_000;
const JUST_BEGUN = 120;
const LONG_AGO = 99_999_999;

const name = "in containers with an uptime of their own";

describe.skipIf(!canMountOnProc)(needs(name, "mounting on /proc", canMountOnProc), () => {
  let folder: TestFolder;

  beforeEach(async () => {
    folder = await TestFolder.make();
  });

  afterEach(() => folder.dispose());

  /** The outcome for a process that takes the lease while it sees this uptime. */
  async function takenAt(upSeconds: number, owner: string, ttlMs: number): Promise<unknown> {
    const shown = folder.file(`uptime-${owner}`);
    writeFileSync(shown, `${upSeconds}.00 ${upSeconds}.00\n`);
    const inside = ["unshare", "-m", "sh", "-c", `mount --bind "$0" /proc/uptime && exec "$@"`, shown];
    const process = new Companion("programs/lease-taker.ts", [folder.file(), owner, String(ttlMs)], inside);
    const said = await process.hear();
    expect(await process.ended()).toBe(0);
    return said;
  }

  function taken(store: Store, ttlMs: number): Promise<LeaseOutcome> {
    return store.lease({
      act: "take",
      namespace: NAMESPACE,
      name: "session/a",
      holder: holder("here"),
      ttlMs,
    });
  }

  test.each([JUST_BEGUN, LONG_AGO])(
    "a lease held outside is not taken by a container that is up %d s",
    async (up) => {
      expect(await taken(await folder.open(), LONG_MS)).toMatchObject({ outcome: "granted" });
      expect(await takenAt(up, "inside", LONG_MS)).toMatchObject({ outcome: "held" });
    },
  );

  test.each([JUST_BEGUN, LONG_AGO])(
    "a lease held by a container that is up %d s is not taken outside",
    async (up) => {
      expect(await takenAt(up, "inside", LONG_MS)).toMatchObject({ outcome: "granted" });
      expect(await taken(await folder.open(), LONG_MS)).toMatchObject({ outcome: "held" });
    },
  );

  test("two containers agree on how long a lease has left", async () => {
    expect(await takenAt(JUST_BEGUN, "one", 1)).toMatchObject({ outcome: "granted", lease: { token: 1 } });
    expect(await takenAt(LONG_AGO, "two", LONG_MS)).toMatchObject({
      outcome: "granted",
      lease: { token: 2 },
    });
    expect(await takenAt(JUST_BEGUN, "three", LONG_MS)).toMatchObject({
      outcome: "held",
      lease: { token: 2 },
    });
  });
});
