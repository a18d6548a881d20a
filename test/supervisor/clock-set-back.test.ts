/** A pause that was recorded by a clock that ran ahead does not last longer after the clock is corrected. */

import { afterEach, beforeEach, expect, test } from "vitest";
import { landed, notYet, type Session, type Verdict } from "../../src/index.ts";
import { Sweeper } from "../../src/supervisor/index.ts";
import { counting, fatal } from "../ledger/bench.ts";
import { DIES, Place, poll } from "./fixture.ts";

const YEAR_MS = 365 * 86_400_000;

let place: Place;
beforeEach(() => {
  place = new Place();
  place.nowMs += YEAR_MS;
});
afterEach(() => place.dispose());

test("a supervisor verifies a call whose pause lies in the future", async () => {
  const effects: string[] = [];
  let answer: Verdict<unknown> = notYet({ againInMs: 30_000 });
  const slow = { settleMs: 60_000, verify: () => answer };
  const dying = fatal({ effects }, "pay", slow);
  await place.crash("a", async (session: Session) => {
    session.call({ callId: "c1", tool: dying.tool, args: {} }).catch(() => undefined);
    await dying.reached;
  });
  const sweeper = new Sweeper(place.another().journal, { tools: [counting({ effects }, "pay", slow)] });
  expect((await sweeper.sweep()).settled).toEqual([]);
  answer = landed("paid");
  expect((await sweeper.sweep()).settled, "not before it is due").toEqual([]);
  place.nowMs -= YEAR_MS;
  expect((await sweeper.sweep()).settled).toEqual([{ session: "a", callId: "c1" }]);
});

test("a dead worker is restarted", async () => {
  await place.crash("a", (session) => session.append({ role: "user", text: "Pay" }));
  const { started, ended, looks } = place.supervise({ start: DIES, maxDeaths: 2 });
  await poll(ended).toEqual(["died"]);
  await looks();
  expect(started(), "not before it is due").toEqual(["a"]);
  place.nowMs -= YEAR_MS;
  await poll(started).toEqual(["a", "a"]);
});
