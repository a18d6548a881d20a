/** Durable state for AI agents. `open()` is where everything begins. */

export { type HoldfastConfig, loadConfig } from "./config/index.ts";
export { type AesGcmOptions, aesGcm, type Encryption } from "./encryption/index.ts";
export { FAILPOINTS, type Failpoint, failpoint } from "./failpoint.ts";
export type {
  Briefing,
  Claim,
  EvidenceInput,
  FileReport,
  FinalReport,
  Goal,
  GoalMoment,
  GoalSummary,
  Goals,
  HandoffInput,
  OpenGoalOptions,
  PruneGoalOptions,
  RemoveGoalOptions,
  RunOptions as GoalRunOptions,
  TaskAgent,
  TaskContext,
} from "./goal/index.ts";
export { runWithCheckpoints } from "./goal/index.ts";
export type {
  Decision,
  MoveOptions,
  MoveReport,
  PayloadCodec,
  PayloadPlace,
  PruneReport,
} from "./journal/index.ts";
export { Journal, Log } from "./journal/index.ts";
export type {
  BlockedCall,
  CallProgress,
  CallsOutcome,
  ChildSession,
  Dedupe,
  ExecuteContext,
  StandardSchema,
  SubAgentSession,
  Tool,
  ToolSpec,
  Verdict,
  VerifyContext,
} from "./ledger/index.ts";
export { DefiniteFailure, landed, NotFinished, never, notYet, tool, unsure } from "./ledger/index.ts";
export type { ErrorCode } from "./model/errors.ts";
export { HoldfastError, isHoldfastError } from "./model/errors.ts";
export type { Json } from "./model/json.ts";
export { canonicalJson } from "./model/json.ts";
export type { Jsonify } from "./model/jsonify.ts";
export type {
  Amounts,
  Block,
  Budget,
  Call,
  CallStatus,
  Checkpoint,
  Effect,
  FileBlock,
  JsonObject,
  Message,
  MessageRole,
  Plan,
  PlanStep,
  ReasoningBlock,
  SessionDiff,
  SessionStatus,
  TextBlock,
  ToolCallBlock,
  ToolResultBlock,
} from "./model/session/index.ts";
export type { StreamKind } from "./model/stream/index.ts";
export { event } from "./model/stream/index.ts";
export { abandonMove, Holdfast, move, type OpenOptions, open, undoMove } from "./open.ts";
export { openPostgres } from "./open-store.ts";
export type {
  EditReport,
  ImportOptions,
  ImportReport,
  ProjectOptions,
  ResumedTask,
  ResumeOptions,
  Resumption,
  SyncReport,
} from "./projections/index.ts";
export { GoalFolder, importState, migrateFile, projectGoal, resumeGoal } from "./projections/index.ts";
export type {
  AgentToolResult,
  AgentToolSpec,
  Answer,
  Approval,
  CadenceOption,
  CloseOptions,
  DirectCall,
  DirectOutcome,
  EraseReport,
  ForkReport,
  MessageInput,
  Model,
  ModelRequest,
  ModelResponse,
  OpenCall,
  PromptInput,
  Resumed,
  RunOptions,
  RunProgress,
  RunResult,
  SessionDetail,
  SessionOptions,
  SessionSummary,
  SessionVersion,
  Spoken,
  ToolDescription,
  WaitingCall,
  WithSessionOptions,
} from "./session/index.ts";
export { agentTool, Session, Sessions, withSession } from "./session/index.ts";
export type {
  JsonSchema,
  MigrationReport,
  Migrations,
  StateSpec,
  StateTemplate,
} from "./state-files/index.ts";
export { generateState, StateManager } from "./state-files/index.ts";
export type { Problem, Store } from "./store.ts";
export type { PostgresOptions, PostgresPool } from "./stores/postgres/index.ts";
export type {
  CommandNotice,
  OpenCallNote,
  SuperviseOptions,
  SupervisorEvent,
  SweepOptions,
  SweepReport,
  Work,
  WorkerCommand,
} from "./supervisor/index.ts";
