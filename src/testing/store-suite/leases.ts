/** Leases: taking, renewing, releasing, and the guards that fence zombies. */

import assert from "node:assert/strict";
import type { Guard } from "../../store.ts";
import type { Cases, TestStore } from "./harness.ts";
import { guardedBy, holder, kindsOf, LONG_MS, outcomeIs, SPACE, times, write } from "./harness.ts";

async function renew(store: TestStore, leases: readonly Guard[], ttlMs = LONG_MS): Promise<readonly Guard[]> {
  return outcomeIs(await store.port.lease({ act: "renew", namespace: SPACE, leases, ttlMs }), "renewed").lost;
}

const names = async (store: TestStore, prefix?: string, limit = 100): Promise<string[]> => {
  const filter = prefix === undefined ? {} : { prefix };
  return (await store.list({ of: "leases", limit, ...filter })).map(({ name }) => name);
};

/** A batch that also takes or releases the lease `session/a`. */
const taking = (token: number, owner = "one", name = "session/a") => {
  return { lease: { act: "take", name, token, holder: holder(owner), ttlMs: LONG_MS } } as const;
};
const releasing = (token: number) => ({ lease: { act: "release", name: "session/a", token } }) as const;

export const leaseCases: Cases = {
  "an append takes a lease that nobody ever had": async ({ store, another }) => {
    await store.accept(write("session/a", 0), taking(1));
    const [row] = await store.list({ of: "leases" });
    assert.deepEqual([row?.name, row?.token, row?.holder], ["session/a", 1, holder("one")]);
    assert.ok(row && row.remainingMs > 0);
    await (await another()).held("session/a", "two");
    await store.accept(write("session/a", 1, guardedBy(1)));
  },

  "an append takes a released lease with the next token, also after a reopen": async ({ store, reopen }) => {
    const { token } = await store.grant("session/a", "one");
    await store.release("session/a", token);
    await store.accept(write("session/a", 0), taking(token + 1, "two"));
    await store.refuse("fenced", write("session/a", 1, guardedBy(token)));
    const again = await reopen();
    assert.equal((await again.held("session/a", "three")).holder?.owner, "two");
    await again.accept(write("session/a", 1, guardedBy(token + 1)));
  },

  "an append cannot take a held lease, or one with another token, and writes nothing": async (trial) => {
    const { store, pass, ttlMs } = trial;
    await store.refuse("fenced", write("session/a", 0), {}, taking(2));
    const { token } = await store.grant("session/a", "one", { ttlMs });
    const fenced = await store.refuse("fenced", write("session/a", 0), {}, taking(token + 1, "two"));
    assert.equal(fenced.now?.holder?.owner, "one");
    await pass(ttlMs * 2);
    await store.refuse("fenced", write("session/a", 0), {}, taking(token + 1, "two"));
    await store.release("session/a", token);
    await store.refuse("fenced", write("session/a", 0), {}, taking(token, "two"));
    assert.deepEqual(await store.seqs("session/a"), [0]);
  },

  "an append that is refused takes and releases nothing": async ({ store }) => {
    await store.refuse("conflict", write("session/a", 7), {}, taking(1));
    const { token } = await store.grant("session/a", "one");
    assert.equal(token, 1);
    await store.refuse("conflict", write("session/a", 7, guardedBy(1)), {}, releasing(1));
    await store.held("session/a", "two");
  },

  "an append releases its lease, and the next owner gets a greater token": async ({ store, reopen }) => {
    await store.accept(write("session/a", 0), taking(1));
    await store.accept(write("session/a", 1, guardedBy(1)), releasing(1));
    await store.refuse("fenced", write("session/a", 2, guardedBy(1)));
    await store.refuse("fenced", write("session/a", 2), {}, releasing(1));
    assert.equal((await (await reopen()).grant("session/a", "two")).token, 2);
  },

  "a resent append that took or released a lease is recognised": async ({ store }) => {
    const first = { id: "first", ...taking(1) };
    await store.accept(write("session/a", 0), first);
    assert.equal(outcomeIs(await store.send(write("session/a", 0), first), "ok").resent, true);
    const last = { id: "last", ...releasing(1) };
    await store.accept(write("session/a", 1, guardedBy(1)), last);
    assert.equal(outcomeIs(await store.send(write("session/a", 1, guardedBy(1)), last), "ok").resent, true);
  },

  "of appends that take one lease at once, one wins": async ({ store, another }) => {
    const others = [store, await another(), await another()];
    for (let round = 0; round < 20; round++) {
      const sent = others.map((each, index) =>
        each.send(write(`session/a${index}-${round}`, 0), taking(1, `owner ${index}`, `session/${round}`)),
      );
      assert.deepEqual((await kindsOf(sent)).sort(), ["fenced", "fenced", "ok"]);
    }
  },

  "a free lease is granted with a token and its holder": async ({ store }) => {
    const lease = await store.grant("session/a", "one", { ttlMs: 5_000 });
    assert.equal(lease.name, "session/a");
    assert.ok(Number.isSafeInteger(lease.token) && lease.token >= 1);
    assert.deepEqual(lease.holder, holder("one"));
    assert.ok(lease.remainingMs > 0 && lease.remainingMs <= 5_000, `${lease.remainingMs} ms of 5000 remain`);
  },

  "unknown facts about a holder stay null": async ({ store, reopen }) => {
    const unknown = { ...holder("one"), started: null, boot: null, pidNamespace: null };
    await store.grant("session/a", "one", { holder: unknown });
    const [row] = await (await reopen()).list({ of: "leases" });
    assert.deepEqual(row?.holder, unknown);
  },

  "a held lease is not granted, and the outcome names its holder": async ({ store, another }) => {
    const mine = await store.grant("session/a", "one");
    const lease = await (await another()).held("session/a", "two");
    assert.deepEqual([lease.holder, lease.token], [holder("one"), mine.token]);
    assert.ok(lease.remainingMs > 0);
  },

  "the same owner keeps its token when it takes the lease again": async ({ store }) => {
    const first = await store.grant("session/a", "one");
    assert.equal((await store.grant("session/a", "one")).token, first.token);
  },

  "the same owner keeps its token after the lease has expired": async ({ store, pass, ttlMs }) => {
    const first = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    assert.equal((await store.grant("session/a", "one")).token, first.token);
  },

  "a lease is not granted to another owner before it expires": async ({ store, pass, ttlMs }) => {
    await store.grant("session/a", "one", { ttlMs: ttlMs * 10 });
    await pass(ttlMs * 0.5);
    await store.held("session/a", "two");
  },

  "an expired lease is granted to another owner with a greater token": async ({ store, pass, ttlMs }) => {
    const first = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    const second = await store.grant("session/a", "two");
    assert.ok(second.token > first.token);
    assert.equal(second.holder?.owner, "two");
    await store.held("session/a", "one");
  },

  "tokens only grow, however the lease changes hands": async ({ store, another, pass, ttlMs, reopen }) => {
    let token = (await store.grant("session/a", "o0", { ttlMs })).token;
    const grown = (next: number) => {
      assert.ok(next > token, `token ${next} follows ${token}`);
      token = next;
    };
    await pass(ttlMs * 2);
    grown((await (await another()).grant("session/a", "o1")).token);
    grown((await store.grant("session/a", "o2", { evict: token })).token);
    await store.release("session/a", token);
    grown((await store.grant("session/a", "o3")).token);
    await store.release("session/a", token);
    grown((await (await reopen()).grant("session/a", "o4")).token);
  },

  "an owner that takes a released lease again gets a greater token": async ({ store }) => {
    const first = await store.grant("session/a", "one");
    await store.release("session/a", first.token);
    assert.ok((await store.grant("session/a", "one")).token > first.token);
  },

  "`evict` with the current token takes a held lease": async ({ store }) => {
    const dead = await store.grant("session/a", "one");
    const heir = await store.grant("session/a", "two", { evict: dead.token });
    assert.ok(heir.token > dead.token);
    assert.equal(heir.holder?.owner, "two");
  },

  "a grant names the previous holder unless it released the lease": async ({ store, pass, ttlMs }) => {
    const from = async (owner: string, evict?: number) => {
      const parts = evict === undefined ? { ttlMs } : { ttlMs, evict };
      return outcomeIs(await store.take("session/a", owner, parts), "granted");
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
    await store.release("session/a", third.lease.token);
    assert.equal((await from("four")).from, null);
  },

  "`evict` with an old token is refused": async ({ store }) => {
    const first = await store.grant("session/a", "one");
    const second = await store.grant("session/a", "two", { evict: first.token });
    const lease = await store.held("session/a", "three", { evict: first.token });
    assert.deepEqual([lease.token, lease.holder?.owner], [second.token, "two"]);
  },

  "a released lease is free at once": async ({ store }) => {
    const first = await store.grant("session/a", "one");
    assert.equal(await store.release("session/a", first.token), true);
    const [row] = await store.list({ of: "leases" });
    assert.deepEqual([row?.holder, row?.token], [null, first.token]);
    assert.ok(row && row.remainingMs <= 0);
    await store.grant("session/a", "two");
  },

  "releasing with another token has no effect": async ({ store }) => {
    const mine = await store.grant("session/a", "one");
    assert.equal(await store.release("session/a", mine.token + 1), false);
    assert.equal(await store.release("session/none", 1), false);
    await store.held("session/a", "two");
    assert.equal(await store.release("session/a", mine.token), true);
    assert.equal(await store.release("session/a", mine.token), false);
  },

  "renewing extends a lease": async ({ store, pass, ttlMs }) => {
    const { token } = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 0.6);
    assert.deepEqual(await renew(store, [{ lease: "session/a", token }], ttlMs), []);
    await pass(ttlMs * 0.6);
    await store.held("session/a", "two");
  },

  "an expired lease can be renewed until another owner takes it": async ({ store, pass, ttlMs }) => {
    const { token } = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    assert.deepEqual(await renew(store, [{ lease: "session/a", token }]), []);
    await store.held("session/a", "two");
  },

  "renewing with two tokens for one lease reports only the old one as lost": async ({ store }) => {
    const old = { lease: "session/a", token: (await store.grant("session/a", "one")).token };
    const { token } = await store.grant("session/a", "two", { evict: old.token });
    assert.deepEqual(await renew(store, [old, { lease: "session/a", token }]), [old]);
  },

  "renewing many extends the held ones and reports the lost ones": async ({ store, pass, ttlMs }) => {
    const granted = times(6, (index) => store.grant(`session/s${index}`, "one", { ttlMs }));
    const leases = (await Promise.all(granted)).map(({ name, token }) => ({ lease: name, token }));
    await store.grant("session/s1", "two", { evict: leases[1]?.token as number });
    await store.release("session/s3", leases[3]?.token as number);
    const lost = await renew(store, [...leases, { lease: "session/none", token: 1 }]);
    assert.deepEqual(lost.map(({ lease }) => lease).sort(), ["session/none", "session/s1", "session/s3"]);
    await pass(ttlMs * 2);
    await store.held("session/s0", "three");
    await store.held("session/s5", "three");
    await store.grant("session/s3", "three");
  },

  "renewing nothing loses nothing": async ({ store }) => {
    assert.deepEqual(await renew(store, []), []);
  },

  "if many owners take one free lease at once, exactly one gets it": async ({ store, another }) => {
    const handles = [store, await another()];
    const acts = times(5, (round) => handles.map((each, who) => each.take("session/a", `${round} ${who}`)));
    assert.deepEqual(await kindsOf(acts.flat()), ["granted", ...Array(9).fill("held")]);
  },

  "leases of different names are independent": async ({ store }) => {
    await store.grant("goal/g/T-001", "one");
    await store.grant("goal/g/T-002", "two");
    await store.grant("goal/g", "three");
    assert.deepEqual(await names(store), ["goal/g", "goal/g/T-001", "goal/g/T-002"]);
  },

  "leases are listed by name, page by page": async ({ store }) => {
    const all = times(15, (index) => `session/s${String(index).padStart(2, "0")}`);
    for (const name of [...all].reverse()) await store.grant(name, "one");
    for (const limit of [1, 4, 15, 100]) assert.deepEqual(await names(store, undefined, limit), all);
  },

  "the prefix of a lease list is literal": async ({ store }) => {
    const all = ["goal/a_b", "goal/a_b.c", "goal/axb", "goal/A_b", "goal/a.b", "goal/a", "goals/a_b"].sort();
    for (const name of all) await store.grant(name, "one");
    assert.deepEqual(await names(store, "goal/a_b"), ["goal/a_b", "goal/a_b.c"]);
    assert.deepEqual(await names(store, "goal/a."), ["goal/a.b"]);
    for (const prefix of ["goal/%", "goal/*", "goal/[a]"]) assert.deepEqual(await names(store, prefix), []);
    assert.deepEqual(await names(store, "goal/A"), ["goal/A_b"]);
    assert.deepEqual(await names(store, ""), all);
    const expected = all.filter((name) => name.startsWith("goal/a"));
    assert.deepEqual(await names(store, "goal/a", 2), expected);
  },

  "leases are listed by their exact names, and absent ones are left out": async ({ store }) => {
    const all = ["goal/g", "goal/g/T-001", "session/a", "session/ab"];
    for (const name of all) await store.grant(name, "one");
    const named = async (wanted: readonly string[], limit = 100): Promise<string[]> =>
      (await store.list({ of: "leases", limit, names: wanted })).map(({ name }) => name);
    assert.deepEqual(await named(["session/a"]), ["session/a"]);
    assert.deepEqual(await named(["session/ab", "session/b", "goal/g", "goal/g"]), ["goal/g", "session/ab"]);
    assert.deepEqual(await named(["session/\0", "session/a_", "session/"]), []);
    assert.deepEqual(await named([...all].reverse(), 1), all);
    assert.deepEqual(await named([]), []);
  },

  "a lease survives the handle that took it": async ({ store, reopen }) => {
    const mine = await store.grant("session/a", "one");
    const reopened = await reopen();
    assert.equal((await reopened.held("session/a", "two")).token, mine.token);
    assert.equal((await reopened.grant("session/a", "one")).token, mine.token);
  },
};

export const guardCases: Cases = {
  "a write guarded by the current token is accepted": async ({ store }) => {
    const { token } = await store.grant("session/a", "one");
    await store.write("session/a", 0, guardedBy(token));
    await store.write("session/a", 1, guardedBy(token));
  },

  "an old token is fenced, and the outcome names the current holder": async ({ store }) => {
    const first = await store.grant("session/a", "one");
    await store.release("session/a", first.token);
    const second = await store.grant("session/a", "two");
    const { lease, now } = await store.refuse("fenced", write("session/a", 0, guardedBy(first.token)));
    assert.deepEqual([lease, now?.token, now?.holder?.owner], ["session/a", second.token, "two"]);
    assert.equal((await store.head("session/a")).seq, 0);
    await store.write("session/a", 0, guardedBy(second.token));
  },

  "a token that was never granted is fenced": async ({ store }) => {
    const { token } = await store.grant("session/a", "one");
    await store.refuse("fenced", write("session/a", 0, guardedBy(token + 1)));
    await store.refuse("fenced", write("session/a", 0, guardedBy(0)));
  },

  "a guard on a lease that was never taken is fenced": async ({ store }) => {
    await store.refuse("fenced", write("session/a", 0, guardedBy(1)), { lease: "session/a", now: null });
  },

  "a token is fenced once its lease is released": async ({ store }) => {
    const { token } = await store.grant("session/a", "one");
    await store.write("session/a", 0, guardedBy(token));
    await store.release("session/a", token);
    const { now } = await store.refuse("fenced", write("session/a", 1, guardedBy(token)));
    assert.deepEqual([now?.holder, now?.token], [null, token]);
  },

  "an expired lease still guards writes until another owner takes it": async ({ store, pass, ttlMs }) => {
    const { token } = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 2);
    await store.write("session/a", 0, guardedBy(token));
  },

  "a zombie is fenced as soon as another owner has taken the lease": async ({
    store,
    another,
    pass,
    ttlMs,
  }) => {
    const other = await another();
    const zombie = await store.grant("session/a", "one", { ttlMs });
    await store.write("session/a", 0, { ...guardedBy(zombie.token), events: ["alive"] });
    await pass(ttlMs * 2);
    const heir = await other.grant("session/a", "two");
    assert.ok(heir.token > zombie.token);
    await store.refuse("fenced", write("session/a", 1, guardedBy(zombie.token)));
    await other.write("session/a", 1, { ...guardedBy(heir.token), events: ["heir"] });
    await store.refuse("fenced", write("session/a", 2, guardedBy(zombie.token)));
    assert.deepEqual(await store.values("session/a"), ["alive", "heir"]);
  },

  "a guarded write renews its lease": async ({ store, pass, ttlMs }) => {
    const { token } = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 0.6);
    await store.write("session/a", 0, guardedBy(token));
    await pass(ttlMs * 0.6);
    await store.held("session/a", "two");
  },

  "a refused write does not renew its lease": async ({ store, pass, ttlMs }) => {
    const { token } = await store.grant("session/a", "one", { ttlMs });
    await pass(ttlMs * 0.6);
    await store.refuse("conflict", write("session/a", 5, guardedBy(token)));
    await pass(ttlMs * 0.6);
    await store.grant("session/a", "two");
  },

  "every guard of a write is checked": async ({ store }) => {
    const a = await store.grant("session/a", "one");
    const b = await store.grant("goal/g", "one");
    const guards = [...guardedBy(a.token).guards, { lease: "goal/g", token: b.token + 1 }];
    await store.refuse("fenced", write("session/a", 0, { guards }), { lease: "goal/g" });
    assert.equal((await store.head("session/a")).seq, 0);
  },

  "a lease can guard any stream": async ({ store }) => {
    const { token } = await store.grant("goal/g/T-001", "one");
    await store.write("goal/g", 0, guardedBy(token, "goal/g/T-001"));
    await store.refuse("fenced", write("goal/h", 0, guardedBy(token + 1, "goal/g/T-001")));
  },

  "a write without guards ignores leases": async ({ store }) => {
    const { token } = await store.grant("session/a", "one");
    await store.write("session/a", 0);
    await store.refuse("conflict", write("session/a", 0, guardedBy(token)));
    await store.write("session/a", 1, guardedBy(token));
  },
};
