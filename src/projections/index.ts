/** A goal as files in a repository that people and agents read, edit and review. */

export type { RefusedFile } from "./event-files.ts";
export { withFileLock } from "./file-lock.ts";
export { readAgentState, readRecordPage, readState, readTaskBoard } from "./file-reading.ts";
export { type FieldSpec, type FieldSpecs, generateState, type StateTemplate } from "./generate-state.ts";
export type { SyncReport } from "./goal-folder.ts";
export type { EditReport } from "./human-edit.ts";
export { type ImportOptions, type ImportReport, importState } from "./import-state.ts";
export { type JsonSchema, SCHEMAS } from "./json-schemas.ts";
export { type MigrationReport, type Migrations, migrateFile } from "./migrations.ts";
export {
  editNotes,
  followGoal,
  GoalFolder,
  keepEvents,
  type ProjectOptions,
  projectGoal,
} from "./project-goal.ts";
export { type RenderedFile, Renderer, type Rendering, renderGoal } from "./render.ts";
export { type ContextFile, type ResumeOptions, type Resumption, resumeGoal } from "./resume-goal.ts";
export { problemIn } from "./schema-check.ts";
export { fitOf } from "./schema-fit.ts";
export { readSeal } from "./seal.ts";
export { StateManager, type StateSpec } from "./state-manager.ts";
export { mergeAllEvents, mergeEventFolder } from "./take-in-folder.ts";
