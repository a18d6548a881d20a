/**
 * The store in a folder of plain files: a journal that a person can read and grep, with everything else beside it.
 * Several processes share one folder. `append.ts` says when a change is acknowledged and what a crash leaves,
 * `opened-folder.ts` what lies in the folder, `line.ts` how a line looks, `medium.ts` what happens after an I/O error,
 * `opening.ts` how a folder is opened, `rewriting.ts` how it stays small.
 *
 * What is not in memory are payloads, snapshots and artifacts; everything else is, so a process that opens the folder
 * reads the journal once. For stores of many gigabytes SQLite is the better place.
 */

import { relative, resolve } from "node:path";
import type {
  AppendOutcome,
  Batch,
  Blob,
  GetRequest,
  LeaseOutcome,
  LeaseRequest,
  ListRequest,
  ListRows,
  Moving,
  Page,
  Problem,
  PutRequest,
  ReadPage,
  ReadRequest,
  RemoveOutcome,
  RemoveRequest,
  Store,
  WatchRequest,
} from "../../store.ts";
import { bootClock, type Clock, closedError, readOnlyError, refuseSealed, Watchers } from "../kit/index.ts";
import { append, putArtifact, removeAct } from "./acts.ts";
import type { Turn } from "./append.ts";
import { readArtifact } from "./artifacts.ts";
import { check } from "./check.ts";
import { list, read } from "./foundations.ts";
import { leaseAct, refreshTimes } from "./leases.ts";
import { Medium } from "./medium.ts";
import { Dump, reseal, restore } from "./moving.ts";
import type { OpenedFolder, Place } from "./opened-folder.ts";
import { openFirst } from "./opening.ts";
import { type SubmitOptions, WriteQueue } from "./queue.ts";
import { getSnapshot, listSnapshots, putSnapshot } from "./snapshots.ts";
import type { State } from "./state.ts";

export interface FilesOptions {
  /** The folder; made when it is not there. */
  readonly path: string;
  readonly readOnly?: boolean;
  /** Do not create what is not there. */
  readonly mustExist?: boolean;
  /** How long to wait for a lock of another process before giving up. */
  readonly busyMs?: number;
  readonly allowNetworkDisk?: boolean;
  /** The journal is rewritten when this many bytes, and half of it, are of no use any more. 4 MiB unless set. */
  readonly wasteBytes?: number;
  /** What leases run by; the machine's uptime unless given. */
  readonly clock?: Clock;
}

const DEFAULT_BUSY_MS = 30_000;
const DEFAULT_WASTE_BYTES = 4 * 1024 * 1024;

export async function openFiles(options: FilesOptions): Promise<Store> {
  const place = {
    folder: resolve(options.path),
    readOnly: options.readOnly ?? false,
    busyMs: options.busyMs ?? DEFAULT_BUSY_MS,
    wasteBytes: options.wasteBytes ?? DEFAULT_WASTE_BYTES,
    clock: options.clock ?? bootClock(),
  };
  const { mustExist = false, allowNetworkDisk = false } = options;
  return FilesStore.open(place, { mustExist, allowNetworkDisk });
}

class FilesStore implements Store {
  readonly address: string;
  readonly moving: Moving = {
    seal: () => this.#look((state) => state.data.seal ?? null),
    reseal: (expect, next) => this.#submit((turn) => reseal(turn, expect, next)),
    dump: (cursor, only) => this.#look((_, folder) => this.#dump.page(folder, cursor, only)),
    restore: (move, rows) => this.#submit((turn) => restore(turn, move, rows)),
  };
  readonly #dump = new Dump();
  readonly #medium: Medium;
  readonly #queue: WriteQueue;
  readonly #watchers: Watchers;
  #closing: Promise<void> | null = null;

  private constructor(medium: Medium, watchers: Watchers) {
    this.#medium = medium;
    this.#queue = new WriteQueue(medium);
    this.#watchers = watchers;
    const { folder } = medium.place;
    const near = relative(process.cwd(), folder);
    this.address = `files ${near.startsWith("..") ? folder : near}`;
  }

  static async open(place: Place, creation: Parameters<typeof openFirst>[1]): Promise<FilesStore> {
    const watchers: Watchers = new Watchers({ poll: () => medium.read(() => undefined) });
    const opened = await openFirst(place, creation, watchers.announce);
    const medium = new Medium(opened, watchers.announce);
    return new FilesStore(medium, watchers);
  }

  async append(batch: Batch): Promise<AppendOutcome> {
    const bytes = batch.writes.reduce((sum, write) => sum + write.payload.length, 0);
    return this.#change((turn) => append(turn, batch), { bytes });
  }

  async read(request: ReadRequest): Promise<ReadPage> {
    return this.#look((state, folder) =>
      read(state.space(request.namespace), request, (asked) => getSnapshot(folder, asked)),
    );
  }

  async list<Of extends keyof ListRows>(
    request: Extract<ListRequest, { of: Of }>,
  ): Promise<Page<ListRows[Of]>> {
    return this.#look((state, folder) => this.#list(state, folder, request) as Page<ListRows[Of]>);
  }

  #list(state: State, folder: OpenedFolder, request: ListRequest): Page<ListRows[keyof ListRows]> {
    const { namespace } = request;
    const space = state.space(namespace);
    if (request.of === "snapshots") {
      return { rows: listSnapshots(folder, namespace, request.stream), cursor: null };
    }
    if (request.of === "leases") refreshTimes(folder, namespace, [...space.leases.keys()]);
    return list(space, request, this.#medium.place.clock.nowMs());
  }

  async put(request: PutRequest): Promise<void> {
    if (request.of === "snapshot") {
      return this.#change((turn) => putSnapshot(turn, request), { bytes: request.payload.length });
    }
    return this.#change((turn) => putArtifact(turn, request), { bytes: request.bytes.length });
  }

  async get(request: GetRequest): Promise<Blob | null> {
    return this.#look((state, folder) => {
      if (request.of === "snapshot") return getSnapshot(folder, request);
      const { namespace, hash } = request;
      if (!state.space(namespace).artifacts.has(hash)) return null;
      return { payload: readArtifact(folder, namespace, hash), codec: null, seq: 0, generation: 0 };
    });
  }

  async lease(request: LeaseRequest): Promise<LeaseOutcome> {
    return this.#change((turn) => leaseAct(turn, request), { urgent: request.act === "renew" });
  }

  async remove(request: RemoveRequest): Promise<RemoveOutcome> {
    return this.#change((turn) => removeAct(turn, request));
  }

  watch(request: WatchRequest, changed: () => void): () => void {
    if (this.#closing) throw closedError({ path: this.#medium.place.folder });
    return this.#watchers.add(request, changed);
  }

  async check(): Promise<readonly Problem[]> {
    if (this.#closing) throw closedError({ path: this.#medium.place.folder });
    return check((act) => this.#medium.read(act));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#watchers.clear();
    await this.#queue.drained();
    await this.#medium.close();
  }

  async #look<Result>(act: (state: State, folder: OpenedFolder) => Result): Promise<Result> {
    if (this.#closing) throw closedError({ path: this.#medium.place.folder });
    return this.#medium.read(act);
  }

  /** What a sealed folder refuses. */
  #change<Result>(act: (turn: Turn) => Result, options?: SubmitOptions): Promise<Result> {
    return this.#submit((turn) => {
      refuseSealed(this.#medium.place.folder, "files", turn.folder.state.data.seal);
      return act(turn);
    }, options);
  }

  async #submit<Result>(act: (turn: Turn) => Result, options?: SubmitOptions): Promise<Result> {
    if (this.#closing) throw closedError({ path: this.#medium.place.folder });
    if (this.#medium.place.readOnly) throw readOnlyError({ path: this.#medium.place.folder });
    return this.#queue.submit(act, options);
  }
}
