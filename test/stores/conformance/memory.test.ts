import { test } from "vitest";
import { storeSuite } from "../../../src/testing/index.ts";
import { openMemoryForTest } from "./memory-subject.ts";
import { runStoreSuite } from "./run.ts";

runStoreSuite({ name: "memory", open: () => openMemoryForTest() });

test("the suite can wait for leases of a store whose clock cannot be moved", async () => {
  const open = async () => {
    const { advanceMs: _, ...opened } = await openMemoryForTest(undefined, () =>
      Math.floor(performance.now()),
    );
    return opened;
  };
  const cases = storeSuite({ name: "memory", open });
  const timed = cases.filter(({ topic }) => topic === "leases" || topic === "guards and fencing");
  await Promise.all(timed.map(({ run }) => runOnACalmMachine(run)));
});

const TRIES = 5;

/** Retries: leases of less than half a second also expire while the machine pauses. */
async function runOnACalmMachine(run: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await run();
    } catch (error) {
      if (tries === TRIES) throw error;
    }
  }
}
