/**
 * What the journal comes to: the rules' own structures, filled line by line, always in the journal's order. Payloads
 * stay on the disk, and so do the bytes of artifacts and snapshots.
 */

import type {
  Batch,
  Head,
  Holder,
  ItemRow,
  RemoveOutcome,
  RemoveRequest,
  Seal,
  StreamRow,
  StreamState,
  Write,
} from "../../store.ts";
import { type Clock, type LeaseExpiry, remainingMs, timelineOf } from "../kit/index.ts";
import { corrupt } from "./failures.ts";
import {
  applyBatch,
  conflicting,
  goneStream,
  type Lease,
  type MemoryData,
  memoryData,
  remove,
  type Space,
  type Stream,
  spaceOf,
  streamOf,
} from "./foundations.ts";
import { type Begin, type JournalFile, KeptWrite, type PlacedLine, type Segment } from "./journal-file.ts";
import type { Form } from "./line.ts";

/** A write as its line tells it: the payload stands behind the act, `bytes` long. */
export interface LoggedWrite extends Omit<Write, "payload" | "codec"> {
  readonly codec?: string;
  /** Left out for JSON. */
  readonly form?: Exclude<Form, "json">;
  readonly bytes: number;
}

export interface AppendAct {
  readonly do: "append";
  readonly id: string;
  readonly namespace: string;
  readonly writes: readonly LoggedWrite[];
}

export interface LeaseAct {
  readonly do: "lease";
  readonly namespace: string;
  readonly name: string;
  readonly token: number;
  readonly holder: Holder | null;
  readonly ttlMs: number;
  readonly deadline: number;
  readonly boot: string;
  /** Its row in the live file, for ever. */
  readonly slot: number;
}

/** In a journal that was rewritten, or filled by a copy: a stream as it then was; its writes follow. */
export interface StreamAct {
  readonly do: "stream";
  readonly namespace: string;
  readonly stream: string;
  readonly state: StreamState;
  readonly head: Head;
  readonly base: number;
  readonly parent: StreamRow["parent"];
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly facets: StreamRow["facets"];
  readonly items: readonly ItemRow[];
  readonly artifacts: readonly string[];
}

export interface WriteAct {
  readonly do: "write";
  readonly namespace: string;
  readonly stream: string;
  readonly first: number;
  readonly last: number;
  readonly batch: string;
  readonly codec: string | null;
  readonly sum: number;
  readonly at: number;
  readonly form?: Exclude<Form, "json">;
  readonly bytes: number;
}

export type Act =
  | Begin
  | AppendAct
  | LeaseAct
  | StreamAct
  | WriteAct
  | { readonly do: "remove"; readonly namespace: string; readonly stream: string; readonly expect: Head }
  | { readonly do: "artifact"; readonly namespace: string; readonly hash: string; readonly at: number }
  | { readonly do: "collect"; readonly namespace: string; readonly hashes: readonly string[] }
  | {
      readonly do: "keys";
      readonly namespace: string;
      readonly keys: readonly (readonly [key: string, stream: string, seq: number])[];
    }
  /** Of streams that came by a copy. */
  | { readonly do: "items"; readonly namespace: string; readonly items: readonly ItemRow[] }
  /** Where the store stands in a copy; see `moving.ts`. */
  | { readonly do: "seal"; readonly seal: Seal | null }
  /** After an I/O error: something to sync, to see whether that works again. */
  | { readonly do: "proof" };

/** Told of every stream that a line changes. */
export type Touched = (namespace: string, stream: string) => void;

/** Artifacts lie in files of their own; here is only that they are there. */
const ELSEWHERE = new Uint8Array(0);

export class State {
  readonly data: MemoryData = memoryData();
  readonly #slots = new Map<string, number>();
  readonly #clock: Clock;
  readonly #touched: Touched;
  #dead = 0;

  constructor(clock: Clock, touched: Touched) {
    this.#clock = clock;
    this.#touched = touched;
  }

  /** About how many bytes of the journal nobody needs any more. */
  get dead(): number {
    return this.#dead;
  }

  space(namespace: string): Space {
    return spaceOf(this.data, namespace);
  }

  /** The row of a lease in the live file; a new lease gets the next. */
  slot(namespace: string, name: string): number {
    return this.#slots.get(leaseKey(namespace, name)) ?? this.#slots.size;
  }

  /** Whether nothing that was known here is missing there: streams and tokens only go forward. */
  isContinuedBy(next: State): boolean {
    return [...this.data.spaces].every(([namespace, { streams, leases }]) => {
      const later = next.space(namespace);
      const goesOn = [...streams.values()].every(({ name, head }) => {
        const now = streamOf(later, name).head;
        return (
          now.generation > head.generation || (now.generation === head.generation && now.seq >= head.seq)
        );
      });
      return (
        goesOn && [...leases].every(([name, { token }]) => (later.leases.get(name)?.token ?? 0) >= token)
      );
    });
  }

  /** Takes in one line. The journal's own order makes every act possible; one that is not is damage. */
  apply(line: PlacedLine, journal: JournalFile): void {
    const act = line.act as Act;
    switch (act.do) {
      case "append":
        this.#append(act, line, journal);
        break;
      case "remove":
        this.#remove(act, line, journal);
        break;
      case "lease":
        this.#lease(act, line, journal);
        break;
      case "artifact":
        this.putArtifact(act.namespace, act.hash, act.at, line.length);
        break;
      case "collect":
        this.collect(act.namespace, act.hashes, line.length);
        break;
      case "stream":
        this.#stream(act);
        break;
      case "write":
        this.#write(act, line, journal);
        break;
      case "keys":
        for (const [key, stream, seq] of act.keys) this.space(act.namespace).keys.set(key, { stream, seq });
        break;
      case "items":
        for (const item of act.items) {
          const { items } = streamOf(this.space(act.namespace), item.stream);
          items.set(JSON.stringify([item.kind, item.id]), item);
        }
        break;
      case "seal":
        this.data.seal = act.seal;
        break;
      case "proof":
        this.#dead += line.length;
        break;
      default:
        throw corrupt(journal.path, line.n, `nobody knows the act ${JSON.stringify(act.do)}`);
    }
  }

  #append(act: AppendAct, line: PlacedLine, journal: JournalFile): void {
    const writes = act.writes.map((write) => ({ ...write, codec: write.codec ?? null, payload: "" }));
    const batch: Batch = { id: act.id, namespace: act.namespace, writes };
    const wrong = conflicting(this.space(act.namespace), batch);
    if (wrong) throw corrupt(journal.path, line.n, "it does not continue its stream where that ends");
    this.applyBatch(batch, act.writes, line, journal);
  }

  /** Of a batch that passed every question; its payloads stand in `line`. */
  applyBatch(
    batch: Batch,
    logged: readonly LoggedWrite[],
    line: Pick<PlacedLine, "offset" | "eventsAt" | "length">,
    journal: JournalFile,
  ): ReturnType<typeof applyBatch> {
    const segments = segmentsOf(logged, line);
    let index = 0;
    const outcome = applyBatch(this.space(batch.namespace), batch, (_, stored) => {
      return new KeptWrite(stored, journal, segments[index++] as Segment);
    });
    for (const { stream } of batch.writes) this.#touched(batch.namespace, stream);
    return outcome;
  }

  #remove(act: Extract<Act, { do: "remove" }>, line: PlacedLine, journal: JournalFile): void {
    const { namespace, stream, expect } = act;
    const { outcome } = this.removeStream({ of: "stream", namespace, stream, expect });
    if (outcome === "removed" || outcome === "hidden") return;
    throw corrupt(journal.path, line.n, `it removes ${stream}, which does not end there`);
  }

  /** What it and the hidden streams that go with it took up can be had back by rewriting the journal. */
  removeStream(request: Extract<RemoveRequest, { of: "stream" }>): RemoveOutcome {
    const { namespace, stream } = request;
    const space = this.space(namespace);
    const before: Stream[] = [];
    for (let next = space.streams.get(stream); next; next = space.streams.get(next.parent?.stream ?? "")) {
      before.push(next);
    }
    const outcome = remove(space, request, this.#clock.nowMs());
    for (const each of before) {
      if (space.streams.get(each.name) === each) continue;
      for (const write of each.writes) this.#dead += (write as KeptWrite).weight;
    }
    this.#touched(namespace, stream);
    return outcome;
  }

  #lease(act: LeaseAct, line: PlacedLine, journal: JournalFile): void {
    const old = this.space(act.namespace).leases.get(act.name);
    if (!(Number.isSafeInteger(act.token) && act.token >= Math.max(1, old?.token ?? 1))) {
      throw corrupt(journal.path, line.n, `the token of ${act.name} goes from ${old?.token} to ${act.token}`);
    }
    this.setLease(act, line.length);
  }

  setLease(act: LeaseAct, lineLength: number): void {
    const { namespace, name, token, holder, ttlMs, deadline, boot, slot } = act;
    const { leases } = this.space(namespace);
    if (leases.has(name)) this.#dead += lineLength;
    const timed = { name: () => leaseKey(namespace, name), timeline: boot, expiresAt: deadline, ttlMs };
    leases.set(name, { token, holder, ttlMs, deadline: this.#deadlineHere(timed) });
    this.#slots.set(leaseKey(namespace, name), slot);
  }

  /** Until when a lease runs, from whoever renewed it last. */
  renewed(
    namespace: string,
    name: string,
    lease: Lease,
    time: { boot: string; deadline: number; ttlMs: number },
  ): void {
    const { ttlMs, boot: timeline, deadline: expiresAt } = time;
    const deadline = this.#deadlineHere({
      name: () => leaseKey(namespace, name),
      timeline,
      expiresAt,
      ttlMs,
    });
    this.space(namespace).leases.set(name, { ...lease, ttlMs, deadline });
  }

  /** By this process's clock; 0 for what has run out by any other. */
  #deadlineHere(lease: LeaseExpiry): number {
    const leftMs = remainingMs(this.#clock, lease);
    if (lease.timeline === timelineOf(this.#clock) && leftMs !== 0) return lease.expiresAt;
    return leftMs > 0 ? this.#clock.nowMs() + leftMs : 0;
  }

  putArtifact(namespace: string, hash: string, at: number, lineLength: number): void {
    const { artifacts } = this.space(namespace);
    const known = artifacts.get(hash);
    if (known) {
      known.putAt = Math.max(known.putAt, at);
      this.#dead += lineLength;
    } else artifacts.set(hash, { bytes: ELSEWHERE, putAt: at });
  }

  collect(namespace: string, hashes: readonly string[], lineLength: number): void {
    for (const hash of hashes) this.space(namespace).artifacts.delete(hash);
    this.#dead += lineLength * 2;
  }

  #stream(act: StreamAct): void {
    const stream = goneStream(act.stream, act.head.generation);
    stream.state = act.state;
    stream.head = act.head;
    stream.base = act.base;
    stream.parent = act.parent;
    stream.createdAt = act.createdAt;
    stream.updatedAt = act.updatedAt;
    stream.facets = act.facets;
    for (const item of act.items) stream.items.set(JSON.stringify([item.kind, item.id]), item);
    for (const hash of act.artifacts) stream.artifacts.add(hash);
    this.space(act.namespace).streams.set(act.stream, stream);
    this.#touched(act.namespace, act.stream);
  }

  #write(act: WriteAct, line: PlacedLine, journal: JournalFile): void {
    const [segment] = segmentsOf([act], line);
    const { writes } = streamOf(this.space(act.namespace), act.stream);
    writes.push(new KeptWrite(act, journal, segment as Segment));
  }
}

const leaseKey = (namespace: string, name: string): string => JSON.stringify([namespace, name]);

function segmentsOf(
  writes: readonly { bytes: number; form?: Exclude<Form, "json"> }[],
  line: Pick<PlacedLine, "offset" | "eventsAt" | "length">,
): Segment[] {
  const weight = line.length / writes.length;
  let offset = line.offset + line.eventsAt;
  return writes.map(({ bytes, form }) => {
    const segment: Segment = { offset, length: bytes, form: form ?? "json", weight };
    // A comma stands between two.
    offset += bytes + 1;
    return segment;
  });
}
