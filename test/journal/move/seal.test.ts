// Once a store is sealed, nothing is written to it, even by writers that were about to.

import { afterAll, describe, expect, test } from "vitest";
import { isHoldfastError } from "../../../src/index.ts";
import type { Seal, Store } from "../../../src/store.ts";
import { append, headSeq, write } from "../../stores/sqlite/acts.ts";
import { storeSubjects } from "../../subjects.ts";

const subjects = storeSubjects();

afterAll(async () => {
  await Promise.all(subjects.map((subject) => subject.dispose()));
});

/** Appends until it is rejected, and returns the number of acknowledged appends. */
async function writeOn(store: Store, stream: string, told: () => void): Promise<number> {
  for (let seq = 0; ; seq++) {
    try {
      await append(store, write(stream, seq, [seq]));
      told();
    } catch (error) {
      if (!isHoldfastError(error, "STORE_READONLY")) throw error;
      return seq;
    }
  }
}

describe.each(subjects)("$name", (subject) => {
  test("an append in flight lands before the seal or is rejected; none lands after it", async () => {
    const place = await subject.open();
    const handles = [place.store, await place.another(), await place.another()];
    const streams = Array.from({ length: 9 }, (_, index) => `session/s${index}`);
    let acknowledged = 0;
    let enough = (): void => undefined;
    const hasEnough = new Promise<void>((resolve) => {
      enough = resolve;
    });
    const writers = streams.map((stream, index) =>
      writeOn(handles[index % handles.length] as Store, stream, () => {
        acknowledged += 1;
        if (acknowledged >= 60) enough();
      }),
    );
    await hasEnough;
    const seal: Seal = { phase: "leaving", move: "m1", other: "elsewhere" };
    expect(await place.store.moving?.reseal(null, seal)).toBe(true);
    const atTheSeal = await Promise.all(streams.map((stream) => headSeq(place.store, stream)));
    const counted = await Promise.all(writers);
    expect(await Promise.all(streams.map((stream) => headSeq(place.store, stream)))).toEqual(atTheSeal);
    expect(counted).toEqual(atTheSeal);
    expect(await place.store.moving?.reseal(seal, null)).toBe(true);
    for (const [index, stream] of streams.entries()) {
      const next = write(stream, counted[index] ?? 0, ["after"]);
      expect(await append(handles[2] as Store, next)).toMatchObject({ outcome: "ok" });
    }
    await place.dispose();
  });
});
