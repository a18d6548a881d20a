/** Goals: tasks, phases, decisions, blockers, and the fold that makes a state of their events. */

export type { Entry } from "./entries.ts";
export {
  compareEntries,
  EntryReader,
  EventIds,
  entryText,
  entryTextAndUid,
  entryUid,
  formatId,
  MERGED,
  madeName,
  nextId,
  RETRACTED,
  refsOf,
  SIGNED,
  tick,
} from "./entries.ts";
export { bySchema, eventSchemas, isEntry } from "./event-schemas.ts";
export { checkpointOf, goalFold } from "./goal-fold.ts";
export {
  checkEntry,
  type GoalDraft,
  type GoalStatus,
  goalKind,
  goalStatus,
  mergedDraft,
} from "./goal-kind.ts";
export type { GoalCheckpoint, GoalState } from "./goal-state.ts";
export {
  assumptionOf,
  blockerOf,
  branchGoal,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_TTL_MS,
  decisionOf,
  decodeGoal,
  emptyGoal,
  encodeGoal,
  findTask,
  historyOf,
  phaseOf,
  questionOf,
  seqOfRevision,
  staleNotice,
  staleness,
  taskOf,
} from "./goal-state.ts";
export { aliasOf, foldEntries, goalDelta } from "./merge.ts";
export type { NotApplied, Renumbered } from "./merge-notes.ts";
export { MERGE_NEWS_MS, mergeNotes, mergeNoteText, notesNaming, recentMergeNotes } from "./merge-notes.ts";
export {
  ASSUMPTION,
  BLOCKER,
  BLOCKER_STATUSES,
  DECISION,
  DECISION_TYPES,
  FACT,
  FILE,
  HISTORY_ENTRY,
  KEY_IMPLEMENTATION,
  NEXT_ACTION,
  QUESTION,
} from "./note-records.ts";
export {
  type Affects,
  type Assumption,
  BLOCKER_TRANSITIONS,
  type Blocker,
  confirmedFacts,
  type DecisionQuery,
  type DecisionRecord,
  type DecisionType,
  decisionMentions,
  type Fact,
  FILE_ACTS,
  type FileAct,
  type FileRecord,
  type HistoryEntry,
  isRelativePath,
  type Question,
  searchDecisions,
  UNSEEN_HASH,
} from "./notes.ts";
export type { CommitSource, EventSource, WaitingAct } from "./origin.ts";
export {
  isActOfAuthority,
  needsConfirmation,
  originOf,
  originOfItem,
  shortOriginOf,
  shortOriginOfItem,
  signedText,
  textOfAct,
  waitingActs,
  waitingText,
} from "./origin.ts";
export type { NextTasks, Position, Progress, RunState } from "./position.ts";
export {
  BAR_CELLS,
  nextTaskOf,
  nextTasks,
  positionOf,
  progressBar,
  progressOf,
  runStateOf,
} from "./position.ts";
export { hasDependencyCycle, isUnderWay, startBlockedBy } from "./readiness.ts";
export type { Field, InputOf, RecordTable, ValueKind, Values } from "./record-table.ts";
export {
  contentOf,
  fileName,
  GOAL_FOLD_VERSION,
  initialOf,
  namesOfItems,
  withInitials,
} from "./record-table.ts";
export type { Actor, GoalOperation, GoalRole, Verification } from "./roles.ts";
export {
  checkEventRole,
  checkResolving,
  checkRole,
  MAY,
  mayDo,
  ROLES,
  refuseOwnWork,
  refuseRole,
  VERIFICATIONS,
} from "./roles.ts";
export type { Impact, Survey } from "./survey.ts";
export {
  activeBlockers,
  blockedTasks,
  blockerImpact,
  compareTasks,
  displayStatus,
  focusElsewhere,
  surveyGoal,
} from "./survey.ts";
export type { DisplayStatus, EndedClaim, Evidence, Task, TaskAct, TaskClaim, TaskStatus } from "./task.ts";
export { isFinished, nextStatus, TASK_ACTS, TASK_TRANSITIONS } from "./task.ts";
export { BUILD_TASK, REVIEW_TASK, TASK_PLAN, TASK_STATUSES, TASK_WORK } from "./task-records.ts";
