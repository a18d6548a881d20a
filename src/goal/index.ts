/** Goals: long-lived work that many agents and people share. */

export { type Act, closingPhase, DraftBatch, phaseNumber } from "./act.ts";
export type { Briefing, BriefingOptions } from "./briefing.ts";
export { dataElement, estimateTokens, MIN_BRIEFING_TOKENS, makeBriefing } from "./briefing.ts";
export type { ClaimProof, Verdict } from "./claim-acts.ts";
export { checkFiles, type FileCheck, type FileReport, hashFile } from "./file-check.ts";
export { Goal, goalCore, resetLostClaims } from "./goal.ts";
export { goalWaits, type WriteGuard } from "./goal-core.ts";
export {
  type GoalSummary,
  Goals,
  type PruneGoalOptions,
  type RemoveGoalOptions,
} from "./goals.ts";
export { actSigners, type MergeReport } from "./merging.ts";
export type { DecisionInput, Resolved } from "./note-acts.ts";
export * as noteActs from "./note-acts.ts";
export { loadGoal, mergeGoal, type OpenGoalOptions, openGoal } from "./open-goal.ts";
export type { GoalMoment } from "./past.ts";
export type { TaskInput } from "./planning-acts.ts";
export * as planningActs from "./planning-acts.ts";
export type { FinalReport, RunOptions, TaskAgent, TaskContext } from "./run-with-checkpoints.ts";
export { runWithCheckpoints } from "./run-with-checkpoints.ts";
export {
  eventFileNames,
  eventsUnreadable,
  FITS_NAME,
  fileSignature,
  markEventFilesSeen,
  moreRefused,
  REFUSED_NAMED,
  REFUSED_PER_LOOK,
  type RefusedEventFile,
  refusedEventFiles,
  rememberRefused,
  seenBy,
  unseenEventFiles,
  waitingGoals,
} from "./seen-event-files.ts";
export * as sessionActs from "./session-acts.ts";
export {
  type EndInput,
  type HandoffInput,
  type NoteInput,
  type StartInput,
  UNKNOWN_OUTCOME,
} from "./session-acts.ts";
export { Claim, type EvidenceInput, type LostClaim } from "./task-claims.ts";
export { seemsGone } from "./task-leases.ts";
