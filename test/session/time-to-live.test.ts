/** A huge time to live must not make a session unreadable. */

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Bench, openBench } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const LONG_MS = [Number.MAX_SAFE_INTEGER, 1e18, Number.MAX_VALUE, 1_000.5];

describe.each(storeSubjects())("on $name", (subject) => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await openBench(subject);
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test("a session with a huge ttlMs can be listed, read and opened", async () => {
    const { holdfast } = bench.first;
    for (const [index, ttlMs] of LONG_MS.entries()) {
      const opened = await holdfast.session(`opened-${index}`, { ttlMs });
      const described = await holdfast.session(`described-${index}`);
      await described.append({ role: "user", text: "important" });
      await described.describe({ ttlMs });
      await described.refresh();
      await Promise.all([opened.close(), described.close()]);
    }
    const { sessions } = await holdfast.sessions.list();
    expect(sessions).toHaveLength(2 * LONG_MS.length);
    for (const { id, stale } of sessions) {
      expect(stale).toBe(false);
      expect(await holdfast.sessions.get(id)).toMatchObject({ id, stale: false });
      await (await holdfast.session(id)).close();
    }
    expect(await holdfast.check()).toEqual([]);
  });

  test("a goal can have a century, and no more", async () => {
    const { holdfast } = bench.first;
    const statement = "Ship it";
    await expect(holdfast.goal("g", { statement, ttlMs: Number.MAX_SAFE_INTEGER })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining("ttlMs"),
    });
    await holdfast.goal("g", { statement, ttlMs: 100 * 365 * 86_400_000 });
    expect((await holdfast.goal("g")).id).toBe("g");
    const { rows } = await holdfast.journal.list<"streams">({ of: "streams", kind: "goal", limit: 9 });
    expect(rows).toHaveLength(1);
    expect(await holdfast.check()).toEqual([]);
  });
});
