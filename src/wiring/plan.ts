/**
 * What wiring would change, worked out before anything is written: every file is read and understood first, so that one
 * that cannot be understood stops all of it while nothing has happened.
 *
 * A file is brought back to what it is without us, and our entries are put into that. So doing it twice changes nothing,
 * an entry of an older release is replaced, and the record says exactly what to take out again.
 */

import {
  AGENT_TABLE,
  type AgentName,
  DROPPED_WHEN_EMPTY,
  isOurServer,
  type Launch,
  OURS,
  ourCommand,
  type WiredFile,
} from "./agents.ts";
import { addPage, pageState, stripPage } from "./agents-page.ts";
import { type Insertion, insertAll, takeOutAll } from "./insertions.ts";
import { mergeJson, stripJson } from "./json-merge.ts";
import { plainValue, readJsonText } from "./json-text.ts";
import { addTable, isNamed, stripTable, valuesOf } from "./toml-merge.ts";

/** What was put into a file, to be taken out of it again. */
export interface FileRecord {
  /** There was no such file before. */
  readonly created: boolean;
  readonly insertions: readonly Insertion[];
  /** Of the text without them. */
  readonly length: number;
}

export interface PlannedFile {
  readonly path: string;
  /** Null for the page, which is for all of them. */
  readonly agent: AgentName | null;
  /** Null: it is not there. */
  readonly before: string | null;
  readonly after: string | null;
  readonly record: FileRecord | null;
  /** What was met and left alone, for a person to know. */
  readonly notes: readonly string[];
}

export interface Planning {
  readonly agents: readonly AgentName[];
  readonly remove: boolean;
  readonly launch: Launch;
  /** The text of a file below the root; null when there is none. */
  read(path: string): string | null;
  record(path: string): FileRecord | undefined;
}

const PAGE = "AGENTS.md";
export const SERVER_TABLE = "mcp_servers.holdfast";

export function planWiring(planning: Planning): PlannedFile[] {
  const files = planning.agents.flatMap((agent) =>
    AGENT_TABLE[agent].files.map((file) => planFile(planning, agent, file)),
  );
  return planning.agents.length === 0 ? [] : [...files, planPage(planning)];
}

function planFile(planning: Planning, agent: AgentName, file: WiredFile): PlannedFile {
  const { path } = file;
  const before = planning.read(path);
  const record = planning.record(path);
  const base = { path, agent, before };
  const same = { ...base, after: before, record: record ?? null, notes: [] };
  if (before === null && planning.remove) return { ...same, record: null };
  const without = before === null ? "" : withoutUs(before, file, record);
  if (planning.remove) {
    const isEmpty = /^\s*(?:\{\s*\}\s*)?$/.test(without);
    const wasWired = without !== before;
    const isOurs = record ? record.created && isEmpty : wasWired && (isEmpty || isLeftOfOurs(without, file));
    const after = isOurs ? null : without;
    return { ...base, after, record: null, notes: [] };
  }
  const { insertions, notes } = additions(without, file, planning.launch);
  if (before !== null && isWired(before, file, planning.launch)) return { ...same, notes };
  const after = insertAll(without, insertions);
  const created = before === null || (record?.created === true && without.trim() === "");
  return { ...base, after, record: { created, insertions, length: without.length }, notes };
}

function withoutUs(text: string, { path, format }: WiredFile, record: FileRecord | undefined): string {
  const taken = record && takeOutAll(text, record.insertions, record.length);
  if (taken != null) return taken;
  if (format === "json") return stripJson(text, path, OURS, DROPPED_WHEN_EMPTY);
  return isOurServer(valuesOf(text, path, SERVER_TABLE)) ? stripTable(text, path, SERVER_TABLE) : text;
}

/**
 * Without the record: whether all that is left is what is left of a file that we made. Some of what we put in, as a
 * version, could be anybody's, and is not known by what it says.
 */
function isLeftOfOurs(without: string, file: WiredFile): boolean {
  const launch: Launch = { shell: () => "holdfast", mcp: { command: "holdfast", args: ["mcp"] } };
  const made = insertAll("", additions("", file, launch).insertions);
  return without === withoutUs(made, file, undefined);
}

/** Whether somebody else's MCP server has our name. */
export function hasTheirServer(text: string, { path, format }: WiredFile): boolean {
  if (format === "toml")
    return isNamed(text, path, SERVER_TABLE) && !isOurServer(valuesOf(text, path, SERVER_TABLE));
  const root = readJsonText(text, path);
  const { mcpServers } = (root === null ? {} : plainValue(root)) as { mcpServers?: { holdfast?: unknown } };
  return mcpServers?.holdfast !== undefined && !isOurServer(mcpServers.holdfast);
}

function additions(
  text: string,
  file: WiredFile,
  launch: Launch,
): { insertions: readonly Insertion[]; notes: string[] } {
  const theirs = hasTheirServer(text, file)
    ? [
        `${file.path}: has an MCP server holdfast of your own, which was left as it is; that of Holdfast was not wired`,
      ]
    : [];
  if (file.format === "toml") {
    const added = addTable(text, file.path, SERVER_TABLE, { ...launch.mcp });
    return { insertions: added ? [added] : [], notes: theirs };
  }
  const root = readJsonText(text, file.path);
  const wanted = file.wanted(launch, root === null ? undefined : plainValue(root));
  const { insertions, kept } = mergeJson(text, file.path, wanted);
  const left = Object.keys(file.wanted(launch)).filter((key) => !(key in wanted) && key !== "mcpServers");
  const notes = [...kept, ...left].map((each) => `${file.path}: ${each} is set by you and was left as it is`);
  return { insertions, notes: [...theirs, ...notes] };
}

/** Everything that is wanted is there, and nothing else of ours. */
function isWired(text: string, file: WiredFile, launch: Launch): boolean {
  if (file.format === "toml") {
    const added = addTable("", file.path, SERVER_TABLE, { ...launch.mcp });
    const rows = (added?.text ?? "").split("\n").filter(Boolean);
    return rows.every((row) => text.split(/\r?\n/).includes(row));
  }
  const root = readJsonText(text, file.path);
  if (root === null) return false;
  const there = plainValue(root);
  const { mcpServers, ...rest } = (there ?? {}) as { mcpServers?: { holdfast?: unknown } };
  const wanted = file.wanted(launch, hasTheirServer(text, file) ? there : rest);
  const server = (wanted as { mcpServers?: { holdfast?: unknown } }).mcpServers?.holdfast;
  const isSame = server === undefined || JSON.stringify(server) === JSON.stringify(mcpServers?.holdfast);
  const { insertions } = mergeJson(text, file.path, wanted);
  return isSame && insertions.length === 0 && commandsIn(there).length === commandsIn(wanted).length;
}

/** Every command of ours in a configuration, in its order. */
export function commandsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  const own = ourCommand(value);
  return [...(own === null ? [] : [own]), ...Object.values(value).flatMap(commandsIn)];
}

function planPage({ remove, read, record: recordOf, launch }: Planning): PlannedFile {
  const command = launch.typed ?? "holdfast";
  const before = read(PAGE);
  const record = recordOf(PAGE);
  const base = { path: PAGE, agent: null, before };
  const state = pageState(before ?? "", command);
  const same = { ...base, after: before, record: record ?? null };
  if (state === "broken")
    return { ...same, notes: [`${PAGE}: the block of Holdfast has no end and was left as it is`] };
  if (state === "edited")
    return { ...same, notes: [`${PAGE}: the block of Holdfast was edited and is yours now`] };
  const isThere = state !== "absent";
  if (remove) {
    if (before === null || !isThere) return { ...same, record: null, notes: [] };
    const after = (record && takeOutAll(before, record.insertions, record.length)) ?? stripPage(before);
    const isOurs = after.trim() === "" && record?.created !== false;
    return { ...base, after: isOurs ? null : after, record: null, notes: [] };
  }
  if (state === "ours") return { ...same, notes: [] };
  const without = before === null ? "" : isThere ? stripPage(before) : before;
  const added = addPage(without, command);
  const created = before === null || (record?.created ?? false);
  return {
    ...base,
    after: insertAll(without, [added]),
    record: { created, insertions: [added], length: without.length },
    notes: [],
  };
}
