/** Sessions: messages, calls, budgets, plans, and the fold that makes a state of their events. */

export {
  type Amounts,
  addAmounts,
  BUDGET_UNITS,
  type Budget,
  childReservation,
  countableAmounts,
  exceededLimit,
  isChildReservation,
  spentAndReserved,
} from "./budget.ts";
export {
  type Call,
  type CallError,
  type CallResult,
  type CallStatus,
  type CompletedData,
  type DedupeScope,
  EFFECTS,
  type Effect,
  type IssuedData,
  isNotStarted,
  isOpen,
  unsettledAnswer,
  type VerifyAnswer,
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
  draftCheckpoint,
  draftCompleted,
  draftIssued,
  draftMessage,
  draftResults,
  reactivate,
  reactivation,
  resultBlock,
  type SessionEvents,
} from "./session-events.ts";
export { failureKey, type SessionDraft, sessionKind, unprovenFailureKey } from "./session-kind.ts";
export {
  type Checkpoint,
  openCallsOf,
  type Plan,
  type PlanStep,
  type QueuedPrompt,
  SESSION_STATUSES,
  type SessionState,
  type SessionStatus,
} from "./session-state.ts";
export { applySegments, compareTranscripts, diffSessions, type SessionDiff } from "./transcript.ts";
