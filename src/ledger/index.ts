export { type Attempts, attemptsOf } from "./attempts.ts";
export { type CallProgress, type LedgerContext, mustNotBeCancelled, storeResult } from "./context.ts";
export { describeError } from "./error-text.ts";
export { type Marks, withNextMark } from "./failure-marks.ts";
export { VendorKeys } from "./keys.ts";
export { type BlockedCall, type CallsOutcome, type Finishing, Ledger } from "./ledger.ts";
export { type StandardSchema, validate } from "./standard-schema.ts";
export {
  type ChildSession,
  type Dedupe,
  DefiniteFailure,
  type ExecuteContext,
  landed,
  NeedsApproval,
  NotFinished,
  never,
  notYet,
  type SubAgentSession,
  type Tool,
  type ToolSpec,
  tool,
  unsure,
  type Verdict,
  type VerifyContext,
} from "./tool.ts";
export { sleep, within } from "./waiting.ts";
