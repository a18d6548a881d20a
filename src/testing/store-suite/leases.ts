/** Leases: taking, renewing, releasing, and the guards that fence zombies. */

import assert from "node:assert/strict";
import type { Guard, Store } from "../../store.ts";
import {
  accept,
  type Cases,
  grant,
  headOf,
  holder,
  LONG_MS,
  listAll,
  outcomeIs,
  refuse,
  release,
  SPACE,
  take,
  valuesOf,
  write,
} from "./harness.ts";

async function renew(store: Store, leases: readonly Guard[], ttlMs: number): Promise<readonly Guard[]> {
  return outcomeIs(await store.lease({ act: "renew", namespace: SPACE, leases, ttlMs }), "renewed").lost;
}

const names = async (store: Store, prefix?: string, limit = 100): Promise<string[]> => {
  const filter = prefix === undefined ? {} : { prefix };
  return (await listAll(store, { of: "leases", limit, ...filter })).map(({ name }) => name);
};

export const leaseCases: Cases = {
  "a free lease is granted with a token and its holder": async ({ store }) => {
    const lease = await grant(store, "session/a", "one", { ttlMs: 5_000 });
    assert.equal(lease.name, "session/a");
    assert.ok(Number.isSafeInteger(lease.token) && lease.token >= 1);
    assert.deepEqual(lease.holder, holder("one"));
    assert.ok(lease.remainingMs > 0 && lease.remainingMs <= 5_000, `${lease.remainingMs} ms of 5000 remain`);
  },

  "unknown facts about a holder stay null": async ({ store, reopen }) => {
    const unknown = { ...holder("one"), started: null, boot: null, pidNamespace: null };
    const ask = {
      act: "take",
      namespace: SPACE,
      name: "session/a",
      holder: unknown,
      ttlMs: LONG_MS,
    } as const;
    outcomeIs(await store.lease(ask), "granted");
    const [row] = await listAll(await reopen(), { of: "leases" });
    assert.deepEqual(row?.holder, unknown);
  },

  "a held lease is not granted, and the outcome names its holder": async ({ store, another }) => {
    const mine = await grant(store, "session/a", "one");
    const { lease } = outcomeIs(await take(await another(), "session/a", "two"), "held");
    assert.deepEqual(lease.holder, holder("one"));
    assert.equal(lease.token, mine.token);
    assert.ok(lease.remainingMs > 0);
  },

  "the same owner keeps its token when it takes the lease again": async ({ store }) => {
    const first = await grant(store, "session/a", "one");
    const second = await grant(store, "session/a", "one");
    assert.equal(second.token, first.token);
  },

  "the same owner keeps its token after the lease has expired": async ({ store, pass, ttlMs }) => {
    const first = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    assert.equal((await grant(store, "session/a", "one")).token, first.token);
  },

  "a lease is not granted to another owner before it expires": async ({ store, pass, ttlMs }) => {
    await grant(store, "session/a", "one", { ttlMs: ttlMs * 10 });
    await pass(ttlMs * 0.5);
    outcomeIs(await take(store, "session/a", "two"), "held");
  },

  "an expired lease is granted to another owner with a greater token": async ({ store, pass, ttlMs }) => {
    const first = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    const second = await grant(store, "session/a", "two");
    assert.ok(second.token > first.token);
    assert.equal(second.holder?.owner, "two");
    outcomeIs(await take(store, "session/a", "one"), "held");
  },

  "tokens only grow, however the lease changes hands": async ({ store, another, pass, ttlMs, reopen }) => {
    let token = (await grant(store, "session/a", "o0", { ttlMs })).token;
    const grown = (next: number) => {
      assert.ok(next > token, `token ${next} follows ${token}`);
      token = next;
    };
    await pass(ttlMs * 2);
    grown((await grant(await another(), "session/a", "o1")).token);
    grown((await grant(store, "session/a", "o2", { evict: token })).token);
    await release(store, "session/a", token);
    grown((await grant(store, "session/a", "o3")).token);
    await release(store, "session/a", token);
    grown((await grant(await reopen(), "session/a", "o4")).token);
  },

  "an owner that takes a released lease again gets a greater token": async ({ store }) => {
    const first = await grant(store, "session/a", "one");
    await release(store, "session/a", first.token);
    assert.ok((await grant(store, "session/a", "one")).token > first.token);
  },

  "`evict` with the current token takes a held lease": async ({ store }) => {
    const dead = await grant(store, "session/a", "one");
    const heir = await grant(store, "session/a", "two", { evict: dead.token });
    assert.ok(heir.token > dead.token);
    assert.equal(heir.holder?.owner, "two");
  },

  "a grant names the previous holder unless it released the lease": async ({ store, pass, ttlMs }) => {
    const from = async (owner: string, evict?: number) => {
      const parts = evict === undefined ? { ttlMs } : { ttlMs, evict };
      return outcomeIs(await take(store, "session/a", owner, parts), "granted");
    };
    assert.equal((await from("one")).from, null);
    assert.equal((await from("one")).from, null);
    await pass(ttlMs * 2);
    assert.equal((await from("one")).from, null);
    await pass(ttlMs * 2);
    const second = await from("two");
    assert.deepEqual(second.from, holder("one"));
    const third = await from("three", second.lease.token);
    assert.deepEqual(third.from, holder("two"));
    await release(store, "session/a", third.lease.token);
    assert.equal((await from("four")).from, null);
  },

  "`evict` with an old token is refused": async ({ store }) => {
    const first = await grant(store, "session/a", "one");
    const second = await grant(store, "session/a", "two", { evict: first.token });
    const { lease } = outcomeIs(await take(store, "session/a", "three", { evict: first.token }), "held");
    assert.equal(lease.token, second.token);
    assert.equal(lease.holder?.owner, "two");
  },

  "a released lease is free at once": async ({ store }) => {
    const first = await grant(store, "session/a", "one");
    assert.equal(await release(store, "session/a", first.token), true);
    const [row] = await listAll(store, { of: "leases" });
    assert.equal(row?.holder, null);
    assert.equal(row?.token, first.token);
    assert.ok(row.remainingMs <= 0);
    await grant(store, "session/a", "two");
  },

  "releasing with another token has no effect": async ({ store }) => {
    const mine = await grant(store, "session/a", "one");
    assert.equal(await release(store, "session/a", mine.token + 1), false);
    assert.equal(await release(store, "session/none", 1), false);
    outcomeIs(await take(store, "session/a", "two"), "held");
    assert.equal(await release(store, "session/a", mine.token), true);
    assert.equal(await release(store, "session/a", mine.token), false);
  },

  "renewing extends a lease": async ({ store, pass, ttlMs }) => {
    const { token } = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 0.6);
    assert.deepEqual(await renew(store, [{ lease: "session/a", token }], ttlMs), []);
    await pass(ttlMs * 0.6);
    outcomeIs(await take(store, "session/a", "two"), "held");
  },

  "an expired lease can be renewed until another owner takes it": async ({ store, pass, ttlMs }) => {
    const { token } = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    assert.deepEqual(await renew(store, [{ lease: "session/a", token }], LONG_MS), []);
    outcomeIs(await take(store, "session/a", "two"), "held");
  },

  "renewing with two tokens for one lease reports only the old one as lost": async ({ store }) => {
    const old = { lease: "session/a", token: (await grant(store, "session/a", "one")).token };
    const now = {
      lease: "session/a",
      token: (await grant(store, "session/a", "two", { evict: old.token })).token,
    };
    assert.deepEqual(await renew(store, [old, now], LONG_MS), [old]);
  },

  "renewing many extends the held ones and reports the lost ones": async ({ store, pass, ttlMs }) => {
    const leases: Guard[] = [];
    for (let index = 0; index < 6; index++) {
      const lease = `session/s${index}`;
      leases.push({ lease, token: (await grant(store, lease, "one", { ttlMs })).token });
    }
    await grant(store, "session/s1", "two", { evict: leases[1]?.token as number });
    await release(store, "session/s3", leases[3]?.token as number);
    const lost = await renew(store, [...leases, { lease: "session/none", token: 1 }], LONG_MS);
    assert.deepEqual(lost.map(({ lease }) => lease).sort(), ["session/none", "session/s1", "session/s3"]);
    await pass(ttlMs * 2);
    outcomeIs(await take(store, "session/s0", "three"), "held");
    outcomeIs(await take(store, "session/s5", "three"), "held");
    outcomeIs(await take(store, "session/s3", "three"), "granted");
  },

  "renewing nothing loses nothing": async ({ store }) => {
    assert.deepEqual(await renew(store, [], LONG_MS), []);
  },

  "if many owners take one free lease at once, exactly one gets it": async ({ store, another }) => {
    const handles = [store, await another()];
    const outcomes = await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        take(handles[index % 2] as Store, "session/a", `owner ${index}`),
      ),
    );
    assert.equal(outcomes.filter(({ outcome }) => outcome === "granted").length, 1);
    assert.equal(outcomes.filter(({ outcome }) => outcome === "held").length, 9);
  },

  "leases of different names are independent": async ({ store }) => {
    await grant(store, "goal/g/T-001", "one");
    await grant(store, "goal/g/T-002", "two");
    await grant(store, "goal/g", "three");
    assert.deepEqual(await names(store), ["goal/g", "goal/g/T-001", "goal/g/T-002"]);
  },

  "leases are listed by name, page by page": async ({ store }) => {
    const all = Array.from({ length: 15 }, (_, index) => `session/s${String(index).padStart(2, "0")}`);
    for (const name of [...all].reverse()) await grant(store, name, "one");
    for (const limit of [1, 4, 15, 100]) assert.deepEqual(await names(store, undefined, limit), all);
  },

  "the prefix of a lease list is literal": async ({ store }) => {
    const all = ["goal/a_b", "goal/a_b.c", "goal/axb", "goal/A_b", "goal/a.b", "goal/a", "goals/a_b"].sort();
    for (const name of all) await grant(store, name, "one");
    assert.deepEqual(await names(store, "goal/a_b"), ["goal/a_b", "goal/a_b.c"]);
    assert.deepEqual(await names(store, "goal/a."), ["goal/a.b"]);
    assert.deepEqual(await names(store, "goal/%"), []);
    assert.deepEqual(await names(store, "goal/*"), []);
    assert.deepEqual(await names(store, "goal/[a]"), []);
    assert.deepEqual(await names(store, "goal/A"), ["goal/A_b"]);
    assert.deepEqual(await names(store, ""), all);
    assert.deepEqual(
      await names(store, "goal/a", 2),
      all.filter((name) => name.startsWith("goal/a")),
    );
  },

  "a lease survives the handle that took it": async ({ store, reopen }) => {
    const mine = await grant(store, "session/a", "one");
    const reopened = await reopen();
    const { lease } = outcomeIs(await take(reopened, "session/a", "two"), "held");
    assert.equal(lease.token, mine.token);
    assert.equal((await grant(reopened, "session/a", "one")).token, mine.token);
  },
};

const guardedBy = (token: number, lease = "session/a") => ({ guards: [{ lease, token }] });

export const guardCases: Cases = {
  "a write guarded by the current token is accepted": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await accept(store, write("session/a", 0, guardedBy(token)));
    await accept(store, write("session/a", 1, guardedBy(token)));
  },

  "an old token is fenced, and the outcome names the current holder": async ({ store }) => {
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

  "a token that was never granted is fenced": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await refuse(store, "fenced", write("session/a", 0, guardedBy(token + 1)));
    await refuse(store, "fenced", write("session/a", 0, guardedBy(0)));
  },

  "a guard on a lease that was never taken is fenced": async ({ store }) => {
    const { lease, now } = await refuse(store, "fenced", write("session/a", 0, guardedBy(1)));
    assert.equal(lease, "session/a");
    assert.equal(now, null);
  },

  "a token is fenced once its lease is released": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await accept(store, write("session/a", 0, guardedBy(token)));
    await release(store, "session/a", token);
    const { now } = await refuse(store, "fenced", write("session/a", 1, guardedBy(token)));
    assert.equal(now?.holder, null);
    assert.equal(now?.token, token);
  },

  "an expired lease still guards writes until another owner takes it": async ({ store, pass, ttlMs }) => {
    const { token } = await grant(store, "session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    await accept(store, write("session/a", 0, guardedBy(token)));
  },

  "a zombie is fenced as soon as another owner has taken the lease": async ({
    store,
    another,
    pass,
    ttlMs,
  }) => {
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

  "a lease can guard any stream": async ({ store }) => {
    const { token } = await grant(store, "goal/g/T-001", "one");
    await accept(store, write("goal/g", 0, guardedBy(token, "goal/g/T-001")));
    await refuse(store, "fenced", write("goal/h", 0, guardedBy(token + 1, "goal/g/T-001")));
  },

  "a write without guards ignores leases": async ({ store }) => {
    const { token } = await grant(store, "session/a", "one");
    await accept(store, write("session/a", 0));
    await refuse(store, "conflict", write("session/a", 0, guardedBy(token)));
    await accept(store, write("session/a", 1, guardedBy(token)));
  },
};
