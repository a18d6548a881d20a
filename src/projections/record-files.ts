/**
 * `decisions/`, `blockers/` and `sessions/`: one Markdown file per record, with its fields in the frontmatter and its
 * prose in sections. A record is immutable, so its file is rendered once and written again only when it changed.
 *
 * Names of files are made here and nowhere else. Ids come from the log or from people, so nothing of them enters a path
 * unchecked; two records never share a file, also where upper and lower case are the same.
 */

import { sha256 } from "../model/digest.ts";
import type { Actor, Blocker, DecisionRecord, HistoryEntry } from "../model/goal/index.ts";
import { type SealedText, sealMarkdown } from "./seal.ts";
import { isoTime, oneLine, optionalTime, textBlock, yamlScalar } from "./written-text.ts";

type Field = string | number | boolean | null | readonly (string | number)[] | readonly Fields[] | Fields;
export interface Fields {
  readonly [name: string]: Field;
}

const SLUG_CHARACTERS = 40;
const HEADING_CHARACTERS = 80;

export function decisionPath({ id, context }: DecisionRecord): string {
  return `decisions/${[id, slug(context)].filter(Boolean).join("-")}.md`;
}

export function blockerPath({ id, description }: Blocker): string {
  return `blockers/${[id, slug(description)].filter(Boolean).join("-")}.md`;
}

const PLAIN_NAME = /^[a-z0-9](?:[a-z0-9._-]{0,78}[a-z0-9_-])?$/;
const LOOKS_HASHED = /-[0-9a-f]{12}$/;
const RESERVED = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/;

/** Bare where the name is safe on every file system; else what is safe of it, and a hash that keeps it apart. */
export function sessionPath({ id }: Pick<HistoryEntry, "id">): string {
  const isPlain = PLAIN_NAME.test(id) && !LOOKS_HASHED.test(id) && !RESERVED.test(id);
  return `sessions/${isPlain ? id : `${slug(id) || "session"}-${sha256(id).slice(0, 12)}`}.md`;
}

function slug(text: string): string {
  const words = text
    .normalize("NFKD")
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  return (words ?? []).join("-").slice(0, SLUG_CHARACTERS).replace(/-$/, "");
}

export function renderDecision(goal: string, record: DecisionRecord): SealedText {
  const fields = {
    id: record.id,
    date: record.date,
    type: record.type,
    reversible: record.reversible,
    files: record.files,
    supersedes: record.supersedes,
    superseded_by: record.supersededBy,
    alternatives: record.alternatives.map(({ option, whyNot }) => ({ option, why_not: whyNot })),
    by: byFields(record.by),
    made_at: isoTime(record.at),
  };
  const title = `${record.id} ${oneLine(record.context, HEADING_CHARACTERS)}`;
  const sections = { Context: record.context, Decision: record.decision, Reason: record.reason };
  return page(goal, record.revision, fields, title, sections);
}

export function renderBlocker(goal: string, record: Blocker): SealedText {
  const { affects } = record;
  const fields = {
    id: record.id,
    status: record.status,
    affects: {
      tasks: affects.tasks,
      phases: affects.phases,
      goal: affects.goal,
      other: affects.other,
    },
    follow_ups: record.followUps,
    by: byFields(record.by),
    reported_at: isoTime(record.reportedAt),
    identified_at: optionalTime(record.identifiedAt),
    bypassed_at: optionalTime(record.bypassedAt),
    resolved_at: optionalTime(record.resolvedAt),
  };
  const title = `${record.id} ${oneLine(record.description, HEADING_CHARACTERS)}`;
  const { description, workaround, resolution } = record;
  const sections = { Description: description, Workaround: workaround, Resolution: resolution };
  return page(goal, record.revision, fields, title, sections);
}

export function renderSession(goal: string, entry: HistoryEntry): SealedText {
  const fields = {
    id: entry.id,
    agent: entry.agent,
    status: entry.status,
    started: isoTime(entry.startedAt),
    ended: optionalTime(entry.endedAt),
    context_usage: entry.contextUsage,
    restarts: entry.restarts,
    resumes: entry.resumes,
    working_on: entry.workingOn,
    completed: entry.completed,
  };
  const sections = {
    ...numbered("Issue", entry.issues),
    ...numbered("Note", entry.notes),
    "Hand-off": entry.handoffReason,
  };
  return page(goal, entry.revision, fields, `Session ${oneLine(entry.id, HEADING_CHARACTERS)}`, sections);
}

function numbered(name: string, texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(texts.map((text, index) => [`${name} ${index + 1}`, text]));
}

function byFields({ name, role }: Actor): Fields {
  return { name, role };
}

function page(
  goal: string,
  revision: number,
  fields: Fields,
  title: string,
  sections: Readonly<Record<string, string | null>>,
): SealedText {
  const body = Object.entries(sections)
    .filter(([, text]) => text !== null)
    .map(([name, text]) => `\n## ${name}\n\n${textBlock(text as string)}\n`);
  return sealMarkdown(goal, revision, `${yamlFields(fields)}---\n\n# ${title}\n${body.join("")}`);
}

/** The small part of YAML that renders need; whatever reads YAML understands it. */
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
