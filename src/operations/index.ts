/**
 * Operations: what people and agents can do, the same over every surface. This file only names what is elsewhere, so
 * that whoever needs one of the small parts does not load the table and its schemas.
 */

export { didYouMean } from "../model/options.ts";
export { type Caller, Context, type ContextOptions } from "./context.ts";
export { currentGoal, goalRows, knownGoals } from "./current-goal.ts";
export {
  type MovedStore,
  movedNotice,
  movedWarning,
  sealNotice,
  type UnfinishedCopy,
  unfinishedNotice,
  unfinishedWarning,
} from "./moved-store.ts";
export { type Operation, perform } from "./operation.ts";
export { syncPlanningFolder } from "./planning-folder.ts";
export { isWorkFile, pathBelowRoot } from "./project-files.ts";
export type { Need } from "./status.ts";
export { type GoalStatus, readStatus, type Status } from "./status.ts";
export { pruneEndedSessions } from "./store-operations.ts";
export {
  findStore,
  isRemote,
  PLANNING,
  requireStore,
  restoreFromRepository,
  type StorePlace,
} from "./store-place.ts";
export { OPERATIONS, type OperationName, type ResultOf } from "./table.ts";
export { hasUnmergedEvents, oneLineError, openAndMergeEvents, unparsedEdits } from "./unmerged-changes.ts";
