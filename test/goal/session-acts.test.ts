// A session can always end, whatever happened to the leases of its tasks.

import { afterEach, expect, test } from "vitest";
import { Copy, WallClock } from "../projections/copies.ts";
import { worker } from "./bench.ts";

const copies: Copy[] = [];
afterEach(() => Promise.all(copies.splice(0).map((copy) => copy.dispose())));

async function make(clock: WallClock, from?: Copy): Promise<Copy> {
  const copy = await Copy.make(clock, from);
  copies.push(copy);
  return copy;
}

async function working({ goal }: Copy): Promise<string> {
  const { id } = await goal.addTask({ title: "users table", phase: 1 });
  await goal.startSession({ session: "s-1", by: worker });
  await goal.claim(id, { by: worker, session: "s-1", detached: true });
  return id;
}

const ENDINGS = {
  "an end": ({ goal }: Copy) => goal.endSession({ session: "s-1", by: worker }),
  "a hand-off": ({ goal }: Copy) => goal.handoff({ session: "s-1", reason: "lunch", by: worker }),
};

test.each(Object.entries(ENDINGS))("%s in a store that was rebuilt from event files", async (_, end) => {
  const clock = new WallClock();
  const a = await make(clock);
  const task = await working(a);
  await a.folder.sync();
  const b = await make(clock, a);
  expect((await end(b)).status).toBe("ended");
  expect(b.goal.task(task)).toMatchObject({ status: "open", claim: null });
});

test.each(Object.entries(ENDINGS))("%s after a merge renumbered its task", async (_, end) => {
  const clock = new WallClock();
  const a = await make(clock);
  await a.folder.sync();
  const b = await make(clock, a);
  await a.goal.addTask({ title: "first of that number", phase: 1 });
  const claimed = await working(b);
  await b.pull(a);
  const held = [...b.goal.state.tasks.values()].find(({ claim }) => claim !== null);
  expect(held?.id, "the fault fired").not.toBe(claimed);
  expect((await end(b)).status).toBe("ended");
  expect(b.goal.task(held?.id ?? "").status).toBe("open");
  await b.goal.claim(claimed, { by: { name: "w-2", role: "worker" } });
});

test.each(Object.entries(ENDINGS))(
  "%s while another has the lease and died before it claimed",
  async (_, end) => {
    const a = await make(new WallClock());
    const task = await working(a);
    const { store, namespace } = a.journal;
    const { rows } = await a.journal.list<"leases">({ of: "leases", prefix: "goal/checkout/T-", limit: 9 });
    const [row] = rows;
    const holder = {
      owner: "o",
      label: "w-2",
      host: "h",
      pid: 1,
      started: null,
      boot: null,
      pidNamespace: null,
    };
    const taken = await store.lease({
      act: "take",
      namespace,
      name: row?.name ?? "",
      holder,
      ttlMs: 60_000,
      evict: row?.token ?? 0,
    });
    expect(taken.outcome).toBe("granted");
    expect((await end(a)).status).toBe("ended");
    expect(a.goal.task(task).status).toBe("open");
  },
);
