/** Operations: everything that people and agents can do, the same on every surface. */

export { didYouMean } from "../model/options.ts";
export { noteAgentEdit } from "./agent-edits.ts";
export { ingestAgents } from "./agent-sessions.ts";
export { type Caller, Context, type ContextOptions } from "./context.ts";
export { chosenGoal, goalChoice, goalRows, knownGoals } from "./current-goal.ts";
export { readSeal, sealNotice, sealWarning } from "./moved-store.ts";
export { type Operation, perform } from "./operation.ts";
export { isWorkFile, pathBelowRoot } from "./project-files.ts";
export { openAndPutBack, readStatus } from "./status.ts";
export type { GoalStatus, Need, Status } from "./status-view.ts";
export { pruneEndedSessions, retentionOf } from "./store-operations.ts";
export type { StoreOptions, StorePlace } from "./store-place.ts";
export {
  findStore,
  isRemote,
  locateStore,
  openOptionsOf,
  PLANNING,
  requireStore,
  restoreFromRepository,
} from "./store-place.ts";
export { OPERATIONS, type OperationName, type ResultOf } from "./table.ts";
export {
  oneLineError,
  openAndMergeEvents,
  unmergedEvents,
  unparsedEdits,
} from "./unmerged-changes.ts";
