/** JSON files with a schema, versions and a lock; and text files written safely. */

export { withFileLock } from "./file-lock.ts";
export { type FieldSpec, type FieldSpecs, generateState, type StateTemplate } from "./generate-state.ts";
export { jsonString, layoutJson } from "./json-layout.ts";
export type { MigrateFileOptions, MigrationReport, Migrations } from "./migrations.ts";
export { migrate, migrateFile } from "./migrations.ts";
export { fitOf, type JsonSchema, problemIn, type SchemaProblem, schemaRefused } from "./schema-check.ts";
export { StateManager, type StateSpec } from "./state-manager.ts";
export {
  hasConflictMarkers,
  OversizedText,
  parseJson,
  parseYaml,
  readBounded,
  UnreadableText,
} from "./untrusted-text.ts";
export {
  prepareFile,
  removeTemporaries,
  type Signature,
  sameSignature,
  signatureAt,
  syncFolder,
  writeFileWhole,
} from "./whole-file.ts";
