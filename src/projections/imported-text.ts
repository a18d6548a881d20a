/** Reads a STATE.md of another tool leniently: YAML, flat YAML, or a frontmatter with sections. */

import { OversizedText, parseYaml, UnreadableText } from "../state-files/index.ts";
import { normalText } from "./seal.ts";
import { splitPage } from "./state-page.ts";

export type Row = Readonly<Record<string, unknown>>;

export interface ImportedText {
  readonly row: Row;
  readonly sections: ReadonlyMap<string, string>;
}

export async function readImported(raw: string): Promise<ImportedText> {
  const text = normalText(raw);
  const page = isPage(text) ? splitPage(text) : null;
  if (page) return readPage(page.frontmatter, page.top, page.sections);
  let row: Row;
  try {
    row = await parseYaml(text);
  } catch (error) {
    if (!(error instanceof UnreadableText) || error instanceof OversizedText) throw error;
    row = await readFlat(text);
  }
  if (row["position"] === null || row["progress"] === null) row = await readFlat(text);
  return { row, sections: new Map() };
}

function isPage(text: string): boolean {
  return /^---\s*\n/.test(text) || /^## +\S/m.test(text);
}

const LISTS: Readonly<Record<string, RegExp>> = {
  decisions: /^(?:id|date|context)$/,
  blockers: /^id$/,
  sessions: /^id$/,
};
const MAPS = ["position", "progress", "resume_context"];
const TOP = [...Object.keys(LISTS), ...MAPS, "initiative", "title", "next_action", "statement", "goal"];

/** Works without indentation, since the keys that begin a section or an item are known. */
async function readFlat(text: string): Promise<Row> {
  const row: Record<string, unknown> = {};
  let section = "";
  let target: Record<string, unknown> = row;
  let list: unknown[] | null = null;
  let block: { key: string; lines: string[] } | null = null;
  const endBlock = (): void => {
    if (block) row[block.key] = block.lines.join("\n").trim();
    block = null;
  };
  for (const raw of text.split("\n")) {
    const line = raw.trim();
    const pair = /^([A-Za-z_][\w-]*):(?:\s+(.*))?$/.exec(line.replace(/^- /, ""));
    const isTop = pair !== null && !line.startsWith("- ") && TOP.includes(pair[1] ?? "");
    if (block && !isTop && !line.startsWith("#")) {
      (block as { lines: string[] }).lines.push(line);
      continue;
    }
    if (line === "" || line.startsWith("#")) {
      endBlock();
      continue;
    }
    const key = pair?.[1] ?? "";
    const value = pair?.[2] ?? "";
    if (isTop) {
      endBlock();
      section = key;
      list = null;
      target = MAPS.includes(key) ? {} : row;
      if (value === "|" || value === ">") block = { key, lines: [] };
      else if (LISTS[key]) row[key] = [];
      else row[key] = MAPS.includes(key) ? target : await scalar(value);
    } else if (line.startsWith("- ") && LISTS[section]?.test(key)) {
      target = { [key]: await scalar(value) };
      (row[section] as unknown[]).push(target);
      list = null;
    } else if (line.startsWith("- ")) {
      const item = await scalar(line.slice(2));
      if (list) list.push(item);
      else
        throw new UnreadableText(`its YAML cannot be read: no list for ${JSON.stringify(line.slice(0, 60))}`);
    } else if (pair) {
      list = value === "" ? [] : null;
      target[key] = list ?? (await scalar(value));
    } else
      throw new UnreadableText(`its YAML cannot be read: ${JSON.stringify(line.slice(0, 60))} says nothing`);
  }
  endBlock();
  return row;
}

async function scalar(text: string): Promise<unknown> {
  try {
    return (await parseYaml(`value: ${text}`))["value"];
  } catch (error) {
    if (error instanceof UnreadableText) return text;
    throw error;
  }
}

async function readPage(
  frontmatter: string,
  top: string,
  sections: ReadonlyMap<string, string>,
): Promise<ImportedText> {
  const front = frontmatter === "" ? {} : await parseYaml(frontmatter);
  const rest = new Map<string, string>();
  const row: Record<string, unknown> = { ...front };
  row["title"] ??= /^# +(.*)$/m.exec(top)?.[1]?.trim();
  const quote = top.split("\n").filter((line) => line.startsWith(">"));
  if (quote.length > 0)
    row["statement"] ??= quote
      .map((line) => line.replace(/^> ?/, ""))
      .join(" ")
      .trim();
  const others = top.split("\n").filter((line) => line.trim() !== "" && !/^[#>]/.test(line));
  if (others.length > 0) rest.set("top", others.join("\n"));
  for (const [name, content] of flattened(sections)) {
    const read = SECTIONS.find(([pattern]) => pattern.test(name))?.[1];
    const left = read ? read(row, content) : content;
    if (left.trim() !== "") rest.set(name, left.trim());
  }
  return { row, sections: rest };
}

function flattened(sections: ReadonlyMap<string, string>): [string, string][] {
  return [...sections].flatMap(([name, content]) => {
    const [first = "", ...parts] = content.split(/^### +/m);
    const inner = parts.map((part): [string, string] => {
      const end = part.indexOf("\n");
      return end < 0 ? [part.trim(), ""] : [part.slice(0, end).trim(), part.slice(end + 1).trim()];
    });
    return [[name, first.trim()] as [string, string], ...inner];
  });
}

/** Adds what it understands to the row, and returns the other lines. */
type ReadSection = (row: Record<string, unknown>, content: string) => string;

const SECTIONS: readonly (readonly [RegExp, ReadSection])[] = [
  [/^(?:current )?position$/i, readPosition],
  [/^progress$/i, readPosition],
  [/^next action/i, (row, content) => keepText(row, "next_action", content)],
  [/^decisions/i, (row, content) => readItems(row, "decisions", content, (text) => ({ decision: text }))],
  [/^(?:active )?blockers/i, (row, content) => readItems(row, "blockers", content, blockerItem)],
  [/^(?:open )?questions/i, (row, content) => readItems(row, "questions", content, (text) => text)],
  [/^(?:pending |current )?(?:todos|tasks)/i, (row, content) => readItems(row, "tasks", content, taskItem)],
  [/^session continuity/i, readContinuity],
];

function keepText(row: Record<string, unknown>, name: string, content: string): string {
  if (content !== "") row[name] = content;
  return "";
}

function readItems(
  row: Record<string, unknown>,
  name: string,
  content: string,
  item: (text: string) => unknown,
): string {
  const left: string[] = [];
  const items = (Array.isArray(row[name]) ? row[name] : []) as unknown[];
  for (const line of content.split("\n")) {
    const text = /^\s*[-*+] +(.*)$/.exec(line)?.[1]?.trim();
    if (text !== undefined && !/^(?:none|n\/a|… \d+ more in .*)\.?$/i.test(text)) items.push(item(text));
    else if (text === undefined && !/^(?:none|none yet|n\/a)\.?$/i.test(line.trim())) left.push(line);
  }
  row[name] = items;
  return left.join("\n");
}

function taskItem(text: string): Row {
  const box = /^\[([ xX])\] *(.*)$/.exec(text);
  return { title: box ? box[2] : text, done: box !== null && box[1] !== " " };
}

function blockerItem(text: string): Row {
  const around = / \(workaround: (.*)\)$/.exec(text);
  const affects = /\(affects: ([^)]*)\)/.exec(text);
  const bare = text.replace(around?.[0] ?? "", "").replace(affects?.[0] ?? "", "");
  const named = /^(?:(\S+-\d+) +)?(?:\[([a-z]+)\] +)?(.*)$/.exec(bare.trim());
  return {
    ...(named?.[1] && { id: named[1] }),
    ...(named?.[2] && { status: named[2] }),
    description: named?.[3] ?? text,
    affects: affects?.[1]?.split(/, */) ?? [],
    ...(around?.[1] && { workaround: around[1] }),
  };
}

/** `Phase: 2 of 4 (JWT)`, `Plan: 3 of 5`, `Status: In progress`, `Progress: [█████░░░] 50%`. */
function readPosition(row: Record<string, unknown>, content: string): string {
  const position = { ...(row["position"] as Row | undefined) } as Record<string, unknown>;
  const progress = { ...(row["progress"] as Row | undefined) } as Record<string, unknown>;
  const left: string[] = [];
  for (const line of content.split("\n")) {
    const bare = line.replace(/\*\*/g, "").trim();
    const phase = /^Phase:? *\[?(\d+)\]? of \[?(\d+)\]?[:\s—–-]*\(?\[?([^()[\]·]*)/i.exec(bare);
    const plan = /^Plan:? *\[?(\d+)\]?(?: of \[?\d+\]?)?(?: in current phase)?[:\s—–-]*(.*)$/i.exec(bare);
    const status = /^Status: *(.*)$/i.exec(bare);
    const bar = /^(?:Progress: *)?\[?[█▓▒░#=\-. ]*\]? *(\d{1,3})%$/.exec(bare);
    if (phase) {
      position["phase"] ??= Number(phase[1]);
      progress["phases_total"] ??= Number(phase[2]);
      if (phase[3]?.trim()) position["phase_name"] ??= phase[3].trim();
    } else if (plan) {
      position["plan"] ??= Number(plan[1]);
      if (plan[2]?.trim()) position["plan_name"] ??= plan[2].trim();
    } else if (status) position["status"] ??= status[1];
    else if (bar) progress["bar"] ??= bare.replace(/^Progress: */i, "");
    else if (bare !== "") left.push(line);
  }
  row["position"] = position;
  row["progress"] = progress;
  return left.join("\n");
}

/** `Last session: 2024-01-15`, `Stopped at: …`, `Resume file: …`. */
function readContinuity(row: Record<string, unknown>, content: string): string {
  const left: string[] = [];
  const session: Record<string, unknown> = {};
  for (const line of content.split("\n")) {
    const pair = /^(Last session|Stopped at|Resume file): *(.*)$/i.exec(line.replace(/\*\*/g, "").trim());
    const value = pair?.[2]?.trim();
    if (!pair || !value) {
      if (line.trim() !== "") left.push(line);
    } else if (/^last/i.test(pair[1] ?? "")) session["started"] = value;
    else if (/^stopped/i.test(pair[1] ?? "")) session["notes"] = `Stopped at: ${value}`;
    else session["issues"] = [`Resume file: ${value}`];
  }
  if (Object.keys(session).length > 0) {
    row["sessions"] = [
      ...((row["sessions"] as unknown[]) ?? []),
      { id: "last-session", status: "ended", ...session },
    ];
  }
  return left.join("\n");
}

export const LINE = 500;
export const TEXT = 20_000;
const MOST_ITEMS = 1_000;

export function map(value: unknown): Row {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Row) : {};
}

export function rows(value: unknown): Row[] {
  if (!Array.isArray(value)) return [];
  return value
    .slice(0, MOST_ITEMS)
    .map((each) =>
      typeof each === "string" ? { decision: each, description: each, title: each } : map(each),
    );
}

/** A list of texts; a pair such as `task-xyz: "Configure it"` becomes one text. */
export function strings(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  const words = value.slice(0, MOST_ITEMS).map((each) => {
    if (each === null || typeof each !== "object") return String(each);
    return Object.entries(each)
      .map(([key, text]) => `${key}: ${String(text)}`)
      .join(", ");
  });
  return words.filter((word) => word !== "");
}

export function line(value: unknown): string | null {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && text.trim() !== "" ? text.trim().slice(0, LINE) : null;
}

export function prose(value: unknown): string | null {
  return typeof value === "string" && value.trim() !== "" ? value.trim().slice(0, TEXT) : null;
}

export function whole(value: unknown): number | null {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value < 1e9 ? value : null;
}

export function day(value: unknown): string | null {
  return typeof value === "string" && /^\d{4}-\d\d-\d\d/.test(value) ? value.slice(0, 10) : null;
}

export function time(value: unknown): number | null {
  const ms = typeof value === "string" ? Date.parse(value) : Number.NaN;
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

export function usage(value: unknown): number | null {
  const share = typeof value === "string" ? Number(value.replace("%", "")) / 100 : value;
  return typeof share === "number" && share >= 0 && share <= 1 ? share : null;
}
