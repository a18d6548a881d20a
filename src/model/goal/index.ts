/** Goals: their events, tables and folds, and everything that is computed from them. */

export * from "./blocker.ts";
export * from "./decision.ts";
export { bySchema } from "./field.ts";
export * from "./goal-events.ts";
export { checkpointOf, goalFold } from "./goal-fold.ts";
export * from "./goal-kind.ts";
export { entrySchema } from "./goal-schemas.ts";
export * from "./goal-state.ts";
export * from "./history.ts";
export { compareEntries, type Entry, type EventIds, Lineage, MERGED } from "./lineage.ts";
export {
  aliasOf,
  type FoldedEntries,
  foldEntries,
  type GoalDelta,
  goalDelta,
} from "./merge.ts";
export {
  MERGE_NEWS_MS,
  type MergeNote,
  mergeNews,
  mergeNotes,
  type NotApplied,
  notedWith,
  noteLine,
  type Renumbered,
} from "./merge-notes.ts";
export { isUnderWay, waitsForItself, whyNotStartable } from "./movability.ts";
export { isRelativePath, numbered } from "./naming.ts";
export * from "./notes.ts";
export * from "./position.ts";
export * from "./roles.ts";
export * from "./run-state.ts";
export * from "./survey.ts";
export * from "./task.ts";
