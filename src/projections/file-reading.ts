/** Rendered files read back, checked against their schemas. What `render.ts` wrote reads back without loss. */

import { parseJson, parseYaml, UnreadableText } from "./foreign-text.ts";
import { AGENT_STATE_SCHEMA, RECORDS_SCHEMA, TASK_BOARD_SCHEMA } from "./json-schemas.ts";
import { migrateAgentState } from "./migrations.ts";
import { problemIn, type SchemaProblem } from "./schema-check.ts";
import { normalText } from "./seal.ts";
import { readStatePage, type StatePage, splitPage } from "./state-page.ts";
import { readBlock } from "./written-text.ts";

/** A record file: its frontmatter, and its sections by name. */
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

/** Older versions are brought up to date while they are read. */
export async function readAgentState(raw: string): Promise<Record<string, unknown>> {
  const value = migrateAgentState(parseJson(normalText(raw)));
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
