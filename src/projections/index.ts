/** A goal as files in a repository that people and agents read, edit and review. */

export type { RefusedFile } from "./event-files.ts";
export { mergeAllEvents, mergeEventFolder } from "./event-files.ts";
export { migrateFile, readAgentState, readRecordPage, readState, readTaskBoard } from "./file-reading.ts";
export type { SyncReport } from "./goal-folder.ts";
export type { EditReport } from "./human-edit.ts";
export { type ImportOptions, type ImportReport, importedName, importState } from "./import-state.ts";
export { SCHEMAS } from "./json-schemas.ts";
export type { ProjectOptions } from "./project-goal.ts";
export { editNotes, followGoal, GoalFolder, keepEvents, projectGoal } from "./project-goal.ts";
export { removeGoalFiles } from "./remove-files.ts";
export { type RenderedFile, Renderer, type Rendering, renderGoal } from "./render.ts";
export {
  type ContextFile,
  type ResumedTask,
  type ResumeOptions,
  type Resumption,
  resumeGoal,
} from "./resume-goal.ts";
export { editKeys, hasTwoSeals, readSeal } from "./seal.ts";
export { describeStrays } from "./stray-records.ts";
