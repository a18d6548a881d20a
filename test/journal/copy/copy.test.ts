import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { abandonMove, copyStore } from "../../../src/journal/index.ts";
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

const named = (from: Subject, to: Subject) => ({ from, to, name: `${from.name} to ${to.name}` });

/** Every pair of stores, one way: each test copies there and back. */
const everyTwo = subjects.flatMap((from, index) => subjects.slice(index).map((to) => named(from, to)));

/** Every store once as the source and once as the target. */
const ring = subjects.map((from, index) => named(from, subjects[(index + 1) % subjects.length] ?? from));

test("each of the four stores can be copied", async () => {
  for (const subject of subjects) expect((await fresh(subject)).store.moving).toBeDefined();
});

test.each(everyTwo)("$name: everything arrives unchanged, and comes back unchanged", async ({ from, to }) => {
  const [source, target] = [await fresh(from), await fresh(to)];
  await fill(source.store);
  const before = await contentsOf(source.store);
  const report = await copyStore(source.store, target.store);
  expect(report.rows.stream.count).toBeGreaterThan(5);
  expect(report.rows.artifact.count).toBe(1);
  expect(await contentsOf(target.store)).toEqual(before);
  expect(await contentsOf(source.store)).toEqual(before);
  const home = await fresh(from);
  expect((await copyStore(target.store, home.store)).rows).toEqual(report.rows);
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
    await copyStore(source.store, target.store);
    const holdfast = await open(undefined, { store: target.store });
    const session = await holdfast.session("later");
    const again = await session.call({ id: "x1", tool: charge, args: { order: "1" } });
    expect(again).toMatchObject({ status: "completed", replayed: true });
    expect(await session.call({ id: "x2", tool: charge, args: { order: "2" } })).toMatchObject({
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
    await copyStore(source.store, target.store);
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
    await copyStore(source.store, target.store);
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

  test("a live lease blocks the copy, which names the holder and changes nothing", async () => {
    const holdfast = await open(undefined, { store: await source.another() });
    const session = await holdfast.session("alpha", { label: "web-3" });
    await expect(copyStore(source.store, target.store)).rejects.toMatchObject({
      code: "STREAM_BUSY",
      message: expect.stringContaining("session/alpha by web-3"),
    });
    await session.append({ role: "user", text: "still here" });
    await session.close();
    expect((await copyStore(source.store, target.store)).rows.stream.count).toBeGreaterThan(0);
  });

  test("a target that is not empty is rejected, and the source stays open", async () => {
    await (await (await open(undefined, { store: target.store })).session("mine")).close();
    expect(await codeOf(copyStore(source.store, target.store))).toBe("STREAM_EXISTS");
    for (const { store } of [source, target]) {
      await (await (await open(undefined, { store })).session("mine")).close();
    }
  });

  test("a second copy to the same target reports success; to another it is rejected", async () => {
    const { rows } = await copyStore(source.store, target.store);
    expect((await copyStore(source.store, target.store)).rows).toEqual(rows);
    expect(await codeOf(copyStore(source.store, (await fresh(to)).store))).toBe("STORE_MOVED");
    expect(await codeOf(abandonMove(source.store))).toBe("STORE_MOVED");
  });
});

test("an empty store, as a mistyped address opens, is not copied and uses up no target", async () => {
  for (const subject of subjects) {
    const [empty, target, full] = [await fresh(subject), await fresh(subject), await fresh(subject)];
    expect(await codeOf(copyStore(empty.store, target.store))).toBe("STORE_NOT_FOUND");
    await fill(full.store);
    await copyStore(full.store, target.store);
  }
});

test("a store is not copied into itself, and is unchanged after the attempt", async () => {
  for (const subject of subjects) {
    const place = await fresh(subject);
    await fill(place.store);
    expect(await codeOf(copyStore(place.store, await place.another()))).toBe("STREAM_EXISTS");
    await (await (await open(undefined, { store: place.store })).session("goes-on")).close();
  }
});
