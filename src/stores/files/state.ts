/**
 * The state that the journal amounts to: the structures of the memory store, filled line by line in the
 * journal's order. Payloads and the bytes of artifacts and snapshots stay on the disk.
 */

import { ERASED } from "../../model/names.ts";
import type * as port from "../../store.ts";
import { type Clock, type LeaseExpiry, remainingMs, timelineOf } from "../kit/index.ts";
import type { Lease, MemoryData, Space, Stream } from "../memory/index.ts";
import {
  applyBatch,
  findConflict,
  forget,
  goneStream,
  memoryData,
  remove,
  spaceOf,
  streamOf,
} from "../memory/index.ts";
import { corrupt } from "./disk.ts";
import type { BeginRecord, Form, JournalFile, LinePosition, PlacedLine, Segment } from "./journal-file.ts";
import { JournaledWrite } from "./journal-file.ts";

/** A write in its record. The payload follows the record in the line, `bytes` long. */
export interface LoggedWrite extends Omit<port.Write, "payload" | "codec"> {
  readonly codec?: string;
  readonly form?: Exclude<Form, "json">;
  readonly bytes: number;
}

interface AppendRecord {
  readonly do: "append";
  readonly id: string;
  readonly namespace: string;
  readonly writes: readonly LoggedWrite[];
  /** The lease that the batch took or released. */
  readonly lease?: LoggedLease;
}

type LeaseTime = Pick<Lease, "ttlMs" | "deadline"> & { readonly boot: string };

interface LeaseRecord extends LoggedLease {
  readonly do: "lease";
  readonly namespace: string;
}

export interface LoggedLease extends LeaseTime, Pick<Lease, "token" | "holder"> {
  readonly name: string;
  /** The lease's row in the live file, which never changes. */
  readonly slot: number;
}

/** A whole stream, in a journal that was compacted or filled by a copy. Its writes follow. */
type StreamRecord = Omit<MovedOf<"stream">, "of"> & {
  readonly do: "stream";
  readonly items: readonly port.ItemRow[];
};

type WriteRecord = Omit<MovedOf<"write">, "of" | "payload"> & {
  readonly do: "write";
  readonly form?: Exclude<Form, "json">;
  readonly bytes: number;
};

type MovedOf<Of extends port.MovedRow["of"]> = Extract<port.MovedRow, { of: Of }>;

export type JournalRecord =
  | BeginRecord
  | AppendRecord
  | LeaseRecord
  | StreamRecord
  | WriteRecord
  | {
      readonly do: "remove";
      readonly namespace: string;
      readonly stream: string;
      readonly expect: port.Head;
      readonly erase?: true;
    }
  | { readonly do: "artifact"; readonly namespace: string; readonly hash: string; readonly at: number }
  | { readonly do: "collect"; readonly namespace: string; readonly hashes: readonly string[] }
  | {
      readonly do: "keys";
      readonly namespace: string;
      readonly keys: readonly (readonly [key: string, stream: string, seq: number])[];
    }
  | { readonly do: "items"; readonly namespace: string; readonly items: readonly port.ItemRow[] }
  /** How far the store's move has come; see `moving.ts`. */
  | { readonly do: "seal"; readonly seal: port.Seal | null }
  /** How often it was accepted that an older copy of the folder was restored. */
  | { readonly do: "epoch"; readonly epoch: number }
  /** Written after an I/O error, to prove that a sync works again. */
  | { readonly do: "proof" };

export type StreamChanged = (namespace: string, stream: string) => void;

/** Artifacts are in files of their own; memory only knows that they exist. */
const ELSEWHERE = new Uint8Array(0);

export class State {
  readonly data: MemoryData = memoryData();
  readonly #slots = new Map<string, number>();
  #nextSlot = 0;
  readonly #clock: Clock;
  readonly #changed: StreamChanged;
  #deadBytes = 0;

  constructor(clock: Clock, changed: StreamChanged) {
    this.#clock = clock;
    this.#changed = changed;
  }

  /** About how many bytes of the journal are of no use any more. */
  get deadBytes(): number {
    return this.#deadBytes;
  }

  space(namespace: string): Space {
    return spaceOf(this.data, namespace);
  }

  /** The row of a lease in the live file. A new lease gets the next one. */
  slot(namespace: string, name: string): number {
    return this.#slots.get(leaseKey(namespace, name)) ?? this.#nextSlot;
  }

  /** Whether `next` has everything that is known here: streams and tokens only go forward. */
  isContinuedBy(next: State): boolean {
    return [...this.data.spaces].every(([namespace, { streams, leases }]) => {
      const later = next.space(namespace);
      const hasStreams = [...streams.values()].every(({ name, head }) => {
        const now = streamOf(later, name).head;
        return (
          now.generation > head.generation || (now.generation === head.generation && now.seq >= head.seq)
        );
      });
      const tokenOf = (name: string): number =>
        (later.leases.get(name) ?? later.leases.get(ERASED))?.token ?? 0;
      return hasStreams && [...leases].every(([name, { token }]) => tokenOf(name) >= token);
    });
  }

  /** Applies one line. In the journal's order every record is possible; an impossible one is damage. */
  apply(line: PlacedLine, journal: JournalFile): void {
    const act = line.act as JournalRecord;
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
      case "epoch":
        this.data.epoch = act.epoch;
        break;
      case "proof":
        this.#deadBytes += line.length;
        break;
      default:
        throw corrupt(journal.path, line.n, `the act ${JSON.stringify(act.do)} is unknown`);
    }
  }

  #append(act: AppendRecord, line: PlacedLine, journal: JournalFile): void {
    const writes = act.writes.map((write) => ({ ...write, codec: write.codec ?? null, payload: "" }));
    const batch: port.Batch = { id: act.id, namespace: act.namespace, writes };
    const conflict = findConflict(this.space(act.namespace), batch);
    if (conflict) throw corrupt(journal.path, line.n, "it does not continue its stream where that ends");
    this.applyBatch(batch, act.writes, line, journal);
    if (act.lease) this.#lease({ do: "lease", namespace: act.namespace, ...act.lease }, line, journal, 0);
  }

  applyBatch(
    batch: port.Batch,
    logged: readonly LoggedWrite[],
    line: LinePosition,
    journal: JournalFile,
  ): ReturnType<typeof applyBatch> {
    const segments = segmentsOf(logged, line);
    let index = 0;
    const outcome = applyBatch(this.space(batch.namespace), batch, (_, stored) => {
      return new JournaledWrite(stored, journal, segments[index++] as Segment);
    });
    for (const { stream } of batch.writes) this.#changed(batch.namespace, stream);
    return outcome;
  }

  #remove(act: Extract<JournalRecord, { do: "remove" }>, line: PlacedLine, journal: JournalFile): void {
    const { do: _do, ...request } = act;
    const { outcome } = this.removeStream({ of: "stream", ...request });
    if (outcome === "removed" || outcome === "hidden") return;
    throw corrupt(journal.path, line.n, `it removes ${act.stream}, which does not end there`);
  }

  /**
   * Also counts the bytes that compaction gets back, also of hidden ancestors that go with the stream.
   * `forgot`: an erase removed a tombstone or a lease.
   */
  removeStream({
    erase,
    ...request
  }: Extract<port.RemoveRequest, { of: "stream" }>): port.RemoveOutcome & { readonly forgot?: true } {
    const { namespace, stream } = request;
    const space = this.space(namespace);
    const before: Stream[] = [];
    for (let next = space.streams.get(stream); next; next = space.streams.get(next.parent?.stream ?? "")) {
      before.push(next);
    }
    const outcome = remove(space, request, this.#clock.nowMs());
    for (const each of before) {
      if (space.streams.get(each.name) === each) continue;
      for (const write of each.writes) this.#deadBytes += (write as JournaledWrite).weight;
    }
    this.#changed(namespace, stream);
    if (!erase || outcome.outcome !== "removed") return outcome;
    const forgot = [stream, ...before.map(({ name }) => name)].filter((each) =>
      this.#forget(namespace, each),
    );
    return forgot.length > 0 ? { ...outcome, forgot: true } : outcome;
  }

  #forget(namespace: string, name: string): boolean {
    const space = this.space(namespace);
    const forgotten = streamOf(space, name).state === "gone" ? forget(space, name) : null;
    if (!forgotten) return false;
    for (const each of forgotten.leases) this.#slots.delete(leaseKey(namespace, each));
    // The lease for all erased names, like any other, has a slot in the live file.
    if (forgotten.leases.length > 0) this.#setSlot(namespace, ERASED, this.slot(namespace, ERASED));
    return true;
  }

  #setSlot(namespace: string, name: string, slot: number): void {
    this.#slots.set(leaseKey(namespace, name), slot);
    this.#nextSlot = Math.max(this.#nextSlot, slot + 1);
  }

  #lease(act: LeaseRecord, line: PlacedLine, journal: JournalFile, deadBytes = line.length): void {
    const old = this.space(act.namespace).leases.get(act.name);
    if (!(Number.isSafeInteger(act.token) && act.token >= Math.max(1, old?.token ?? 1))) {
      throw corrupt(journal.path, line.n, `the token of ${act.name} goes from ${old?.token} to ${act.token}`);
    }
    this.setLease(act, deadBytes);
  }

  /** `lineLength` counts as dead once the lease has a later line. */
  setLease(act: LeaseRecord, lineLength: number): void {
    const { namespace, name, token, holder, ttlMs, deadline, boot, slot } = act;
    const { leases } = this.space(namespace);
    if (leases.has(name)) this.#deadBytes += lineLength;
    const timed = { name: () => leaseKey(namespace, name), timeline: boot, expiresAt: deadline, ttlMs };
    leases.set(name, { token, holder, ttlMs, deadline: this.#deadlineHere(timed) });
    this.#setSlot(namespace, name, slot);
  }

  renewLease(namespace: string, name: string, lease: Lease, time: LeaseTime): void {
    const { ttlMs, boot: timeline, deadline: expiresAt } = time;
    const timed = { name: () => leaseKey(namespace, name), timeline, expiresAt, ttlMs };
    const deadline = this.#deadlineHere(timed);
    this.space(namespace).leases.set(name, { ...lease, ttlMs, deadline });
  }

  /** Translates an expiry to this process's clock; 0 once expired. */
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
      this.#deadBytes += lineLength;
    } else artifacts.set(hash, { bytes: ELSEWHERE, putAt: at });
  }

  collect(namespace: string, hashes: readonly string[], lineLength: number): void {
    for (const hash of hashes) this.space(namespace).artifacts.delete(hash);
    this.#deadBytes += lineLength * 2;
  }

  #stream(act: StreamRecord): void {
    const stream = goneStream(act.stream, act.head.generation);
    const { state, head, base, parent, createdAt, updatedAt, facets } = act;
    Object.assign(stream, { state, head, base, parent, createdAt, updatedAt, facets });
    for (const item of act.items) stream.items.set(JSON.stringify([item.kind, item.id]), item);
    for (const hash of act.artifacts) stream.artifacts.add(hash);
    this.space(act.namespace).streams.set(act.stream, stream);
    this.#changed(act.namespace, act.stream);
  }

  #write(act: WriteRecord, line: PlacedLine, journal: JournalFile): void {
    const [segment] = segmentsOf([act], line);
    const { writes } = streamOf(this.space(act.namespace), act.stream);
    writes.push(new JournaledWrite(act, journal, segment as Segment));
  }
}

const leaseKey = (namespace: string, name: string): string => JSON.stringify([namespace, name]);

function segmentsOf(
  writes: readonly { bytes: number; form?: Exclude<Form, "json"> }[],
  line: LinePosition,
): Segment[] {
  const weight = line.length / writes.length;
  let offset = line.offset + line.eventsAt;
  return writes.map(({ bytes, form }) => {
    const segment: Segment = { offset, length: bytes, form: form ?? "json", weight };
    offset += bytes + ",".length;
    return segment;
  });
}
