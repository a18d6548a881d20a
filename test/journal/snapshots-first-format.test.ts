/** A snapshot in an old format is an unusable cache, not damage. */

import { expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "./places.ts";

test("a snapshot without a checksum is ignored without a warning, and replaced", async () => {
  const store = openMemory();
  let old = 0;
  const asOnce = altered(store, {
    put: (put, request) => {
      if (request.of !== "snapshot") return put(request);
      old += 1;
      const text = String(request.payload);
      const payload = text.slice(text.indexOf(" ") + 1);
      expect(payload.startsWith("{")).toBe(true);
      return put({ ...request, payload });
    },
  });
  const before = await open(undefined, { store: asOnce });
  const session = await before.session("s");
  for (let turn = 0; turn < 80; turn++) {
    await session.append({ role: "user", text: `${turn} `.repeat(500) }, { checkpoint: true });
  }
  await session.compact(session.messages.slice(-5), "context is full");
  await session.close();
  expect(old).toBeGreaterThan(0);

  const told: unknown[] = [];
  const now = await open(undefined, { store, warn: (error) => told.push(error) });
  expect(await now.check()).toEqual([]);
  expect((await now.sessions.at("s", 70)).messages).toHaveLength(70);
  const again = await now.session("s");
  expect(again.messages).toHaveLength(5);
  await again.append({ role: "user", text: "go on" }, { checkpoint: true });
  await again.close();
  expect(told).toEqual([]);
  const place = { namespace: "default", stream: "session/s" };
  const { rows } = await store.list<"snapshots">({ of: "snapshots", ...place });
  const { fold = "", seq: upTo = 0 } = rows.at(-1) ?? {};
  expect((await store.get({ of: "snapshot", ...place, fold, upTo }))?.payload).toMatch(/^\d+ \{/);
  expect(await now.check()).toEqual([]);
});
