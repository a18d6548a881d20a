/** Reads rendered files back and checks them against their schemas. A rendering reads back without loss. */

import type { JsonSchema, MigrationReport, Migrations, SchemaProblem } from "../state-files/index.ts";
import {
  migrate,
  migrateFile as migrateStateFile,
  parseJson,
  parseYaml,
  problemIn,
  UnreadableText,
} from "../state-files/index.ts";
import { AGENT_STATE_VERSION } from "./json-files.ts";
import { AGENT_STATE_SCHEMA, RECORDS_SCHEMA, TASK_BOARD_SCHEMA } from "./json-schemas.ts";
import { normalText, readSeal, resealed } from "./seal.ts";
import { readStatePage, type StatePage, splitPage } from "./state-page.ts";
import { readBlock } from "./written-text.ts";

export interface RecordPage {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly sections: ReadonlyMap<string, string>;
}

export type RecordKind = "decision" | "blocker" | "session";

export async function readRecordPage(kind: RecordKind, raw: string): Promise<RecordPage> {
  const page = splitPage(normalText(raw));
  if (!page || page.frontmatter === "") throw new UnreadableText("its frontmatter does not end");
  const fields = await parseYaml(page.frontmatter);
  refuse(await problemIn(fields, RECORDS_SCHEMA, `#/$defs/${kind}`));
  const sections = new Map<string, string>([["top", page.top]]);
  for (const [name, block] of page.sections) {
    try {
      sections.set(name, readBlock(block));
    } catch (error) {
      throw new UnreadableText(`section ${name}: ${(error as Error).message}`, { cause: error });
    }
  }
  return { fields, sections };
}

/** Version 2 renames `blockers` to `risks`, at the same place among the members. */
const AGENT_STATE_MIGRATIONS: Migrations = {
  current: AGENT_STATE_VERSION,
  steps: {
    1: (old) =>
      Object.fromEntries(
        Object.entries(old).map(([name, value]) => [name === "blockers" ? "risks" : name, value]),
      ),
  },
};

export interface MigrateOptions {
  /** Default: the migrations of `agent_state.json`. */
  readonly migrations?: Migrations;
  readonly schema?: JsonSchema;
  readonly dryRun?: boolean;
}

/**
 * Migrates a JSON file on disk, with a backup beside it. Safe to run at every start.
 *
 * @example
 * const { written, backup } = await migrateFile(".planning/agent_state.json");
 */
export function migrateFile(file: string, options: MigrateOptions = {}): Promise<MigrationReport> {
  // A file that a person changed keeps a digest that does not fit, so that the edit is still noticed.
  const finish = (text: string, old: string): string => (readSeal(old).isIntact ? resealed(text) : text);
  return migrateStateFile(file, { migrations: AGENT_STATE_MIGRATIONS, ...options, finish });
}

export async function readAgentState(raw: string): Promise<Record<string, unknown>> {
  const { value } = migrate(parseJson(normalText(raw)), AGENT_STATE_MIGRATIONS, "agent_state.json");
  refuse(await problemIn(value, AGENT_STATE_SCHEMA));
  return value;
}

export async function readTaskBoard(raw: string): Promise<Record<string, unknown>> {
  const value = parseJson(normalText(raw));
  refuse(await problemIn(value, TASK_BOARD_SCHEMA));
  return value;
}

export function readState(raw: string): StatePage {
  const page = splitPage(normalText(raw));
  if (!page) throw new UnreadableText("its frontmatter does not end");
  return readStatePage(page);
}

function refuse(problem: SchemaProblem | null): void {
  if (problem) throw new UnreadableText(`${problem.path} ${problem.rule}`);
}
