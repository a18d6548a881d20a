/**
 * Operations: what people and agents can do, the same over every surface. This file only names what is elsewhere, so
 * that whoever needs one of the small parts does not load the table and its schemas.
 */

export { didYouMean } from "../model/options.ts";
export { type Caller, Context, type ContextOptions } from "./context.ts";
export { currentGoal, goalRows, knownGoals } from "./current-goal.ts";
export { unparsedEdits } from "./kept-beside.ts";
export {
  type MovedStore,
  movedLine,
  movedNote,
  sealLine,
  type UnfinishedCopy,
  unfinishedLine,
  unfinishedNote,
} from "./moved-store.ts";
export { belowRoot, isWork } from "./named-file.ts";
export type { Need } from "./need.ts";
export { hasNews, oneLineError, openAndIngestNews } from "./news.ts";
export { type Operation, perform } from "./operation.ts";
export { syncPlanningFolder } from "./planning-folder.ts";
export { type GoalStatus, readStatus, type Status } from "./status-reading.ts";
export {
  findStore,
  isRemote,
  PLANNING,
  refuseMissing,
  restoreFromRepository,
  type StorePlace,
} from "./store-place.ts";
export { retain } from "./supervising.ts";
export { OPERATIONS, type OperationName, type ResultOf } from "./table.ts";
