/**
 * The store in a folder of plain files: a journal that a person can read and grep, with everything else
 * beside it. Several processes share one folder.
 *
 *     append.ts              when a change is acknowledged, and what a crash leaves
 *     open-folder.ts         the files in the folder          journal-file.ts   the format of a line
 *     folder-connection.ts   opening, and recovery after an I/O error
 *     compaction.ts          how the folder stays small
 *
 * Payloads, snapshots and artifacts stay on the disk. Everything else is in memory, so a process that opens
 * the folder reads the journal once. For stores of many gigabytes SQLite is the better choice.
 */

import { rewoundStore } from "../../model/stream/index.ts";
import type * as port from "../../store.ts";
import type { CreateOptions, DiskStoreOptions, SubmitOptions } from "../kit/index.ts";
import {
  bootClock,
  closedError,
  diskStoreOptions,
  nearestPath,
  RewindRecord,
  readOnlyError,
  refuseSealed,
  Watchers,
} from "../kit/index.ts";
import { list, listNamespaces, read, streamOf } from "../memory/index.ts";
import { append, leaseAct, putArtifact, refreshExpiries, remove } from "./acts.ts";
import type { Flush } from "./append.ts";
import { copyFolder } from "./backup.ts";
import { getSnapshot, listSnapshots, putSnapshot, readArtifact } from "./blobs.ts";
import { check } from "./check.ts";
import { sizeOf } from "./compaction.ts";
import { FolderConnection, openFirst } from "./folder-connection.ts";
import { Dump, reseal, restore } from "./moving.ts";
import type { FolderOptions, OpenFolder } from "./open-folder.ts";
import { WriteQueue } from "./queue.ts";
import type { State } from "./state.ts";

export interface FilesOptions extends DiskStoreOptions {
  /** The journal is compacted when this many of its bytes, and half of it, are dead. 4 MiB by default. */
  readonly wasteBytes?: number;
}

const DEFAULT_WASTE_BYTES = 4 * 1024 * 1024;

export async function openFiles(options: FilesOptions): Promise<port.Store> {
  const { wasteBytes = DEFAULT_WASTE_BYTES, clock = bootClock() } = options;
  const { file, creation } = diskStoreOptions(options);
  return FilesStore.open({ ...file, wasteBytes, clock }, creation, options.despiteRewind ?? false);
}

class FilesStore implements port.Store {
  readonly address: string;
  readonly rewind: port.Rewind | null;
  readonly moving: port.Moving = {
    seal: () => this.#read((state) => state.data.seal ?? null),
    reseal: (expect, next) => this.#writeDespiteSeal((flush) => reseal(flush, expect, next)),
    dump: (cursor, only) => this.#read((_, folder) => this.#dump.page(folder, cursor, only)),
    restore: (move, rows) => this.#writeDespiteSeal((flush) => restore(flush, move, rows)),
    otherUser: () => this.#read((_, folder) => folder.lock?.otherUser() ?? null),
  };
  readonly #dump = new Dump();
  readonly #folder: FolderConnection;
  readonly #path: string;
  readonly #queue: WriteQueue;
  readonly #watchers: Watchers;
  #closing: Promise<void> | null = null;

  private constructor(folder: FolderConnection, watchers: Watchers, rewind: port.Rewind | null) {
    const { path } = folder.options;
    this.#folder = folder;
    this.#path = path;
    this.#queue = new WriteQueue(folder);
    this.#watchers = watchers;
    this.rewind = rewind;
    this.address = `files ${nearestPath(path)}`;
  }

  static async open(
    options: FolderOptions,
    creation: CreateOptions,
    despiteRewind: boolean,
  ): Promise<FilesStore> {
    const watchers: Watchers = new Watchers({ poll: () => folder.read(() => undefined) });
    const opened = await openFirst(options, creation, watchers.announce);
    const { path, readOnly } = options;
    const epoch = (): number => opened.state.data.epoch ?? 0;
    const record = new RewindRecord(path, opened.journal.store, epoch, null);
    const folder = new FolderConnection(opened, record, watchers.announce);
    // The record comes first: what others write in between would make it seem newer than the folder.
    const recorded = record.read();
    const rewind = await folder.read((state, { mark }) => {
      const headOf = (namespace: string, stream: string) => streamOf(state.space(namespace), stream).head;
      return recorded.compare({ epoch: epoch(), mark, headOf });
    });
    if (rewind && !readOnly && !despiteRewind) {
      await folder.close();
      throw rewoundStore(path, rewind);
    }
    return new FilesStore(folder, watchers, rewind);
  }

  acceptRewind(): Promise<void> {
    return this.#writeDespiteSeal((flush) => {
      const { data } = flush.folder.state;
      data.epoch = (data.epoch ?? 0) + 1;
      flush.addLine({ do: "epoch", epoch: data.epoch });
    });
  }

  /** A copy of the journal as far as it is durable, and of the artifacts that it names. */
  async backup(path: string): Promise<void> {
    return this.#read((_, folder) => copyFolder(folder, path));
  }

  async vacuum(): Promise<port.Vacuumed> {
    const before = await this.#read((_, folder) => sizeOf(folder));
    await this.#write((flush) => {
      flush.mustCompact = true;
    });
    return { before, after: await this.#read((_, folder) => sizeOf(folder)) };
  }

  async append(batch: port.Batch): Promise<port.AppendOutcome> {
    const bytes = batch.writes.reduce((sum, write) => sum + write.payload.length, 0);
    return this.#write((flush) => append(flush, batch), { bytes });
  }

  async read(request: port.ReadRequest): Promise<port.ReadPage> {
    return this.#read((state, folder) =>
      read(state.space(request.namespace), request, (asked) => getSnapshot(folder, asked)),
    );
  }

  async list<Of extends keyof port.ListRows>(
    request: Extract<port.ListRequest, { of: Of }>,
  ): Promise<port.Page<port.ListRows[Of]>> {
    return this.#read((state, folder) => this.#list(state, folder, request) as port.Page<port.ListRows[Of]>);
  }

  #list(
    state: State,
    folder: OpenFolder,
    request: port.ListRequest,
  ): port.Page<port.ListRows[keyof port.ListRows]> {
    if (request.of === "namespaces") return listNamespaces(state.data);
    const { namespace } = request;
    const space = state.space(namespace);
    if (request.of === "snapshots") {
      return { rows: listSnapshots(folder, namespace, request.stream), cursor: null };
    }
    if (request.of === "leases")
      refreshExpiries(folder, namespace, request.names ?? [...space.leases.keys()]);
    return list(space, request, this.#folder.options.clock.nowMs());
  }

  async put(request: port.PutRequest): Promise<void> {
    if (request.of === "snapshot") {
      return this.#write((flush) => putSnapshot(flush, request), { bytes: request.payload.length });
    }
    return this.#write((flush) => putArtifact(flush, request), { bytes: request.bytes.length });
  }

  async get(request: port.GetRequest): Promise<port.Blob | null> {
    return this.#read((state, folder) => {
      if (request.of === "snapshot") return getSnapshot(folder, request);
      const { namespace, hash } = request;
      if (!state.space(namespace).artifacts.has(hash)) return null;
      return { payload: readArtifact(folder, namespace, hash), codec: null, seq: 0, generation: 0 };
    });
  }

  async lease(request: port.LeaseRequest): Promise<port.LeaseOutcome> {
    return this.#write((flush) => leaseAct(flush, request), { urgent: request.act === "renew" });
  }

  async remove(request: port.RemoveRequest): Promise<port.RemoveOutcome> {
    const outcome = await this.#write((flush) => remove(flush, request));
    if (request.of === "stream" && request.erase) {
      this.#folder.record.forget(request.namespace, request.stream);
    }
    return outcome;
  }

  watch(request: port.WatchRequest, changed: () => void): () => void {
    this.#assertOpen();
    return this.#watchers.add(request, changed);
  }

  async check(): Promise<readonly port.Problem[]> {
    this.#assertOpen();
    return check((act) => this.#folder.read(act));
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  #assertOpen(): void {
    if (this.#closing) throw closedError({ path: this.#path });
  }

  async #close(): Promise<void> {
    this.#watchers.clear();
    await this.#queue.drained();
    await this.#folder.close();
  }

  async #read<Result>(act: (state: State, folder: OpenFolder) => Result): Promise<Result> {
    this.#assertOpen();
    return this.#folder.read(act);
  }

  #write<Result>(act: (flush: Flush) => Result, options?: SubmitOptions): Promise<Result> {
    return this.#writeDespiteSeal((flush) => {
      refuseSealed(this.#path, "files", flush.folder.state.data.seal);
      return act(flush);
    }, options);
  }

  async #writeDespiteSeal<Result>(act: (flush: Flush) => Result, options?: SubmitOptions): Promise<Result> {
    this.#assertOpen();
    if (this.#folder.options.readOnly) throw readOnlyError({ path: this.#path });
    return this.#queue.submit(act, options);
  }
}
