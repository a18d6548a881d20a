/** Which sessions need a worker, and which workers count as dead although they exited with 0. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Holdfast, notYet, type Session, type Tool } from "../../src/index.ts";
import { callBlock, counting, fatal, script } from "../ledger/bench.ts";
import { DIES, ENDS, Place, poll } from "./fixture.ts";

let place: Place;
let holdfast: Holdfast;
beforeEach(() => {
  place = new Place();
  holdfast = place.another();
});
afterEach(() => place.dispose());

const user = (text: string, more: object = {}) => ({ role: "user", text, ...more }) as const;
const answer = { role: "assistant", text: "Done" } as const;

/** Its outcome cannot be verified, so the call waits for a person. */
const pay = (more: object = {}): Tool =>
  counting({ effects: [] }, "pay", {
    execute: () => Promise.reject(new Error("the line went dead")),
    ...more,
  });

const landed = { outcome: "landed", result: "paid", by: "ann", why: "it is in the books" } as const;

test("a session with an answered prompt without an id needs no worker", async () => {
  const note = user("[holdfast] again?", { id: "m.loop", meta: { holdfast: "loop" } });
  await place.crash("noted", (session) => session.append([user("Mail it"), answer, note, answer]));
  const named = user("And now this", { id: "step-2" });
  await place.crash("mixed", (session) => session.append([user("Mail it"), answer, named, answer]));
  const outside = user("Hurry", { meta: { by: "ann" } });
  await place.crash("program", (session) => session.append([named, answer, outside, answer]));
  const { started, ended, looks } = place.supervise({ start: ENDS });
  await poll(ended).toEqual(["done"]);
  await looks();
  expect(started()).toEqual(["program"]);
  expect(new Set(Object.values(await place.workers()))).toEqual(new Set(["idle"]));
});

test("sweeps do not end a crash loop; a person's prompt does", async () => {
  const ship = fatal({ effects: [] }, "ship", { verify: () => notYet({ againInMs: 11_000 }) });
  await place.crash("a", async (session) => {
    await session.append(user("Ship"));
    session.call({ tool: ship.tool, args: {} }).catch(() => undefined);
    await ship.reached;
  });
  const { of, started, looks } = place.supervise({ start: DIES, maxDeaths: 1 });
  await poll(() => of("worker.looping").length).toBe(1);
  for (let round = 0; round < 2; round++) {
    place.nowMs += 600_000;
    await holdfast.superviseOnce({ tools: [ship.tool] });
  }
  expect((await holdfast.sessions.get("a")).calls[0]).toMatchObject({ verify: { answer: "notYet" } });
  await looks();
  expect(started()).toEqual(["a"]);
  await holdfast.sessions.prompt("a", { text: "Try again" }, { by: "ann" });
  await poll(started).toEqual(["a", "a"]);
});

test("a parent gets no worker while its sub-agent waits for a person", async () => {
  const once =
    (name: string) =>
    async ({ messages }: { messages: readonly { role: string }[] }) =>
      messages.some(({ role }) => role === "assistant")
        ? { message: { text: "done" } }
        : { message: { blocks: [callBlock(`${name}-1`, name)] } };
  const sub = agentTool({
    name: "sub",
    description: "A sub-agent",
    input: z.looseObject({}),
    run: (_args, child) => child.run({ model: once("pay") as never, tools: [pay()], prompt: "Pay" }),
  });
  const run = (session: Session) =>
    session.run({ model: once("sub") as never, tools: [sub], prompt: { id: "p", text: "Go" } });
  await place.crash("parent", run);
  const { started, ended, looks } = place.supervise({ ...place.acting(run) });
  await poll(ended).toEqual(["waiting"]);
  for (let round = 0; round < 3; round++) {
    place.nowMs += 600_000;
    await looks();
  }
  expect(started()).toEqual(["parent"]);
  await holdfast.calls.resolve("pay-1", landed);
  await poll(ended).toEqual(["waiting", "done"]);
  await looks();
  expect(started()).toEqual(["parent", "parent"]);
});

test("a worker that only opens and closes a session with open calls counts as dead", async () => {
  const dying = fatal({ effects: [] }, "pay");
  await place.crash("a", async (session) => {
    session.call({ tool: dying.tool, args: {} }).catch(() => undefined);
    await dying.reached;
  });
  const { of } = place.supervise({ ...place.acting(async () => undefined), maxDeaths: 1 });
  await poll(() => of("worker.looping").length).toBe(1);
  expect(of("worker.looping")[0]?.why).toContain("it ended without having touched the session");
});

test("a worker that has to verify later succeeds, and the next starts when that is due", async () => {
  const ship = fatal({ effects: [] }, "ship", { verify: () => notYet({ againInMs: 3_600_000 }) });
  await place.crash("a", async (session) => {
    session.call({ tool: ship.tool, args: {} }).catch(() => undefined);
    await ship.reached;
  });
  const asks = place.acting((session) => session.settle([ship.tool]));
  const { started, ended, looks } = place.supervise({ ...asks, maxDeaths: 1 });
  await poll(ended).toEqual(["waiting"]);
  place.nowMs += 1_800_000;
  await looks();
  expect(started()).toHaveLength(1);
  place.nowMs += 1_800_001;
  await poll(ended).toEqual(["waiting", "waiting"]);
});

test("a session that waits for another's call continues when a person has resolved that", async () => {
  const global = pay({ dedupe: "global" });
  const run = (session: Session) =>
    session.run({
      model: script([callBlock("c1", "pay", { order: 1 })]),
      tools: [global],
      prompt: { id: "p", text: "Pay" },
    });
  const first = await holdfast.session("a", { ttlMs: null });
  expect((await run(first)).status).toBe("waiting");
  await first.close();
  await place.crash("b", run);
  const { started, ended, looks } = place.supervise({ ...place.acting(run) });
  await poll(ended).toEqual(["waiting"]);
  place.nowMs += 600_000;
  await looks();
  expect(started()).toEqual(["b"]);
  await holdfast.calls.resolve({ session: "a", callId: "c1" }, landed);
  await poll(ended).toEqual(["waiting", "done"]);
  expect((await holdfast.sessions.get("b")).messages.at(-1)?.role).toBe("assistant");
});

test("a prompt queued for an idle session starts a worker, once", async () => {
  const session = await holdfast.session("idle", { ttlMs: null });
  await session.append([user("First"), answer]);
  await session.close();
  const run = (each: Session) =>
    each.run({ model: async () => ({ message: { text: "Yes" } }), prompt: "Continue" });
  const { started, ended, looks } = place.supervise({ ...place.acting(run) });
  await looks();
  expect(started()).toEqual([]);
  await holdfast.sessions.prompt("idle", { text: "Are you there?" }, { by: "ann" });
  await poll(ended).toEqual(["done"]);
  await looks();
  expect(started()).toEqual(["idle"]);
  expect((await holdfast.sessions.get("idle")).prompts).toEqual([]);
});

test("no worker starts for a prompt to a session that others drive, or whose worker ignores it", async () => {
  await (await holdfast.session("of-goal", { ttlMs: null, goal: "g" })).close();
  await (await holdfast.session("ignored", { ttlMs: null })).close();
  for (const id of ["of-goal", "ignored"])
    await holdfast.sessions.prompt(id, { text: "Are you there?" }, { by: "ann" });
  const { of, started } = place.supervise({ start: ENDS, maxDeaths: 1 });
  await poll(() => of("worker.looping").length).toBe(1);
  expect(started()).toEqual(["ignored"]);
  expect(await place.workers()).toEqual({ "session ignored": "looping" });
});
