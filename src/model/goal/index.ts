/** Goals: tasks, phases, decisions, blockers, and the fold that makes a state of their events. */

export {
  compareEntries,
  type Entry,
  EntryReader,
  EventIds,
  formatId,
  MERGED,
} from "./entries.ts";
export { bySchema, entrySchema } from "./event-schemas.ts";
export { checkpointOf, goalFold } from "./goal-fold.ts";
export { type GoalDraft, type GoalStatus, goalKind, goalStatus } from "./goal-kind.ts";
export {
  blockerOf,
  branchGoal,
  DEFAULT_MAX_ATTEMPTS,
  DEFAULT_PHASES,
  DEFAULT_TTL_MS,
  decisionOf,
  decodeGoal,
  emptyGoal,
  encodeGoal,
  findTask,
  type GoalCheckpoint,
  type GoalState,
  historyOf,
  phaseOf,
  questionOf,
  seqOfRevision,
  staleness,
  taskOf,
} from "./goal-state.ts";
export { aliasOf, foldEntries, goalDelta } from "./merge.ts";
export {
  MERGE_NEWS_MS,
  mergeNotes,
  mergeNoteText,
  type NotApplied,
  notesNaming,
  type Renumbered,
  recentMergeNotes,
} from "./merge-notes.ts";
export {
  AFFECTS,
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
} from "./notes.ts";
export {
  BAR_CELLS,
  type NextTasks,
  nextTaskOf,
  nextTasks,
  type Position,
  type Progress,
  positionOf,
  progressBar,
  progressOf,
  type RunState,
  runStateOf,
} from "./position.ts";
export { hasDependencyCycle, isUnderWay, startBlockedBy } from "./readiness.ts";
export {
  contentOf,
  type Field,
  fileName,
  type InputOf,
  initialOf,
  namesOfItems,
  type RecordOf,
  type RecordTable,
  type ValueKind,
  type ValueOf,
  type Values,
  withInitials,
} from "./record-table.ts";
export {
  type Actor,
  checkResolving,
  checkRole,
  type GoalOperation,
  type GoalRole,
  MAY,
  mayDo,
  ROLES,
  refuseOwnWork,
  refuseRole,
  VERIFICATIONS,
  type Verification,
} from "./roles.ts";
export {
  activeBlockers,
  blockedTasks,
  blockerImpact,
  compareTasks,
  displayStatus,
  focusElsewhere,
  type Impact,
  type Survey,
  surveyGoal,
} from "./survey.ts";
export {
  type DisplayStatus,
  type EndedClaim,
  type Evidence,
  isFailedForGood,
  isFinished,
  nextStatus,
  TASK_ACTS,
  TASK_TRANSITIONS,
  type Task,
  type TaskAct,
  type TaskClaim,
  type TaskStatus,
} from "./task.ts";
export { BUILD_TASK, REVIEW_TASK, TASK_PLAN, TASK_STATUSES, TASK_WORK } from "./task-records.ts";
