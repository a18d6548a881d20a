import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { abandonMove, moveStore, undoMove } from "../../../src/journal/index.ts";
import type { Store } from "../../../src/store.ts";
import type { Opened } from "../../../src/testing/index.ts";
import { codeOf } from "../../goal/bench.ts";
import { storeSubjects } from "../../subjects.ts";
import { charge, contentsOf, fill, world } from "./filled-store.ts";

const subjects = storeSubjects();
const opened: Opened[] = [];

afterEach(async () => {
  await Promise.all(opened.splice(0).map((each) => each.dispose()));
});
afterAll(async () => {
  await Promise.all(subjects.map((subject) => subject.dispose()));
});

type Subject = (typeof subjects)[number];

async function fresh(subject: Subject): Promise<Opened> {
  const place = await subject.open();
  opened.push(place);
  return place;
}

/** The same store, which does not tell that another handle of this process has it open. */
function unguarded({ address, moving }: Store): Pick<Store, "address" | "moving"> {
  const { otherUser, ...verbs } = moving ?? {};
  return { address, moving: verbs as NonNullable<Store["moving"]> };
}

const named = (from: Subject, to: Subject) => ({ from, to, name: `${from.name} to ${to.name}` });

/** Every pair of stores, one way: each test moves there and back. */
const everyTwo = subjects.flatMap((from, index) => subjects.slice(index).map((to) => named(from, to)));

/** Every store once as the source and once as the target. */
const ring = subjects.map((from, index) => named(from, subjects[(index + 1) % subjects.length] ?? from));

test("each of the four stores can be moved", async () => {
  for (const subject of subjects) expect((await fresh(subject)).store.moving).toBeDefined();
});

test.each(everyTwo)("$name: everything arrives unchanged, and comes back unchanged", async ({ from, to }) => {
  const [source, target] = [await fresh(from), await fresh(to)];
  await fill(source.store);
  const before = await contentsOf(source.store);
  const report = await moveStore(source.store, target.store);
  expect(report.rows.stream.count).toBeGreaterThan(5);
  expect(report.rows.artifact.count).toBe(1);
  expect(await contentsOf(target.store)).toEqual(before);
  expect(await contentsOf(source.store)).toEqual(before);
  const home = await fresh(from);
  expect((await moveStore(target.store, home.store)).rows).toEqual(report.rows);
  expect(await contentsOf(home.store)).toEqual(before);
});

describe.each(ring)("$name", ({ from, to }) => {
  let source: Opened;
  let target: Opened;

  beforeEach(async () => {
    world.length = 0;
    source = await fresh(from);
    target = await fresh(to);
    await fill(source.store);
  });

  test("a global key stays claimed there, even if its session was removed", async () => {
    await moveStore(source.store, target.store);
    const holdfast = await open(undefined, { store: target.store });
    const session = await holdfast.session("later");
    const again = await session.call({ callId: "x1", tool: charge, args: { order: "1" } });
    expect(again).toMatchObject({ status: "completed", replayed: true });
    expect(await session.call({ callId: "x2", tool: charge, args: { order: "2" } })).toMatchObject({
      status: "failed",
    });
    expect(world).toEqual(["1", "2"]);
    await session.close();
  });

  test("sessions, forks and tombstones continue there, and every token is higher than before", async () => {
    const token = async (store: Store, name: string): Promise<number> => {
      const { rows } = await store.list<"leases">({
        of: "leases",
        namespace: "default",
        prefix: name,
        limit: 1,
      });
      return rows[0]?.token ?? 0;
    };
    const before = await token(source.store, "session/alpha");
    await moveStore(source.store, target.store);
    const holdfast = await open(undefined, { store: target.store });
    for (const id of ["alpha", "beta", "child", "removed"]) {
      const session = await holdfast.session(id);
      await session.append({ role: "user", text: "hello" });
      await session.close();
    }
    expect(await token(target.store, "session/alpha")).toBe(before + 1);
    expect((await holdfast.journal.row("session/removed")).head.generation).toBe(2);
    expect(await target.store.check()).toEqual([]);
  });

  test("a forgotten worker on the source starts no effect, and its error names the new store", async () => {
    const forgotten = await open(undefined, { store: await source.another() });
    const session = await forgotten.session("forgotten");
    await session.close();
    const idle = await forgotten.journal.open(
      (await import("../../../src/model/goal/index.ts")).goalKind,
      "checkout",
    );
    await moveStore(unguarded(source.store), target.store);
    const refused = { code: "STORE_MOVED", data: { moved: "left", to: target.store.address } };
    const attempts = [
      () => forgotten.session("forgotten"),
      () => forgotten.session("brand-new"),
      () => forgotten.putArtifact(new Uint8Array([1])),
      () => forgotten.journal.remove("session/beta"),
      () => forgotten.sessions.cancel("alpha", { by: "x" }),
      () =>
        idle.commit(() => ({
          events: [{ type: "goal.described", data: { by: { name: "x", role: "human" }, change: {} } }],
          result: 0,
        })),
    ];
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject(refused);
    expect((await forgotten.sessions.get("alpha")).messages).toHaveLength(2);
    expect(world).toEqual(["1", "2"]);
  });

  test("a live lease blocks the move, which names the holder and changes nothing", async () => {
    const holdfast = await open(undefined, { store: await source.another() });
    const session = await holdfast.session("alpha", { label: "web-3" });
    await expect(moveStore(source.store, target.store)).rejects.toMatchObject({
      code: "STREAM_BUSY",
      message: expect.stringContaining("session/alpha by web-3"),
    });
    await session.append({ role: "user", text: "still here" });
    await session.close();
    await holdfast.close();
    expect((await moveStore(source.store, target.store)).rows.stream.count).toBeGreaterThan(0);
  });

  test("a target that is not empty is rejected, and the source stays open", async () => {
    await (await (await open(undefined, { store: target.store })).session("mine")).close();
    expect(await codeOf(moveStore(source.store, target.store))).toBe("STREAM_EXISTS");
    for (const { store } of [source, target]) {
      await (await (await open(undefined, { store })).session("mine")).close();
    }
  });

  test("a second move to the same target reports success; to another it is rejected", async () => {
    const { rows } = await moveStore(source.store, target.store);
    expect((await moveStore(source.store, target.store)).rows).toEqual(rows);
    expect(await codeOf(moveStore(source.store, (await fresh(to)).store))).toBe("STORE_MOVED");
    expect(await codeOf(abandonMove(source.store))).toBe("STORE_MOVED");
  });
});

describe.each(ring)("$name: a move is undone", ({ from, to }) => {
  test("while the target has no new writes: only the source takes writes, and may move again", async () => {
    const [source, target] = [await fresh(from), await fresh(to)];
    await fill(source.store);
    const before = await contentsOf(source.store);
    await moveStore(source.store, target.store);
    for (let times = 0; times < 2; times++) await undoMove(source.store, target.store);
    expect(await contentsOf(source.store)).toEqual(before);
    const holdfast = await open(undefined, { store: source.store });
    await (await holdfast.session("goes-on")).close();
    const refused = (await open(undefined, { store: target.store })).session("x");
    await expect(refused).rejects.toMatchObject({ code: "STORE_READONLY", data: { moved: "returning" } });
    await moveStore(source.store, target.store);
    expect((await (await open(undefined, { store: target.store })).sessions.get("goes-on")).id).toBe(
      "goes-on",
    );
  });

  test("but not after a write to the target, which stays open", async () => {
    const [source, target] = [await fresh(from), await fresh(to)];
    await fill(source.store);
    await moveStore(source.store, target.store);
    const holdfast = await open(undefined, { store: target.store });
    await (await holdfast.session("new-there")).close();
    await expect(undoMove(source.store, target.store)).rejects.toMatchObject({ code: "STREAM_BUSY" });
    await (await holdfast.session("new-there")).close();
    expect(await codeOf((await open(undefined, { store: source.store })).session("x"))).toBe("STORE_MOVED");
  });

  test("but not into a store that it did not move to", async () => {
    const [source, target, other] = [await fresh(from), await fresh(to), await fresh(to)];
    await fill(source.store);
    expect(await codeOf(undoMove(source.store, target.store))).toBe("INPUT_INVALID");
    await moveStore(source.store, target.store);
    expect(await codeOf(undoMove(source.store, other.store))).toBe("INPUT_INVALID");
  });
});

test("an empty store, as a mistyped address opens, is not moved and uses up no target", async () => {
  for (const subject of subjects) {
    const [empty, target, full] = [await fresh(subject), await fresh(subject), await fresh(subject)];
    expect(await codeOf(moveStore(empty.store, target.store))).toBe("STORE_NOT_FOUND");
    await fill(full.store);
    await moveStore(full.store, target.store);
  }
});

test("a store is not moved into itself, and is unchanged after the attempt", async () => {
  for (const subject of subjects) {
    const place = await fresh(subject);
    await fill(place.store);
    expect(await codeOf(moveStore(place.store, await place.another()))).toBe("STREAM_EXISTS");
    await (await (await open(undefined, { store: place.store })).session("goes-on")).close();
  }
});
