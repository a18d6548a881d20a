// Removals that meet another one, a lost lease, or a fork that is made in between.

import { describe, expect, test } from "vitest";
import { Journal, Lease } from "../../src/journal/index.ts";
import type { Guard, Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "./places.ts";
import { said, words } from "./words.ts";

async function guardOf(journal: Journal, stream: string): Promise<Guard> {
  const lease = await journal.leases.take(stream, "me", { label: "me", waitMs: 0 });
  if (!(lease instanceof Lease)) throw new Error(`${stream} is held`);
  return lease.guard;
}

const write = async (journal: Journal, id: string) =>
  (await journal.open(words, id)).commit(() => said(`${id}.1`, `${id}.2`));

async function forkOf(journal: Journal, id: string, child: string): Promise<void> {
  const { log, fork } = await journal.fork(words, id, 1, child);
  await log.commit(() => ({ ...said("own"), fork }));
}

const stateOf = async (journal: Journal, id: string) => (await journal.row(`words/${id}`)).state;

test("a stream that is not there is gone, and not removed, also for a caller that holds its name", async () => {
  const journal = new Journal({ store: openMemory() });
  expect(await journal.remove("words/w")).toBe("gone");
  const guards = [await guardOf(journal, "words/w")];
  expect(await journal.remove("words/w", { guards })).toBe("gone");
  await write(journal, "w");
  expect(await journal.remove("words/w", { guards })).toBe("removed");
  expect(await journal.remove("words/w", { guards })).toBe("gone");
});

describe.each([{ erase: true }, {}] as const)("with %o", (how) => {
  test("a caller that has lost its lease removes nothing", async () => {
    const store = openMemory();
    const [mine, theirs] = [new Journal({ store }), new Journal({ store })];
    await write(mine, "w");
    const guard = await guardOf(mine, "words/w");
    const stale = { ...guard, token: guard.token - 1 };
    expect(await theirs.remove("words/w", { ...how, guards: [stale] })).toBe("held");
    expect(await stateOf(mine, "w")).toBe("live");
    expect(await mine.remove("words/w", { ...how, guards: [guard] })).toBe("removed");
  });
});

test("an erase of a hidden stream takes its forks, and itself with the last of them", async () => {
  const journal = new Journal({ store: openMemory() });
  await write(journal, "parent");
  for (const child of ["a", "b"]) await forkOf(journal, "parent", child);
  expect(await journal.remove("words/parent")).toBe("hidden");
  expect(await journal.remove("words/parent", { erase: true })).toBe("removed");
  for (const id of ["parent", "a", "b"]) expect(await stateOf(journal, id)).toBe("gone");
});

test("a fork that is made during an erase is erased, too; a mere removal hides its parent", async () => {
  for (const how of [{ erase: true }, {}] as const) {
    const plain = new Journal({ store: openMemory() });
    await write(plain, "parent");
    let forks = 0;
    const store: Store = altered(plain.store, {
      remove: async (remove, request) => {
        const isParent = request.of === "stream" && request.stream === "words/parent";
        if (isParent && forks++ === 0) await forkOf(plain, "parent", "late");
        return remove(request);
      },
    });
    const result = await new Journal({ store }).remove("words/parent", how);
    expect({ how, result }).toEqual({ how, result: how.erase ? "removed" : "hidden" });
    expect(await stateOf(plain, "late")).toBe(how.erase ? "gone" : "live");
    expect(await stateOf(plain, "parent")).toBe(how.erase ? "gone" : "hidden");
  }
});

test("companions are erased before their stream, and removed after it, on a store of any speed", async () => {
  for (const how of [{ erase: true }, {}] as const) {
    const order: string[] = [];
    const store: Store = altered(openMemory(), {
      remove: async (remove, request) => {
        const { stream } = request as { stream: string };
        // The companion's removal takes longer than everything else.
        if (stream === "words/notes") for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
        const answer = await remove(request);
        order.push(`${stream} ${answer.outcome}`);
        return answer;
      },
    });
    const journal = new Journal({ store });
    await write(journal, "w");
    await write(journal, "notes");
    const companions = (id: string) => (id === "w" ? ["words/notes"] : []);
    expect(await journal.remove("words/w", { ...how, companions })).toBe("removed");
    const [stream, companion] = ["words/w removed", "words/notes removed"];
    expect(order).toEqual(how.erase ? [companion, stream] : [stream, companion]);
    expect(await stateOf(journal, "notes")).toBe("gone");
  }
});

test("a companion that is held or has an open call stops the erase before anything of the stream is gone", async () => {
  for (const why of ["held", "open"] as const) {
    const journal = new Journal({ store: openMemory() });
    await write(journal, "w");
    await (await journal.open(words, "notes")).commit(() => said(why === "open" ? "call:c1" : "x"));
    if (why === "held") await guardOf(journal, "words/notes");
    const companions = (id: string) => (id === "w" ? ["words/notes"] : []);
    await expect(journal.remove("words/w", { erase: true, companions })).rejects.toMatchObject({
      code: "STREAM_BUSY",
      message: expect.stringContaining("words/notes"),
    });
    expect(await stateOf(journal, "w")).toBe("live");
    expect((await journal.load(words, "w")).state.list).toEqual(["w.1", "w.2"]);
  }
});
