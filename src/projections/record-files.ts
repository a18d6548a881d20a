/**
 * Renders `decisions/`, `blockers/` and `sessions/`: one Markdown file per record.
 *
 * A path never changes: `decisions/jwt-library-3f9ac1d2.md` has a slug of the decision's first text and the
 * start of its event's uid. The number, which a merge may change, stands in the file only. A renamed file
 * would conflict in git when two clones rename it differently.
 *
 * No text enters a path unchecked, and two records never share a file, even on file systems that ignore case.
 */

import { sha256 } from "../model/digest.ts";
import type { Blocker, DecisionRecord, GoalState, HistoryEntry } from "../model/goal/index.ts";
import { BLOCKER, DECISION, HISTORY_ENTRY } from "../model/goal/index.ts";
import { type Row, rowMaker, sectionsOf } from "./record-rows.ts";
import { type SealedText, sealMarkdown } from "./seal.ts";
import { oneLine, textBlock, yamlScalar } from "./written-text.ts";

type Field = string | number | boolean | null | readonly (string | number)[] | readonly Fields[] | Fields;
export interface Fields {
  readonly [name: string]: Field;
}

const SLUG_CHARACTERS = 40;
const HEADING_CHARACTERS = 80;

const UID = /^[0-9a-f]{40}$/;
const UID_CHARACTERS = 8;

/** The path of every record. If two would share a name, the later one has its whole uid in it. */
export function recordPaths(state: GoalState): ReadonlyMap<object, string> {
  const paths = new Map<object, string>();
  const taken = new Set<string>();
  const give = (row: object, path: string): void => {
    taken.add(path);
    paths.set(row, path);
  };
  const named = (folder: string, row: Blocker | DecisionRecord, text: string): void => {
    const uid = state.names.get(row.id) ?? "";
    if (!UID.test(uid)) throw new Error(`${row.id} has no event that made it`);
    const words = slug(text) || folder.slice(0, -1);
    const short = `${folder}/${words}-${uid.slice(0, UID_CHARACTERS)}.md`;
    give(row, taken.has(short) ? `${folder}/${words}-${uid}.md` : short);
  };
  for (const row of state.decisions.values()) named("decisions", row, row.context);
  for (const row of state.blockers.values()) named("blockers", row, row.description);
  for (const row of state.history.values()) give(row, sessionPath(row));
  return paths;
}

const SAFE_NAME = /^[a-z0-9](?:[a-z0-9._-]{0,78}[a-z0-9_-])?$/;
const LOOKS_HASHED = /-[0-9a-f]{12}$/;
const RESERVED = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/;

/** The name itself if it is safe on every file system; else its safe part and a hash. */
function sessionPath({ id }: Pick<HistoryEntry, "id">): string {
  const isSafe = SAFE_NAME.test(id) && !LOOKS_HASHED.test(id) && !RESERVED.test(id);
  return `sessions/${isSafe ? id : `${slug(id) || "session"}-${sha256(id).slice(0, 12)}`}.md`;
}

function slug(text: string): string {
  const words = text
    .slice(0, 10 * SLUG_CHARACTERS)
    .normalize("NFKD")
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  return (words ?? []).join("-").slice(0, SLUG_CHARACTERS).replace(/-$/, "");
}

const decisionRow = rowMaker(DECISION);
const blockerRow = rowMaker(BLOCKER);
const sessionRow = rowMaker(HISTORY_ENTRY);

export function renderDecision(goal: string, record: DecisionRecord): SealedText {
  const title = `${record.id} ${oneLine(record.context, HEADING_CHARACTERS)}`;
  return page(goal, record.revision, decisionRow(record), title, sectionsOf(DECISION, record));
}

export function renderBlocker(goal: string, record: Blocker): SealedText {
  const title = `${record.id} ${oneLine(record.description, HEADING_CHARACTERS)}`;
  return page(goal, record.revision, blockerRow(record), title, sectionsOf(BLOCKER, record));
}

export function renderSession(goal: string, entry: HistoryEntry): SealedText {
  const title = `Session ${oneLine(entry.id, HEADING_CHARACTERS)}`;
  return page(goal, entry.revision, sessionRow(entry), title, sectionsOf(HISTORY_ENTRY, entry));
}

function page(
  goal: string,
  revision: number,
  row: Row,
  title: string,
  sections: Readonly<Record<string, string>>,
): SealedText {
  const body = Object.entries(sections).map(([name, text]) => `\n## ${name}\n\n${textBlock(text)}\n`);
  return sealMarkdown(goal, revision, `${yamlFields(row as Fields)}---\n\n# ${title}\n${body.join("")}`);
}

export function yamlFields(fields: Fields, indent = ""): string {
  return Object.entries(fields)
    .map(([name, value]) => `${indent}${name}:${yamlField(value, indent)}`)
    .join("");
}

function yamlField(value: Field, indent: string): string {
  if (value === null || typeof value !== "object") return ` ${yamlScalar(value)}\n`;
  if (!Array.isArray(value)) return `\n${yamlFields(value as Fields, `${indent}  `)}`;
  if (value.length === 0) return " []\n";
  const items = value.map((each: string | number | Fields) => {
    if (typeof each !== "object") return `${indent}  - ${yamlScalar(each)}\n`;
    return yamlFields(each, `${indent}    `).replace(`${indent}    `, `${indent}  - `);
  });
  return `\n${items.join("")}`;
}
