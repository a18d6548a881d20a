/**
 * The kit: code that every store needs and that no store owns. A store imports it only through this door.
 *
 *     batch.ts      the shape of batches
 *     sql.ts        rows and conditions of the SQL stores
 *     whole-store.ts  parts of `check` and of a move
 *     errors.ts     errors in the same words everywhere
 *     watchers.ts   callbacks on change
 *     disk.ts       file identity, durable names, network disks
 *     clock.ts      the time that leases run by, on one machine
 *     rewind-record.ts  how a restored backup is noticed
 *     shared-file.ts, flush-queue.ts  locks, recovery and grouped writes of a file or folder that is shared
 *
 * It is not part of the public API and changes with the stores in this repository.
 */

export { checkBatch, guardsOf, headsAfter, invalidBatch } from "./batch.ts";
export { bootClock, type Clock, type LeaseExpiry, remainingMs, timelineOf, UNKNOWN_BOOT } from "./clock.ts";
export {
  createEmptyFile,
  type FileIdentity,
  identityOf,
  isSameFile,
  isWritable,
  refuseNetworkDisk,
  statOf,
  syncFile,
  syncFolder,
  syncNames,
  systemCode,
} from "./disk.ts";
export {
  busyError,
  closedError,
  type Failure,
  failureError,
  foreignError,
  notFoundError,
  readOnlyError,
  refuseSealed,
  replacedError,
  tooNewError,
  unstorableError,
  withUnknown,
} from "./errors.ts";
export { type Flusher, FlushQueue, type SubmitOptions } from "./flush-queue.ts";
export { RewindRecord } from "./rewind-record.ts";
export type { CreateOptions, DiskStoreOptions, FileOptions } from "./shared-file.ts";
export {
  BUSY_TIMEOUT_MS,
  diskStoreOptions,
  HandleState,
  lockPauseMs,
  nearestPath,
  retryUntil,
} from "./shared-file.ts";
export type { StoredItem, StoredStream, StoredWriteRow } from "./sql.ts";
export {
  addStreamConditions,
  Conditions,
  headOf,
  itemRow,
  streamRow,
  unusedStreamRow,
  writeRow,
} from "./sql.ts";
export { type Watcher, Watchers } from "./watchers.ts";
export {
  type DumpPosition,
  dumpStep,
  firstProblems,
  headProblems,
  isSameSeal,
  requireEntering,
  writeProblems,
} from "./whole-store.ts";
