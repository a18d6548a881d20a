// Released leases stay in the store: holders are found behind hundreds of them.

import { expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { readStatus } from "../../src/operations/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";

const BEFORE = 520;

test("a held task and session are found behind hundreds of released leases", async () => {
  const store = openMemory();
  const holdfast = await open(undefined, { store });
  const goal = await holdfast.goal("g", { statement: "Ship it", by: { name: "ann", role: "human" } });
  await goal.addTasks({ tasks: Array.from({ length: BEFORE + 1 }, (_, index) => ({ title: `t${index}` })) });
  const ids = [...goal.state.tasks.keys()];
  for (const id of ids.slice(0, BEFORE)) {
    await goal.claim(id, { detached: true });
    await goal.release({ task: id, why: "no" });
  }
  const last = ids.at(-1) as string;
  await goal.claim(last, { detached: true });
  for (let index = 0; index < BEFORE; index++) await (await holdfast.session(`a-${index}`)).close();
  const held = await holdfast.session("z");
  const status = await readStatus(store, { now: Date.now() });
  expect(status.goals[0]?.working).toMatchObject([{ task: last, by: "ann" }]);
  expect(status.sessions.running).toBe(1);
  await held.close();
  expect((await readStatus(store, { now: Date.now() })).sessions.running).toBe(0);
  await holdfast.close();
});
