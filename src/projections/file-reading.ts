/** Rendered files read back, checked against their schemas. What `render.ts` wrote reads back without loss. */

import { parseJson, parseYaml, UnreadableText } from "./foreign-text.ts";
import { migrateAgentState } from "./migrations.ts";
import { checkOf, type SchemaCheck } from "./schema-check.ts";
import { AGENT_STATE_SCHEMA, RECORDS_SCHEMA, TASK_BOARD_SCHEMA } from "./schema-rows.ts";
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
  refuse(await checkOf(RECORDS_SCHEMA, `#/$defs/${kind}`), fields);
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
  refuse(await checkOf(AGENT_STATE_SCHEMA), value);
  return value;
}

export async function readTaskBoard(raw: string): Promise<Record<string, unknown>> {
  const value = parseJson(normalText(raw));
  refuse(await checkOf(TASK_BOARD_SCHEMA), value);
  return value;
}

export function readState(raw: string): StatePage {
  const page = splitPage(normalText(raw));
  if (!page) throw new UnreadableText("its frontmatter does not end");
  return readStatePage(page);
}

function refuse(check: SchemaCheck, value: unknown): void {
  const problem = check(value);
  if (problem) throw new UnreadableText(`${problem.path} ${problem.rule}`);
}
