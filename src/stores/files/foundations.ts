/**
 * What this store stands on, and the only file here that names other stores: SQLite for its locks, and
 * the rules of the port as the memory store has them. The files store is those rules with a durable journal below.
 */

export {
  answerAtOnce,
  applyBatch,
  check as checkRules,
  conflicting,
  garbage,
  goneStream,
  type Keep,
  type Lease,
  lease,
  list,
  type MemoryData,
  memoryData,
  movedRows,
  read,
  remove,
  type Space,
  type Stream,
  spaceOf,
  streamOf,
} from "../memory/index.ts";
export { Connection } from "../sqlite/index.ts";
