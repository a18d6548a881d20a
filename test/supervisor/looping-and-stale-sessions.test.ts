/** Sessions that get no worker until a person retries them: status names them. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { Holdfast, Journal, type Session } from "../../src/index.ts";
import { readStatus } from "../../src/operations/index.ts";
import { DIES, Place, poll } from "./fixture.ts";

const DAY_MS = 86_400_000;
const ann = { by: "ann", why: "the disk is free again" };
const asked = (session: Session) => session.append({ role: "user", text: "Pay" });

let place: Place;
let holdfast: Holdfast;
beforeEach(() => {
  place = new Place();
  holdfast = place.another();
});
afterEach(() => place.dispose());

const needs = async () =>
  (await readStatus(holdfast.journal.store, { now: place.nowMs })).needs.map(({ what, command }) => {
    return `${what}  ${command}`;
  });

async function untilItLoops(id: string): Promise<void> {
  await place.crash(id, asked);
  const { of, stop } = place.supervise({ start: DIES, backoffMs: 0 });
  await poll(() => of("worker.looping").length).toBe(1);
  await stop();
}

test("status names a session whose workers keep dying, with the command to run", async () => {
  await untilItLoops("a");
  expect(await needs()).toEqual([
    "workers for session a keep dying: find out why, then retry it  holdfast session retry a",
  ]);
});

test("retry brings the next worker and clears the status", async () => {
  await untilItLoops("a");
  const { started, looks } = place.supervise(place.acting((session) => session.complete()));
  await looks();
  expect(started()).toEqual([]);
  place.nowMs += 1;
  await holdfast.sessions.retry("a", ann);
  expect(await needs()).toEqual([]);
  await poll(started).toEqual(["a"]);
  await poll(async () => (await holdfast.sessions.get("a")).status).toBe("completed");
});

test("also if the person's clock is behind the supervisor's", async () => {
  await untilItLoops("a");
  const { store } = holdfast.journal;
  const operator = new Holdfast(new Journal({ store, now: () => place.nowMs - 5_000 }));
  await operator.sessions.retry("a", ann);
  const { started } = place.supervise(place.acting((session) => session.complete()));
  await poll(started).toEqual(["a"]);
});

test("a session that was run by hand is not named any more", async () => {
  await untilItLoops("a");
  place.nowMs += 1;
  const session = await holdfast.session("a");
  await session.append({ role: "assistant", text: "Paid" });
  await session.close();
  expect(await needs()).toEqual([]);
});

test("a stale session gets no worker and is named until a person retries it", async () => {
  await place.crash("a", asked, { ttlMs: DAY_MS });
  place.nowMs += 2 * DAY_MS;
  const { started, looks, of } = place.supervise(place.acting((session) => session.complete()));
  await poll(() => of("session.crashed").length).toBe(1);
  await looks();
  expect(started()).toEqual([]);
  expect(await needs()).toEqual([
    "session a is past its time to live: look at it, then let it continue  holdfast session retry a",
  ]);
  await holdfast.sessions.retry("a", ann);
  expect(await needs()).toEqual([]);
  await poll(started).toEqual(["a"]);
});

test("an opener that is rejected as stale leaves the crash for a supervisor to find", async () => {
  await place.crash("a", asked, { ttlMs: DAY_MS });
  place.nowMs += 2 * DAY_MS;
  await expect(place.another().session("a")).rejects.toMatchObject({
    code: "STATE_STALE",
    hint: expect.stringContaining("holdfast session retry a"),
  });
  expect((await holdfast.superviseOnce()).crashed).toEqual(["a"]);
  await (await holdfast.session("a", { stale: "use", ifHeld: "throw" })).close();
});

test("retry rejects a session that is not active", async () => {
  await place.crash("a", asked);
  await holdfast.sessions.cancel("a", ann);
  await expect(holdfast.sessions.retry("a", ann)).rejects.toMatchObject({ code: "SESSION_ENDED" });
  await expect(holdfast.sessions.retry("b", ann)).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
});
