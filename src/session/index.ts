export { reactivate } from "../model/session/index.ts";
export { escalateToPerson, undecidedCalls } from "./abandoned.ts";
export { type AgentToolResult, type AgentToolSpec, agentTool } from "./agent-tool.ts";
export { mustCountLimits } from "./budget.ts";
export { type DirectCall, type DirectOutcome, runDirectCall } from "./direct-call.ts";
export { drivenBy, drivenByMetadata, parentWithOpenCall } from "./driven-by.ts";
export { followLiveAnswer, type LiveAnswer, LiveAnswerKeeper } from "./live-answer.ts";
export { type MessageInput, readMessage, withUniqueCallIds } from "./messages.ts";
export { type Answer, type Approval, type OpenCall, OpenCalls, type Resolved } from "./open-calls.ts";
export { afterOwn, openSession, type SessionOptions, splitOptions } from "./opening.ts";

export { type PromptInput, promptTextChanged } from "./prompts.ts";
export { startRun } from "./run.ts";
export type {
  Model,
  ModelRequest,
  ModelResponse,
  RunOptions,
  RunProgress,
  RunResult,
  ToolDescription,
  WaitingCall,
} from "./run-options.ts";
export { Session, sessionCore } from "./session.ts";
export {
  type CloseOptions,
  holderText,
  incarnationOf,
  type Rehearsal,
  type Resumed,
} from "./session-core.ts";
export type { EraseReport, SessionDetail, SessionSummary } from "./sessions.ts";
export { Sessions } from "./sessions.ts";
export { childId, type Spoken } from "./sub-agents.ts";
export type { CadenceOption, ForkReport, SessionVersion } from "./versions.ts";
export { type WithSessionOptions, withSession } from "./with-session.ts";
