/** The answer to a lease take gets lost. Asked again, the store no longer knows the previous holder. */

import { afterEach, beforeEach, expect, test } from "vitest";
import type { Session, Tool } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { altered } from "../journal/places.ts";
import { counting, fatal } from "../ledger/bench.ts";
import { Place } from "./fixture.ts";

let place: Place;
beforeEach(() => {
  place = new Place();
});
afterEach(() => place.dispose());

/** The answer to the first take of a session's lease gets lost. */
function losing(): (store: Store) => Store {
  let isLost = false;
  return (store) =>
    altered(store, {
      lease: async (lease, request) => {
        const outcome = await lease(request);
        const isMeant = request.act === "take" && request.name.startsWith("session/");
        if (!isMeant || isLost) return outcome;
        isLost = true;
        return lease(request);
      },
    });
}

const interrupted =
  ({ tool, reached }: { tool: Tool; reached: Promise<void> }) =>
  async (session: Session) => {
    session.call({ callId: "c1", tool, args: {} }).catch(() => undefined);
    await reached;
  };

test("a supervisor still records the crash, and the session gets a worker", async () => {
  await place.crash("a", (session) => session.append({ role: "user", text: "Pay" }));
  expect((await place.another(losing()).superviseOnce()).crashed).toEqual(["a"]);
  expect(await place.workers()).toEqual({ "session a": "wanted" });
});

test("so does a person who resolves a call of the dead process", async () => {
  await place.crash("a", interrupted(fatal({ effects: [] }, "pay")));
  await place.another(losing()).calls.resolve("c1", { outcome: "landed", by: "ann", why: "seen" });
  expect(await place.workers()).toEqual({ "session a": "wanted" });
});

test("a session that was closed has not crashed", async () => {
  await (await place.another().session("a", { ttlMs: null })).close();
  expect((await place.another(losing()).superviseOnce()).crashed).toEqual([]);
  const effects: string[] = [];
  const session = await place.another().session("b", { ttlMs: null });
  const cut = () => Promise.reject(new Error("the line was cut"));
  await session.call({
    callId: "c1",
    tool: counting({ effects }, "pay", { execute: cut, idempotent: true }),
    args: {},
  });
  await session.close();
  const { crashed } = await place.another(losing()).superviseOnce({ tools: [counting({ effects }, "pay")] });
  expect(crashed).toEqual([]);
  expect(await place.workers()).toEqual({});
});
