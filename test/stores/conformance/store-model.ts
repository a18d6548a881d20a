/**
 * The contract of a store in its simplest form: a list of accepted acts, and questions that are answered by
 * going through that list from the beginning. It caches nothing, so it cannot be stale. It is slow and
 * shares no code with any store.
 */

import type {
  AppendOutcome,
  Batch,
  Guard,
  Head,
  ItemRow,
  KeyRow,
  LeaseOutcome,
  LeaseRequest,
  LeaseRow,
  PutRequest,
  RemoveOutcome,
  RemoveRequest,
  StreamState,
  Write,
} from "../../../src/store.ts";

type PutArtifact = Extract<PutRequest, { of: "artifact" }>;

interface Leased extends Omit<LeaseRow, "remainingMs"> {
  readonly fact: "leased";
  readonly ttlMs: number;
  readonly until: number;
}

type Fact =
  | { readonly fact: "written"; readonly write: Write; readonly batch: string }
  | { readonly fact: "removed"; readonly stream: string }
  /** An erase has left nothing of this name. */
  | {
      readonly fact: "forgotten";
      readonly stream: string;
      readonly generation: number;
      readonly token: number;
    }
  | { readonly fact: "put"; readonly hash: string; readonly at: number }
  | { readonly fact: "collected"; readonly hash: string }
  | Leased;

/** The history of a stream since it last began. */
interface Life {
  readonly generation: number;
  readonly writes: { readonly write: Write; readonly batch: string }[];
  isRemoved: boolean;
}

export class StoreModel {
  now = 0;
  private readonly facts: Fact[];

  constructor(facts: readonly Fact[] = []) {
    this.facts = [...facts];
  }

  copy(): StoreModel {
    const copy = new StoreModel(this.facts);
    copy.now = this.now;
    return copy;
  }

  // Questions

  life(stream: string): Life {
    let life: Life = { generation: 0, writes: [], isRemoved: true };
    for (const fact of this.facts) {
      if (fact.fact === "removed" && fact.stream === stream) life.isRemoved = true;
      if (fact.fact === "forgotten" && fact.stream === stream)
        life = { generation: 0, writes: [], isRemoved: true };
      if (fact.fact !== "written" || fact.write.stream !== stream) continue;
      if (fact.write.expect.generation > life.generation) {
        life = { generation: fact.write.expect.generation, writes: [], isRemoved: false };
      }
      life.writes.push(fact);
    }
    return life;
  }

  streams(): string[] {
    const names = this.facts.flatMap((fact) => (fact.fact === "written" ? [fact.write.stream] : []));
    return [...new Set(names)];
  }

  /** A removed stream stays hidden as long as a fork of it exists. */
  state(stream: string): StreamState {
    const life = this.life(stream);
    if (life.writes.length === 0) return "gone";
    if (!life.isRemoved) return "live";
    const forks = this.streams().filter((name) => this.parent(name)?.stream === stream);
    return forks.some((name) => this.state(name) !== "gone") ? "hidden" : "gone";
  }

  parent(stream: string): Write["fork"] {
    return this.life(stream).writes[0]?.write.fork;
  }

  head(stream: string): Head {
    const { generation, writes } = this.life(stream);
    if (this.state(stream) === "gone")
      return { generation: (generation || this.forgotten("generation")) + 1, seq: 0 };
    const last = writes.at(-1)?.write;
    return { generation, seq: last ? last.expect.seq + last.count : 0 };
  }

  /** The highest generation or token that an erase has left no other trace of. */
  private forgotten(what: "generation" | "token"): number {
    return this.facts.reduce(
      (most, fact) => (fact.fact === "forgotten" ? Math.max(most, fact[what]) : most),
      0,
    );
  }

  status(stream: string): string | null {
    const named = this.life(stream).writes.flatMap(({ write }) => write.facets?.status ?? []);
    return named.at(-1) ?? null;
  }

  /** Ids and ends of the visible items. */
  items(stream: string): Pick<ItemRow, "id" | "doneAt">[] {
    if (this.state(stream) !== "live") return [];
    const ends = new Map<string, number | null>();
    for (const { write } of this.life(stream).writes) {
      for (const { id, doneAt } of write.items ?? []) ends.set(id, doneAt ?? ends.get(id) ?? null);
    }
    return [...ends].map(([id, doneAt]) => ({ id, doneAt }));
  }

  keys(): KeyRow[] {
    const held = new Map<string, KeyRow>();
    for (const fact of this.facts) {
      if (fact.fact === "written") changeKeys(held, fact.write);
      if (fact.fact !== "forgotten") continue;
      for (const row of held.values())
        if (row.stream === fact.stream) held.set(row.key, { ...row, stream: "erased/names" });
    }
    return [...held.values()];
  }

  lease(name: string): Leased | undefined {
    const token = this.forgotten("token");
    if (name === "erased/names")
      return token === 0 ? undefined : { fact: "leased", name, token, holder: null, ttlMs: 0, until: 0 };
    const last = this.facts.findLast(
      (fact) =>
        (fact.fact === "leased" && fact.name === name) || (fact.fact === "forgotten" && fact.stream === name),
    );
    return last?.fact === "leased" ? last : undefined;
  }

  leaseRow(name: string): LeaseRow | null {
    const lease = this.lease(name);
    if (!lease) return null;
    const { token, holder } = lease;
    return { name, token, holder, remainingMs: holder ? Math.max(0, lease.until - this.now) : 0 };
  }

  artifacts(): Map<string, number> {
    const present = new Map<string, number>();
    for (const fact of this.facts) {
      if (fact.fact === "put") present.set(fact.hash, Math.max(fact.at, present.get(fact.hash) ?? 0));
      if (fact.fact === "collected") present.delete(fact.hash);
    }
    return present;
  }

  // Acts

  append(batch: Batch): AppendOutcome {
    const { writes } = batch;
    const heads = writes.map(({ expect, count }) => ({ ...expect, seq: expect.seq + count }));
    if (writes.every((write) => this.isStored(write, batch.id)))
      return { outcome: "ok", heads, resent: true };
    const refusal =
      this.fenced(writes.flatMap((write) => write.guards ?? [])) ??
      first(writes, (write) => this.conflict(write)) ??
      this.taken(writes) ??
      this.missing(writes);
    if (refusal) return refusal;
    for (const guard of writes.flatMap((write) => write.guards ?? [])) {
      const lease = this.lease(guard.lease);
      if (lease) this.facts.push({ ...lease, until: this.now + lease.ttlMs });
    }
    for (const write of writes) this.facts.push({ fact: "written", write, batch: batch.id });
    return { outcome: "ok", heads, resent: false };
  }

  private isStored({ stream, expect }: Write, id: string): boolean {
    if (this.head(stream).generation !== expect.generation) return false;
    return this.life(stream).writes.some(
      ({ write, batch }) => write.expect.seq === expect.seq && batch === id,
    );
  }

  private fenced(guards: readonly Guard[]): Extract<AppendOutcome, { outcome: "fenced" }> | undefined {
    return first(guards, ({ lease, token }) => {
      const known = this.lease(lease);
      if (known?.holder && known.token === token) return undefined;
      return { outcome: "fenced", lease, now: this.leaseRow(lease) } as const;
    });
  }

  private conflict({ stream, expect, fork }: Write): AppendOutcome | undefined {
    const head = this.head(stream);
    const state = this.state(stream);
    const isAtEnd = state !== "hidden" && head.seq === expect.seq;
    const isFree = fork ? state === "gone" : isAtEnd;
    const isNext =
      state === "gone" ? head.generation <= expect.generation : head.generation === expect.generation;
    if (!isFree || !isNext) return { outcome: "conflict", stream, head };
    if (!fork) return undefined;
    const past = this.head(fork.stream);
    const isThere = this.state(fork.stream) !== "gone" && past.generation === fork.generation;
    if (isThere && past.seq >= fork.seq) return undefined;
    return { outcome: "conflict", stream: fork.stream, head: past };
  }

  private taken(writes: readonly Write[]): AppendOutcome | undefined {
    const held = new Map(this.keys().map((row) => [row.key, row]));
    return first(writes, (write) => {
      const clash = changeKeys(held, write);
      return clash && { outcome: "taken", key: clash.key, by: { stream: clash.stream, seq: clash.seq } };
    });
  }

  private missing(writes: readonly Write[]): AppendOutcome | undefined {
    const present = this.artifacts();
    const artifact = writes.flatMap((write) => write.artifacts ?? []).find((hash) => !present.has(hash));
    return artifact === undefined ? undefined : { outcome: "missing", artifact };
  }

  leaseAct(request: LeaseRequest): LeaseOutcome {
    if (request.act === "take") return this.take(request);
    if (request.act === "release") {
      const lease = this.lease(request.lease.lease);
      const wasOurs = Boolean(lease?.holder && lease.token === request.lease.token);
      if (lease && wasOurs) this.facts.push({ ...lease, holder: null });
      return { outcome: "released", wasOurs };
    }
    const lost = request.leases.filter((guard) => this.fenced([guard]) !== undefined);
    for (const guard of request.leases) {
      const lease = this.lease(guard.lease);
      if (!lease || lost.includes(guard)) continue;
      this.facts.push({ ...lease, ttlMs: request.ttlMs, until: this.now + request.ttlMs });
    }
    return { outcome: "renewed", lost };
  }

  private take(request: Extract<LeaseRequest, { act: "take" }>): LeaseOutcome {
    const { name, holder, ttlMs, evict } = request;
    const old = this.lease(name);
    const isOurs = old?.holder?.owner === holder.owner;
    const isFree = !old?.holder || isOurs || old.until <= this.now || old.token === evict;
    if (!isFree) return { outcome: "held", lease: this.leaseRow(name) as LeaseRow };
    const token = isOurs && old ? old.token : (old?.token ?? this.forgotten("token")) + 1;
    this.facts.push({ fact: "leased", name, token, holder, ttlMs, until: this.now + ttlMs });
    const lease = this.leaseRow(name) as LeaseRow;
    return { outcome: "granted", lease, from: isOurs ? null : (old?.holder ?? null) };
  }

  remove(request: RemoveRequest): RemoveOutcome {
    if (request.of === "snapshots") return { outcome: "removed", count: 0 };
    if (request.of === "artifacts") {
      const old = [...this.artifacts()].filter(([, at]) => at < request.putBefore).map(([hash]) => hash);
      const garbage = old.filter((hash) => !this.isReferred(hash));
      for (const hash of garbage) this.facts.push({ fact: "collected", hash });
      return { outcome: "removed", count: garbage.length };
    }
    const { stream, expect, guards = [], erase } = request;
    const head = this.head(stream);
    const before = this.streams().filter((name) => this.state(name) !== "gone");
    const fenced = this.fenced(guards);
    if (fenced) return fenced;
    if (head.generation !== expect.generation || head.seq !== expect.seq)
      return { outcome: "conflict", head };
    if (this.state(stream) === "gone") {
      if (erase) this.forget(stream);
      return { outcome: "removed", count: 0 };
    }
    this.facts.push({ fact: "removed", stream });
    if (this.state(stream) === "hidden") return { outcome: "hidden" };
    const gone = before.filter((name) => this.state(name) === "gone");
    if (erase) {
      for (const name of gone) this.collectOwn(name);
      for (const name of gone) this.forget(name);
    }
    return { outcome: "removed", count: gone.length };
  }

  private forget(stream: string): void {
    const { generation } = this.life(stream);
    const token = this.lease(stream)?.token ?? 0;
    if (generation + token > 0) this.facts.push({ fact: "forgotten", stream, generation, token });
  }

  /** What only this stream referred to, unless it was put after the stream's last write. */
  private collectOwn(stream: string): void {
    const { writes } = this.life(stream);
    const updatedAt = writes.at(-1)?.write.at ?? 0;
    for (const hash of new Set(writes.flatMap(({ write }) => write.artifacts ?? []))) {
      const putAt = this.artifacts().get(hash);
      if (putAt === undefined || putAt > updatedAt || this.isReferred(hash)) continue;
      this.facts.push({ fact: "collected", hash });
    }
  }

  private isReferred(hash: string): boolean {
    const kept = this.streams().filter((name) => this.state(name) !== "gone");
    return kept.some((name) => this.life(name).writes.some(({ write }) => write.artifacts?.includes(hash)));
  }

  put({ hash, at }: PutArtifact): void {
    this.facts.push({ fact: "put", hash, at });
  }
}

/** Applies the write to `held`. Returns the holder of the first key that it cannot claim. */
function changeKeys(held: Map<string, KeyRow>, write: Write): KeyRow | undefined {
  const { stream, expect, releases = [], claims = [] } = write;
  for (const key of releases) if (held.get(key)?.stream === stream) held.delete(key);
  for (const { key, event } of claims) {
    const holder = held.get(key);
    if (holder) return holder;
    held.set(key, { key, stream, seq: expect.seq + event + 1 });
  }
  return undefined;
}

function first<Each, Found>(
  list: readonly Each[],
  find: (each: Each) => Found | undefined,
): Found | undefined {
  for (const each of list) {
    const found = find(each);
    if (found !== undefined) return found;
  }
  return undefined;
}
