// A move that fails leaves the source open for writes, and a target that was empty free for another move.

import { expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { moveStore, openTarget } from "../../../src/journal/index.ts";
import type { Moving, Store } from "../../../src/store.ts";
import { openMemory } from "../../../src/stores/memory/index.ts";
import { contentsOf, fill } from "./filled-store.ts";

const VERBS = ["dump", "restore", "reseal", "seal"] as const;

interface Failure {
  readonly verb: (typeof VERBS)[number];
  /** Its first call, or a later one. */
  readonly at: number;
}

type End = Pick<Store, "address" | "moving">;

/** One end of a move, with a verb that throws once. It does not tell that this process has the store open. */
function endOf({ address, moving }: Store, failure?: Failure): End {
  let calls = 0;
  const { otherUser: _, ...verbs } = moving as Moving;
  const faulty = Object.entries(verbs).map(([name, verb]) => {
    const act = verb as (...args: unknown[]) => unknown;
    return [
      name,
      (...args: unknown[]) => {
        calls += name === failure?.verb ? 1 : 0;
        if (name === failure?.verb && calls === failure.at) throw new Error("the disk is away");
        return act.apply(moving, args);
      },
    ];
  });
  return { address, moving: Object.fromEntries(faulty) as Moving };
}

async function takesWrites(store: Store): Promise<boolean> {
  const holdfast = await open(undefined, { store });
  try {
    const session = await holdfast.session(`probe-${Math.random()}`);
    await session.append({ role: "user", text: "hello" });
    await session.close();
    return true;
  } catch {
    return false;
  }
}

const named = (address: string): Store => {
  const store = openMemory();
  return new Proxy(store, {
    get(target, name) {
      if (name === "address") return address;
      const value = Reflect.get(target, name) as unknown;
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
};

const failures = VERBS.flatMap((verb) => [1, 2, 3].map((at): Failure => ({ verb, at })));
const ends = (["source", "target"] as const).flatMap((end) => failures.map((each) => ({ end, ...each })));

test.each(ends)(
  "if call $at of $verb fails at the $end, one store takes writes",
  async ({ end, ...failure }) => {
    const [source, target, other] = [named("a"), named("b"), named("c")];
    await fill(source);
    const before = await contentsOf(source);
    const failed =
      end === "source" ? [endOf(source, failure), endOf(target)] : [endOf(source), endOf(target, failure)];
    const [from, to] = failed as [End, End];
    await moveStore(from, to).catch(() => undefined);
    if ((await source.moving?.seal())?.phase === "left") {
      // Only the target takes writes from here on. The same call finishes what is left of the move.
      await moveStore(endOf(source), endOf(target));
      expect(await contentsOf(target)).toEqual(before);
      expect([await takesWrites(source), await takesWrites(target)]).toEqual([false, true]);
      return;
    }
    expect(await contentsOf(source)).toEqual(before);
    expect(await takesWrites(source), "the source goes on").toBe(true);
    await moveStore(endOf(source), endOf(other));
    expect([await takesWrites(source), await takesWrites(other)]).toEqual([false, true]);
  },
);

test("a move that is stopped after its first page leaves both as they were", async () => {
  const [source, target] = [named("a"), named("b")];
  await fill(source);
  const before = await contentsOf(source);
  const stop = new AbortController();
  const options = { signal: stop.signal, onProgress: () => stop.abort(new Error("stopped")) };
  await expect(moveStore(endOf(source), endOf(target), options)).rejects.toThrow("stopped");
  expect(await contentsOf(source)).toEqual(before);
  expect(await takesWrites(source)).toBe(true);
  await moveStore(endOf(source), endOf(target));
  expect([await takesWrites(source), await takesWrites(target)]).toEqual([false, true]);
});

test("a target is not opened for a source from which no move can begin", async () => {
  const source = named("a");
  await source.moving?.reseal(null, { phase: "entering", move: "m", other: "z" });
  const opened: boolean[] = [];
  const opening = openTarget(endOf(source), async ({ mustExist }) => opened.push(mustExist));
  await expect(opening).rejects.toMatchObject({ code: "STORE_READONLY", data: { moved: "entering" } });
  expect(opened).toEqual([]);
});
