/** The sessions of coding agents on this machine, as their hooks leave them: lines in a spool, processes. */

export { type ClaimedTask, claimedByOther, saveClaims } from "./claimed-files.ts";
export { type GoalChoice, ingestSpools, previewSpools, type SessionOrigin } from "./ingest.ts";
export { GoalPreview } from "./preview.ts";
export { agentAbove, processAbove } from "./process-above.ts";
export {
  type CallOutcome,
  hasNews,
  isFirstToBrief,
  Spool,
  type SpoolLine,
  sessionName,
  sessionOfProcess,
  spoolFolder,
  type TouchedFile,
  touchedFile,
} from "./spool.ts";
