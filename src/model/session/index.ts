/** Sessions: messages, calls, budgets, plans, and the fold that makes a state of their events. */

export type { Amounts, Budget, Price, PriceTable } from "./budget.ts";
export {
  addAmounts,
  amountsSince,
  BUDGET_UNITS,
  childReservation,
  countableAmounts,
  exceededLimit,
  isChildReservation,
  spentAndReserved,
} from "./budget.ts";
export type {
  AnswerContent,
  Call,
  CallError,
  CallResult,
  CallStatus,
  CompletedData,
  DedupeScope,
  Effect,
  IssuedData,
  VerifyAnswer,
} from "./call.ts";
export {
  APPROVED,
  answerText,
  EFFECTS,
  isNotStarted,
  isOpen,
  unsettledAnswer,
  verifyDelayMs,
} from "./call.ts";
export {
  BLOCK_KINDS,
  type Block,
  checkCallId,
  checkMessage,
  type FileBlock,
  fastCopyMessage,
  isCallId,
  type JsonObject,
  type Message,
  type MessageRole,
  messageSchema,
  messageText,
  type ReasoningBlock,
  type TextBlock,
  type ToolCallBlock,
  type ToolResultBlock,
  toolCalls,
} from "./message.ts";
export {
  changedNote,
  draftCheckpoint,
  draftCompleted,
  draftIssued,
  draftMessage,
  draftResults,
  isProvisional,
  provisionalResult,
  reactivate,
  reactivation,
  resultBlock,
  type SessionEvents,
} from "./session-events.ts";
export {
  failureKey,
  metadataTag,
  type SessionDraft,
  sessionKind,
  unprovenFailureKey,
} from "./session-kind.ts";
export type {
  Checkpoint,
  Plan,
  PlanStep,
  QueuedPrompt,
  SessionState,
  SessionStatus,
} from "./session-state.ts";
export { openCallsOf, SESSION_STATUSES } from "./session-state.ts";
export { applySegments, compareTranscripts, diffSessions, type SessionDiff } from "./transcript.ts";
