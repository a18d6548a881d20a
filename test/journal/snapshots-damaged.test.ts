/** A snapshot only saves time: a damaged one loses nothing. */

import { expect, test } from "vitest";
import { open } from "../../src/index.ts";
import type { Blob } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "./places.ts";

const DAMAGES: Readonly<Record<string, (blob: Blob) => Blob>> = {
  "cut off": (blob) => ({ ...blob, payload: blob.payload.slice(0, 100) }),
  "of other words": (blob) => ({ ...blob, payload: String(blob.payload).replace("79 79", "78 78") }),
  "no state": (blob) => ({ ...blob, payload: "null" }),
  "of a codec that nobody has": (blob) => ({ ...blob, codec: "lost" }),
};

test.each(Object.entries(DAMAGES))(
  "%s: the session opens from its events, and check tells of it",
  async (_, hurt) => {
    let damaged = 0;
    const harm = (blob: Blob | null): Blob | null => {
      if (!blob) return blob;
      damaged += 1;
      return hurt(blob);
    };
    const store = altered(openMemory(), {
      get: async (get, request) => harm(await get(request)),
      read: async (read, request) => {
        const page = await read(request);
        return { ...page, snapshot: harm(page.snapshot) };
      },
    });
    const told: unknown[] = [];
    const holdfast = await open(undefined, { store, warn: (error) => told.push(error) });
    const session = await holdfast.session("s");
    for (let turn = 0; turn < 80; turn++)
      await session.append({ role: "user", text: `${turn} `.repeat(500) }, { checkpoint: true });
    // Now the state is much smaller than its history.
    await session.compact(session.messages.slice(-5), "context is full");
    await session.close();
    // Another program: this one still knows the session.
    const other = await open(undefined, { store, warn: (error) => told.push(error) });
    const again = await other.session("s");
    expect(again.messages).toHaveLength(5);
    await again.close();
    expect((await holdfast.sessions.at("s", 70)).messages).toHaveLength(70);
    expect(damaged, "there was one").toBeGreaterThan(0);
    expect(told[0]).toMatchObject({ code: "EVENT_CORRUPT", message: /snapshot .* cannot be read/ });
    const problems = await holdfast.check();
    expect(problems).toMatchObject([{ invariant: "I10", what: expect.stringContaining("cannot be read") }]);
    await holdfast.close();
  },
);
