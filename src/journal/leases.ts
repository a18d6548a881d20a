/**
 * Leases: named rights to write, with fencing tokens.
 *
 * The store checks the token inside every guarded append, never the clock. Time decides only when another
 * owner may take over: once the lease has expired or was released, or at once if its holder is provably dead.
 *
 * A keeper holds the leases of one process and renews all of them in one request. If a renewal reports a
 * lease lost, or none succeeds for a whole lease, the lease's signal aborts, so that tools in flight stop
 * early. The signal is a courtesy; the token protects the log.
 *
 * A lease need not be taken by a request of its own: the first append of its owner can take it, and the last
 * one can release it (`owned-log.ts`).
 *
 *     expected ──first append, or `takeExpected`──▶ taken ──release, or last append──▶ released
 *                                                     └──another owner, no renewal──▶ lost
 */

import { HoldfastError } from "../model/errors.ts";
import { checkLeaseName } from "../model/names.ts";
import type { BatchLease, Guard, Holder, LeaseRow, Store } from "../store.ts";
import { holderFor, isProvablyDead } from "./process.ts";

export const DEFAULT_LEASE_MS = 30_000;
const POLL_MS = 200;
/** A slow store is given up after this many late answers, and not before this time. */
const SLOW = { answers: 4, ms: 10_000 };
/** A longer timer fires at once, and a heartbeat without pauses would starve everything else. */
const TIMER_LIMIT_MS = 2 ** 31 - 1;

export interface TakeOptions {
  /** Our name in messages that others see: `web-3`, `claude-7f2`. */
  readonly label: string;
  readonly waitMs: number;
  readonly signal?: AbortSignal;
}

/**
 * A moment by two clocks. The steady clock stops while the machine sleeps, but leases on a server do not;
 * anybody may set the wall clock. If either clock has advanced too far, the store is asked. Only the steady
 * one gives a lease up.
 */
export interface Moment {
  readonly steady: number;
  readonly wall: number;
}

export function thisMoment(): Moment {
  return { steady: performance.now(), wall: Date.now() };
}

export class Lease {
  readonly name: string;
  readonly holder: Holder;
  private readonly keeper: LeaseKeeper;
  private readonly controller = new AbortController();
  private confirmed: Moment = { steady: Number.NEGATIVE_INFINITY, wall: Number.NEGATIVE_INFINITY };
  private currentToken: number;
  private previous: Holder | null = null;
  private state: "expected" | "taken" | "releasing" | "released" = "expected";

  /** `token` is the one that it is expected to get. */
  constructor(keeper: LeaseKeeper, name: string, holder: Holder, token: number) {
    this.keeper = keeper;
    this.name = name;
    this.holder = holder;
    this.currentToken = token;
  }

  get token(): number {
    return this.currentToken;
  }

  /** The previous holder, if it did not release the lease. */
  get from(): Holder | null {
    return this.previous;
  }

  /** False until it is taken: then no append was made under it. */
  get isTaken(): boolean {
    return this.state !== "expected";
  }

  /** True from the moment an append that releases it is sent: a renewal may then find it gone. */
  get isReleasing(): boolean {
    return this.state === "releasing" || this.state === "released";
  }

  /** True once an append has released it. */
  get isReleased(): boolean {
    return this.state === "released";
  }

  /** For the append that takes it. */
  taking(): BatchLease {
    const { name, token, holder, keeper } = this;
    return { act: "take", name, token, holder, ttlMs: keeper.ttlMs };
  }

  /** For an append that releases it, or decides on second thoughts to keep it. */
  releasing(isLast: boolean): BatchLease | undefined {
    if (!this.isTaken) return undefined;
    this.state = isLast ? "releasing" : "taken";
    return isLast ? { act: "release", name: this.name, token: this.token } : undefined;
  }

  /** The append that releases it is durable: another owner may have it by now. */
  noteReleased(): void {
    this.state = "released";
    this.keeper.forget(this);
  }

  granted(token: number, from: Holder | null, at: Moment): void {
    this.currentToken = token;
    this.previous = from;
    this.confirmed = at;
    this.state = "taken";
    this.keeper.keep(this);
  }

  /** The last moment at which the store confirmed that the lease is ours. */
  get confirmedAt(): Moment {
    return this.confirmed;
  }

  /** Records a confirmation that was asked for at `at`. Answers may arrive out of order. */
  confirm(at: Moment): void {
    if (at.steady > this.confirmed.steady) this.confirmed = at;
  }

  /** Aborts when another owner has the lease. */
  get lost(): AbortSignal {
    return this.controller.signal;
  }

  get guard(): Guard {
    return { lease: this.name, token: this.token };
  }

  markLost(): void {
    if (!this.controller.signal.aborted) this.controller.abort(leaseLost(this.name, null));
  }

  release(): Promise<void> {
    return this.keeper.release(this);
  }

  /** Stops renewing without a release: once it expires, the next owner finds it as after a crash. */
  letExpire(): void {
    this.keeper.forget(this);
  }
}

export class LeaseKeeper {
  private readonly store: Store;
  private readonly namespace: string;
  readonly ttlMs: number;
  private readonly held = new Set<Lease>();
  private timer: NodeJS.Timeout | null = null;
  private renewing: Promise<void> | null = null;

  constructor(store: Store, namespace: string, ttlMs: number) {
    this.store = store;
    this.namespace = namespace;
    this.ttlMs = Math.min(ttlMs, TIMER_LIMIT_MS);
  }

  /** The lease, or the row of its current holder if that one still has it after `waitMs`. */
  async take(name: string, owner: string, options: TakeOptions): Promise<Lease | LeaseRow> {
    const lease = this.expect(name, owner, options.label, 1);
    return (await this.takeExpected(lease, options)) ?? lease;
  }

  /** A lease that the first append of its owner takes, if it is free and `token` is the next one. */
  expect(name: string, owner: string, label: string, token: number): Lease {
    checkLeaseName(name);
    return new Lease(this, name, holderFor(owner, label), token);
  }

  /** Takes an expected lease. Returns the row of its current holder if that one has it after `waitMs`. */
  async takeExpected(
    lease: Lease,
    options: Pick<TakeOptions, "waitMs" | "signal">,
  ): Promise<LeaseRow | null> {
    const { name, holder } = lease;
    const deadline = performance.now() + options.waitMs;
    let evict: LeaseRow | null = null;
    for (;;) {
      options.signal?.throwIfAborted();
      const before = thisMoment();
      const outcome = await this.store.lease({
        act: "take",
        namespace: this.namespace,
        name,
        holder,
        ttlMs: this.ttlMs,
        ...(evict ? { evict: evict.token } : {}),
      });
      if (outcome.outcome === "granted") {
        lease.granted(outcome.lease.token, outcome.from, before);
        return null;
      }
      if (outcome.outcome !== "held") throw new Error(`lease take answered ${outcome.outcome}`);
      const current = outcome.lease;
      const dead = current.holder !== null && isProvablyDead(current.holder);
      if (dead && evict?.token !== current.token) {
        evict = current;
        continue;
      }
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) return current;
      await pause(Math.min(leftMs, POLL_MS, Math.max(1, current.remainingMs)), options.signal);
    }
  }

  /** The row of exactly that lease, held or not. */
  async find(name: string): Promise<LeaseRow | null> {
    const request = { of: "leases", namespace: this.namespace, names: [name], limit: 1 } as const;
    return (await this.store.list<"leases">(request)).rows[0] ?? null;
  }

  /** Whether a process holds the lease that is not provably dead. */
  async isHeld(name: string): Promise<boolean> {
    const row = await this.find(name);
    return row !== null && row.holder !== null && row.remainingMs > 0 && !isProvablyDead(row.holder);
  }

  async release(lease: Lease): Promise<void> {
    if (!this.forget(lease)) return;
    await this.store.lease({ act: "release", namespace: this.namespace, lease: lease.guard });
  }

  /** Stops renewing one lease. False if it was not being renewed. */
  forget(lease: Lease): boolean {
    const isKnown = this.held.delete(lease);
    if (this.held.size === 0) this.stop();
    return isKnown;
  }

  /** Stops all renewals without telling the store, as a crashed process does. */
  stop(): void {
    if (this.timer) clearInterval(this.timer);
    this.timer = null;
  }

  /** Asks the store whether the lease is still ours, and renews it if so. */
  async confirm(lease: Lease): Promise<boolean> {
    await this.renew([lease]);
    return !lease.lost.aborted;
  }

  /**
   * Throws LEASE_LOST unless the lease is surely ours. Asks the store if a quarter of the lease has passed
   * since its last confirmation, because the process was stopped or the machine slept. Throws STORE_BUSY if
   * it stays too slow.
   */
  async mustHold(lease: Lease): Promise<void> {
    const poll = this.confirmationPoller(lease);
    while (!this.isSurelyHeld(lease)) await poll();
  }

  /**
   * A function that asks the store to confirm the lease. It throws STORE_BUSY once several answers in a row
   * came too late, for longer than a lease. Several, because a process that was stopped meanwhile has learnt
   * nothing.
   */
  confirmationPoller(lease: Lease): () => Promise<void> {
    const since = performance.now();
    let answers = 0;
    return async () => {
      const tookMs = performance.now() - since;
      if (answers >= SLOW.answers && tookMs > Math.max(this.ttlMs, SLOW.ms)) {
        throw tooSlow(lease.name, this.ttlMs, answers, tookMs);
      }
      await this.confirm(lease);
      answers += 1;
    };
  }

  /** Whether the last confirmation is recent; if not, ask the store. Throws if the lease is lost. */
  isSurelyHeld(lease: Lease): boolean {
    if (lease.lost.aborted) throw leaseLost(lease.name, null);
    const { steady, wall } = lease.confirmedAt;
    return performance.now() - steady <= this.ttlMs / 4 && Date.now() - wall <= this.ttlMs / 4;
  }

  /** Renews a lease from now on. */
  keep(lease: Lease): void {
    this.held.add(lease);
    this.timer ??= setInterval(() => this.heartbeat(), Math.max(5, this.ttlMs / 3)).unref();
  }

  private heartbeat(): void {
    // A lease without a confirmation for its whole length counts as lost, even while a renewal hangs.
    const now = performance.now();
    for (const lease of this.held) if (now - lease.confirmedAt.steady > this.ttlMs) this.drop(lease);
    this.renewing ??= this.renew([...this.held])
      .catch((error: unknown) => {
        // The next heartbeat tries again.
        if (error instanceof HoldfastError && error.code === "STORE_CLOSED") this.stop();
      })
      .finally(() => {
        this.renewing = null;
      });
  }

  private async renew(leases: readonly Lease[]): Promise<void> {
    if (leases.length === 0) return;
    const before = thisMoment();
    const outcome = await this.store.lease({
      act: "renew",
      namespace: this.namespace,
      leases: leases.map((lease) => lease.guard),
      ttlMs: this.ttlMs,
    });
    const lost = outcome.outcome === "renewed" ? outcome.lost : [];
    for (const lease of leases) {
      const isLost = lost.some((each) => each.lease === lease.name && each.token === lease.token);
      if (!isLost) lease.confirm(before);
      else if (!lease.isReleasing) this.drop(lease);
    }
  }

  private drop(lease: Lease): void {
    this.forget(lease);
    lease.markLost();
  }
}

export function leaseLost(name: string, now: LeaseRow | null): HoldfastError {
  const who = now?.holder ? ` to ${now.holder.label} (${now.holder.host}, pid ${now.holder.pid})` : "";
  const hint = now?.holder
    ? "Another process continues this work. Stop here; open it again if you want to take it back."
    : "Another process took it over, or it expired while this process or the store stood still. " +
      "See who holds it (holdfast status); if no process does, open it again and continue.";
  return new HoldfastError(
    "LEASE_LOST",
    `${name}: the lease was lost${who}; this handle can write nothing more`,
    { hint, data: { lease: name, ...(now && { token: now.token }) } },
  );
}

function tooSlow(name: string, ttlMs: number, answers: number, tookMs: number): HoldfastError {
  const message =
    `${name}: ${answers} confirmations of a lease of ${ttlMs} ms came too late ` +
    `(${Math.round(tookMs)} ms in all)`;
  return new HoldfastError("STORE_BUSY", message, {
    hint: "Nothing was started. Try again when the store is faster, or set a longer `leaseMs`.",
    data: { lease: name, leaseMs: ttlMs, answers, tookMs },
  });
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(done, ms);
    function done(): void {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }
    function aborted(): void {
      clearTimeout(timer);
      reject(signal?.reason);
    }
    signal?.addEventListener("abort", aborted, { once: true });
  });
}
