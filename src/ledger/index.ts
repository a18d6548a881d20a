export { readResult } from "./attempt.ts";
export type { CallProgress, LedgerContext, RunningAttempts } from "./context.ts";
export { attemptsOf, mustNotBeCancelled, storeResult } from "./context.ts";
export { commitFailure, type FailureMarks } from "./failure-marks.ts";
export { VendorKeys } from "./keys.ts";
export { type BlockedCall, type CallsOutcome, type Finishing, type FirstWave, Ledger } from "./ledger.ts";
export { type Closing, KeptOutcomes } from "./recording.ts";
export {
  type ChildSession,
  checkToolName,
  checkTools,
  type Dedupe,
  DefiniteFailure,
  type ExecuteContext,
  landed,
  NotFinished,
  never,
  notYet,
  parametersOf,
  type StandardSchema,
  type SubAgentSession,
  type Tool,
  type ToolSpec,
  tool,
  unsure,
  type Verdict,
  type VerifyContext,
  validate,
} from "./tool.ts";
export { onAbort, sleep, withTimeout } from "./waiting.ts";
