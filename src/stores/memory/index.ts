import type { MaybePromise } from "../../model/maybe-promise.ts";
import type * as port from "../../store.ts";
import { closedError } from "../kit/index.ts";
import type { MemoryData, Space } from "./data.ts";
import { copyPayload, memoryData, spaceOf, streamOf, watchersOf } from "./data.ts";
import { dumpRows, movingOf, refuseSealed } from "./moving.ts";
import { check, getSnapshot, list, listNamespaces, read } from "./read.ts";
import { append, lease, remove } from "./write.ts";

/** The rules of the port on structures in memory, for a store that keeps its log elsewhere. */
export { goneStream, type Lease, type Stream } from "./data.ts";
export {
  applyBatch,
  changedLease,
  checkAppend,
  findConflict,
  forget,
  ownArtifacts,
  unreferencedArtifacts,
  withAncestors,
} from "./write.ts";
export {
  check,
  dumpRows,
  lease,
  list,
  listNamespaces,
  type MemoryData,
  memoryData,
  read,
  remove,
  type Space,
  spaceOf,
  streamOf,
};

/** For tests that control time, or open one store twice. */
export interface MemoryOptions {
  /** Milliseconds that never go back. Leases run by it. */
  readonly clock?: () => number;
  /** From `memoryData()`. Handles on the same data see each other as processes on one file do. */
  readonly data?: MemoryData;
}

/**
 * A store with every promise of the port but durability: it ends with its process.
 *
 * @example
 * const holdfast = await open(undefined, { store: openMemory() });
 */
export function openMemory(options: MemoryOptions = {}): port.Store {
  // Whole milliseconds: their sums and differences are exact.
  const clock = options.clock ?? (() => Math.floor(performance.now()));
  return new MemoryStore(options.data ?? memoryData(), clock);
}

class MemoryStore implements port.Store {
  readonly address = "memory";
  readonly moving: port.Moving;
  readonly #data: MemoryData;
  readonly #clock: () => number;
  /** Stops each watcher of this handle; other handles on the same data have their own. */
  readonly #watches = new Set<() => void>();
  #isClosed = false;

  constructor(data: MemoryData, clock: () => number) {
    this.#data = data;
    this.#clock = clock;
    this.moving = movingOf(data, clock);
  }

  append(batch: port.Batch): MaybePromise<port.AppendOutcome> {
    try {
      const outcome = append(this.#writable(batch.namespace), batch, this.#clock());
      if (outcome.outcome === "ok" && !outcome.resent) {
        for (const { stream } of batch.writes) watchersOf(this.#data).announce(batch.namespace, stream);
      }
      return outcome;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async read(request: port.ReadRequest): Promise<port.ReadPage> {
    return read(this.#space(request.namespace), request);
  }

  async list<Of extends keyof port.ListRows>(
    request: Extract<port.ListRequest, { of: Of }>,
  ): Promise<port.Page<port.ListRows[Of]>> {
    const asked: port.ListRequest = request;
    const page =
      asked.of === "namespaces"
        ? listNamespaces(this.#data)
        : list(this.#space(asked.namespace), asked, this.#clock());
    return page as port.Page<port.ListRows[Of]>;
  }

  async put(request: port.PutRequest): Promise<void> {
    const space = this.#writable(request.namespace);
    if (request.of === "artifact") {
      const known = space.artifacts.get(request.hash);
      // Putting it again makes it young: the event that refers to it may still be on its way.
      if (known) known.putAt = Math.max(known.putAt, request.at);
      else space.artifacts.set(request.hash, { bytes: request.bytes.slice(), putAt: request.at });
      return;
    }
    const { generation, seq, fold, codec } = request;
    const stream = streamOf(space, request.stream);
    if (stream.state !== "live" || stream.head.generation !== generation) return;
    const others = stream.snapshots.filter((old) => old.seq !== seq || old.fold !== fold);
    stream.snapshots = [...others, { seq, fold, payload: copyPayload(request.payload), codec }];
  }

  async get(request: port.GetRequest): Promise<port.Blob | null> {
    const space = this.#space(request.namespace);
    if (request.of === "artifact") {
      const bytes = space.artifacts.get(request.hash)?.bytes;
      return bytes ? { payload: bytes.slice(), codec: null, seq: 0, generation: 0 } : null;
    }
    return getSnapshot(space, request);
  }

  async lease(request: port.LeaseRequest): Promise<port.LeaseOutcome> {
    return lease(this.#writable(request.namespace), request, this.#clock());
  }

  async remove(request: port.RemoveRequest): Promise<port.RemoveOutcome> {
    const outcome = remove(this.#writable(request.namespace), request, this.#clock());
    if (request.of === "stream") watchersOf(this.#data).announce(request.namespace, request.stream);
    return outcome;
  }

  watch(request: port.WatchRequest, changed: () => void): () => void {
    this.#assertOpen();
    const stop = watchersOf(this.#data).add(request, changed);
    this.#watches.add(stop);
    return () => {
      this.#watches.delete(stop);
      stop();
    };
  }

  async check(): Promise<readonly port.Problem[]> {
    this.#assertOpen();
    return check(this.#data);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const stop of this.#watches) stop();
    this.#watches.clear();
  }

  #space(namespace: string): Space {
    this.#assertOpen();
    return spaceOf(this.#data, namespace);
  }

  #writable(namespace: string): Space {
    const space = this.#space(namespace);
    refuseSealed(this.#data);
    return space;
  }

  #assertOpen(): void {
    if (this.#isClosed) throw closedError({ address: this.address });
  }
}
