import assert from "node:assert/strict";
import { accept, grant, headOf, outcomeIs, refuse, release, take, valuesOf, write } from "./acts.ts";
import type { Cases } from "./trial.ts";

const guardedBy = (token: number, lease = "session/a") => ({ guards: [{ lease, token }] });

export const guardCases: Cases = {
  "the owner of a lease writes": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await accept(store, write("session/a", 0, guardedBy(token)));
    await accept(store, write("session/a", 1, guardedBy(token)));
  },

  "a token older than the newest is refused and told who holds the lease now": async ({ store }) => {
    const first = await grant(store, "session/a", "one");
    await release(store, "session/a", first.token);
    const second = await grant(store, "session/a", "two");
    const { lease, now } = await refuse(store, "fenced", write("session/a", 0, guardedBy(first.token)));
    assert.equal(lease, "session/a");
    assert.equal(now?.token, second.token);
    assert.equal(now?.holder?.owner, "two");
    assert.equal((await headOf(store, "session/a")).seq, 0);
    await accept(store, write("session/a", 0, guardedBy(second.token)));
  },

  "a token that was never given out is refused": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await refuse(store, "fenced", write("session/a", 0, guardedBy(token + 1)));
    await refuse(store, "fenced", write("session/a", 0, guardedBy(0)));
  },

  "a lease that nobody ever took guards nothing": async ({ store }) => {
    const { lease, now } = await refuse(store, "fenced", write("session/a", 0, guardedBy(1)));
    assert.equal(lease, "session/a");
    assert.equal(now, null);
  },

  "a released lease no longer writes": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await accept(store, write("session/a", 0, guardedBy(token)));
    await release(store, "session/a", token);
    const { now } = await refuse(store, "fenced", write("session/a", 1, guardedBy(token)));
    assert.equal(now?.holder, null);
    assert.equal(now?.token, token);
  },

  "a lease that ran out still writes while nobody took it over": async ({ store, pass, ttlMs }) => {
    const { token } = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    await accept(store, write("session/a", 0, guardedBy(token)));
  },

  "a zombie is fenced from the moment that another took over": async ({ store, another, pass, ttlMs }) => {
    const other = await another();
    const zombie = await grant(store, "session/a", "one", { ttlMs });
    await accept(store, write("session/a", 0, { ...guardedBy(zombie.token), events: ["alive"] }));
    await pass(ttlMs * 2);
    const heir = await grant(other, "session/a", "two");
    assert.ok(heir.token > zombie.token);
    await refuse(store, "fenced", write("session/a", 1, guardedBy(zombie.token)));
    await accept(other, write("session/a", 1, { ...guardedBy(heir.token), events: ["heir"] }));
    await refuse(store, "fenced", write("session/a", 2, guardedBy(zombie.token)));
    assert.deepEqual(await valuesOf(store, "session/a"), ["alive", "heir"]);
  },

  "a guarded write renews its lease": async ({ store, pass, ttlMs }) => {
    const { token } = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 0.6);
    await accept(store, write("session/a", 0, guardedBy(token)));
    await pass(ttlMs * 0.6);
    outcomeIs(await take(store, "session/a", "two"), "held");
  },

  "a refused write does not renew its lease": async ({ store, pass, ttlMs }) => {
    const { token } = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 0.6);
    await refuse(store, "conflict", write("session/a", 5, guardedBy(token)));
    await pass(ttlMs * 0.6);
    outcomeIs(await take(store, "session/a", "two"), "granted");
  },

  "every guard of a write is checked": async ({ store }) => {
    const a = await grant(store, "session/a", "one");
    const b = await grant(store, "goal/g", "one");
    const guards = [
      { lease: "session/a", token: a.token },
      { lease: "goal/g", token: b.token + 1 },
    ];
    const { lease } = await refuse(store, "fenced", write("session/a", 0, { guards }));
    assert.equal(lease, "goal/g");
    assert.equal((await headOf(store, "session/a")).seq, 0);
  },

  "a lease guards any stream that names it": async ({ store }) => {
    const { token } = await grant(store, "goal/g/T-001", "one");
    await accept(store, write("goal/g", 0, guardedBy(token, "goal/g/T-001")));
    await refuse(store, "fenced", write("goal/h", 0, guardedBy(token + 1, "goal/g/T-001")));
  },

  "a write without guards is accepted while another holds the lease": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await accept(store, write("session/a", 0));
    await refuse(store, "conflict", write("session/a", 0, guardedBy(token)));
    await accept(store, write("session/a", 1, guardedBy(token)));
  },
};
