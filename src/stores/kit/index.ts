/**
 * The kit: code that every store needs and that no store owns. A store imports it only through this door.
 *
 *     batch.ts      the shape of batches; checks of stored writes
 *     sql.ts        rows, conditions and dump pages of the SQL stores
 *     errors.ts     errors in the same words everywhere
 *     watchers.ts   callbacks on change
 *     disk.ts       file identity, durable names, network disks
 *     clock.ts      the time that leases run by, on one machine
 *     shared-file.ts  locks, waiting acts and recovery, where several processes share a file or folder
 *
 * It is not part of the public API: the port and the conformance suite are what a store of one's own builds
 * on. The kit changes with the stores in this repository.
 */

export {
  checkBatch,
  firstProblems,
  guardsOf,
  headProblems,
  headsAfter,
  invalidBatch,
  writeProblems,
} from "./batch.ts";
export { bootClock, type Clock, type LeaseExpiry, remainingMs, timelineOf, UNKNOWN_BOOT } from "./clock.ts";
export {
  createEmptyFile,
  type FileIdentity,
  identityOf,
  isSameFile,
  isWritable,
  refuseNetworkDisk,
  statOf,
  syncFolder,
  systemCode,
} from "./disk.ts";
export {
  busyError,
  closedError,
  type Failure,
  failureError,
  foreignError,
  isSameSeal,
  notFoundError,
  readOnlyError,
  refuseSealed,
  replacedError,
  requireEntering,
  tooNewError,
  unstorableError,
  withUnknown,
} from "./errors.ts";
export { BUSY_TIMEOUT_MS, HandleState, lockPauseMs, PendingActs, retryUntil } from "./shared-file.ts";
export {
  addStreamConditions,
  Conditions,
  type DumpPosition,
  dumpStep,
  headOf,
  itemRow,
  type StoredItem,
  type StoredStream,
  type StoredWriteRow,
  streamRow,
  unusedStreamRow,
  writeRow,
} from "./sql.ts";
export { type Watcher, Watchers } from "./watchers.ts";
