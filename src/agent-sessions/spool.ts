/**
 * The spool: the folder in which hooks leave events until they are ingested into the goal (`ingest.ts`).
 *
 * One file per conversation, one line per event, never rewritten. A store that is locked, broken or too new
 * only delays ingestion.
 *
 *     <conversation>.jsonl          the lines; the time of the last one is the heartbeat
 *     <conversation>.ingested       number of bytes that are in the goal
 *     <conversation>.ingesting      the line being ingested, and the goal's seq before it
 *     <conversation>.<why>.briefed  a briefing was given for this start (`isFirstToBrief`)
 *
 * A crash leaves:
 *
 *     while a line is written       half a line: readers skip it, the next writer starts a new line
 *     between ingesting and mark    lines that are already in the goal: lines before the one in `.ingesting`
 *                                   are skipped, and the goal's log tells whether that one is in
 *     a mark without its file       the writer that starts the next file of that name removes it
 */

import {
  appendFileSync,
  closeSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type ProcessAbove, processStatus } from "./process-above.ts";

export interface TouchedFile {
  /** Relative to the root, with `/` as separator. */
  readonly path: string;
  /**
   * Size and time of the last change, such as `120-1795061855505.25`; null: no such file. Ingestion hashes
   * the content if the file still has this stamp. Hooks do not: loading the code for that takes too long.
   */
  readonly stamp: string | null;
  /** The tool made the file. */
  readonly created?: true;
}

interface LineOrigin {
  readonly at: number;
  readonly root?: string;
}

interface StartLine {
  readonly type: "start";
  readonly source: string;
  readonly process: ProcessAbove | null;
  readonly goal?: string | null;
}

export type SpoolLine = LineOrigin &
  (
    | StartLine
    | { readonly type: "touched"; readonly files: readonly TouchedFile[] }
    /** A patch is about to be applied, and no hook will tell afterwards. The stamps are those before it. */
    | { readonly type: "patching"; readonly files: readonly TouchedFile[] }
    | { readonly type: "checkpoint"; readonly contextUsage: number | null }
    | { readonly type: "stop" }
    | { readonly type: "failed"; readonly reason: string }
    | { readonly type: "end"; readonly reason: string | null }
    /** A call that reaches beyond the project: its intent, then its outcome. `call` pairs the two. */
    | { readonly type: "call-started"; readonly call: string; readonly command: string }
    | {
        readonly type: "call-ended";
        readonly call: string;
        readonly command: string;
        readonly outcome: CallOutcome;
      }
    /** Written by the ingesting process once it noticed that the agent is gone. */
    | { readonly type: "crashed" }
  );

/** `ended`: the agent does not tell whether the call failed. */
export type CallOutcome = "done" | "failed" | "ended";

export interface SpooledLine {
  readonly line: SpoolLine;
  readonly end: number;
}

/** Written before an act that the goal's state cannot deduplicate. */
export interface IngestIntent {
  readonly end: number;
  readonly goal: string;
  readonly seq: number;
}

const KEEP_SPOOL_MS = 86_400_000;

/** Without a process to check, a session counts as crashed after this time without a line. */
export const SILENT_MS = 60 * 60_000;

/** Whether the agent behind these lines died without an end, and no `crashed` line says so yet. */
export function isAgentGone(lines: readonly { readonly line: SpoolLine }[], now: number): boolean {
  const last = lines.at(-1)?.line;
  if (!last || last.type === "end" || last.type === "crashed") return false;
  const agent = agentOf(lines);
  const status = agent === null ? "unknown" : processStatus(agent);
  return status === "gone" || (status === "unknown" && now - last.at > SILENT_MS);
}

function agentOf(lines: readonly { readonly line: SpoolLine }[]): ProcessAbove | null {
  const start = lines.findLast(({ line }) => line.type === "start")?.line;
  return start?.type === "start" ? start.process : null;
}

/** True if ingestion would change a goal: a line is pending, or an agent is gone. */
export function hasNews(folder: string, now: number): boolean {
  return Spool.all(folder).some((spool) => {
    const { all, pending } = spool.read();
    return pending.some(({ line }) => isEvent(line)) || isAgentGone(all, now);
  });
}

/** A `stop` line is only a heartbeat, and a `crashed` line repeats what the goal has. */
function isEvent({ type }: SpoolLine): boolean {
  return type !== "stop" && type !== "crashed";
}

/**
 * The session that hooks started for this agent process, so that its MCP server acts as the same agent. The
 * latest one, if a process has had several conversations.
 */
export function sessionOfProcess(folder: string, above: ProcessAbove): string | null {
  const found = Spool.all(folder).flatMap((spool) => {
    const { all } = spool.read();
    const agent = agentOf(all);
    const last = all.at(-1)?.line;
    const isSame = agent?.pid === above.pid && agent.started === above.started && agent.boot === above.boot;
    return isSame && last && last.type !== "end" ? [{ name: spool.name, at: last.at }] : [];
  });
  return found.sort((a, b) => a.at - b.at).at(-1)?.name ?? null;
}

const MAX_HASHED_BYTES = 16 << 20;

/** A file of a worktree as it is now. Null: it is no file, or too large to be recorded. */
export function touchedFile(root: string, path: string): TouchedFile | null {
  const stats = statSync(join(root, path), { throwIfNoEntry: false });
  if (!stats) return { path, stamp: null };
  if (!stats.isFile() || stats.size > MAX_HASHED_BYTES) return null;
  return { path, stamp: `${stats.size}-${stats.mtimeMs}` };
}

export function spoolFolder(home: string): string {
  return join(home, "hooks");
}

export class Spool {
  /** For example `claude-7f2a91bc`; also the name of the session in the goal's history. */
  readonly name: string;
  readonly agent: string;
  private readonly file: string;
  private readonly markFile: string;
  private readonly intentFile: string;

  constructor(folder: string, name: string) {
    this.name = name;
    this.agent = name.slice(0, name.indexOf("-"));
    this.file = join(folder, `${name}.jsonl`);
    this.markFile = join(folder, `${name}.ingested`);
    this.intentFile = join(folder, `${name}.ingesting`);
  }

  static all(folder: string): Spool[] {
    // A file in its place keeps hooks from recording, which they report, and nothing else from working.
    if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) return [];
    const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
    return names.map((name) => new Spool(folder, name.slice(0, -".jsonl".length)));
  }

  append(line: SpoolLine): void {
    const text = `${JSON.stringify(line)}\n`;
    try {
      this.write(text);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      mkdirSync(join(this.file, ".."), { recursive: true, mode: 0o700 });
      this.write(text);
    }
  }

  /** One write per line, so that two hooks do not mix their lines. After half a line, a new line starts. */
  private write(text: string): void {
    const descriptor = openSync(this.file, "a+", 0o600);
    try {
      const { size } = fstatSync(descriptor);
      if (size === 0) this.removeMarks();
      const last = Buffer.alloc(1);
      const isTorn = size > 0 && readSync(descriptor, last, 0, 1, size - 1) === 1 && last[0] !== 0x0a;
      appendFileSync(descriptor, isTorn ? `\n${text}` : text);
    } finally {
      closeSync(descriptor);
    }
  }

  read(): { all: SpooledLine[]; pending: SpooledLine[]; bytes: number } {
    const content = readFileSync(this.file);
    const bytes = content.lastIndexOf(0x0a) + 1;
    const ingested = this.ingestedBytes(content.length);
    const all = linesIn(content);
    const intent = this.intent();
    const from = intent !== null && intent.end <= bytes ? intent.end : 0;
    return { all, pending: all.filter(({ end }) => end > ingested && end >= from), bytes };
  }

  get hasPending(): boolean {
    const size = statSync(this.file, { throwIfNoEntry: false })?.size ?? 0;
    return size > this.ingestedBytes(size);
  }

  /** True if a pending line changes the goal. */
  get hasUnmergedEvents(): boolean {
    return this.read().pending.some(({ line }) => isEvent(line));
  }

  /** A mark beyond the end of the file belongs to an earlier file of the same name. */
  private ingestedBytes(size: number): number {
    const bytes = Number(contentOf(this.markFile)) || 0;
    return bytes > size ? 0 : bytes;
  }

  markIngested(bytes: number): void {
    const temporary = `${this.markFile}.tmp`;
    writeFileSync(temporary, String(bytes), { mode: 0o600 });
    renameSync(temporary, this.markFile);
    rmSync(this.intentFile, { force: true });
  }

  intent(): IngestIntent | null {
    const value = parseObject(contentOf(this.intentFile) ?? "") as Partial<IngestIntent> | null;
    const { end, goal, seq } = value ?? {};
    return end !== undefined && goal !== undefined && seq !== undefined ? { end, goal, seq } : null;
  }

  saveIntent(intent: IngestIntent): void {
    writeFileSync(this.intentFile, JSON.stringify(intent), { mode: 0o600 });
  }

  removeIfOld(all: readonly SpooledLine[], now: number): void {
    const last = all.at(-1)?.line;
    if (!last || now - last.at < KEEP_SPOOL_MS) return;
    rmSync(this.file, { force: true });
    this.removeMarks();
  }

  private removeMarks(): void {
    rmSync(this.markFile, { force: true });
    rmSync(this.intentFile, { force: true });
  }
}

/** Short enough to type: the agent's name, then letters and digits of the conversation id. */
export function sessionName(agent: string, conversation: string): string {
  const short = conversation.replace(/[^A-Za-z0-9]/g, "").slice(0, 12);
  return `${agent}-${short || "unnamed"}`;
}

type UnknownObject = Readonly<Record<string, unknown>>;

function linesIn(content: Buffer): SpooledLine[] {
  const all: SpooledLine[] = [];
  for (let from = 0; ; ) {
    const to = content.indexOf(0x0a, from);
    if (to < 0) return all;
    const line = parseObject(content.toString("utf8", from, to));
    if (isLine(line)) all.push({ line, end: to + 1 });
    from = to + 1;
  }
}

/** Returns null for text that is not a JSON object, such as the half line of a killed hook. */
function parseObject(text: string): UnknownObject | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? (value as UnknownObject | null) : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** Checks only the fields that ingestion uses. One malformed line must not block the others. */
function isLine(value: UnknownObject | null): value is UnknownObject & SpoolLine {
  if (value === null || typeof value["at"] !== "number" || !Number.isFinite(value["at"])) return false;
  const { type, reason, files, process: above } = value;
  if (type === "start") return above === null || isProcess(above);
  if (type === "failed") return typeof reason === "string";
  if (type === "touched" || type === "patching") return Array.isArray(files) && files.every(isTouched);
  if (type === "call-started" || type === "call-ended")
    return typeof value["call"] === "string" && typeof value["command"] === "string";
  return typeof type === "string";
}

function isProcess(value: unknown): value is ProcessAbove {
  const { pid, started, boot, pidNamespace, host } = (value ?? {}) as UnknownObject;
  const texts = [started, boot, pidNamespace, host];
  return typeof pid === "number" && texts.every((each) => typeof each === "string");
}

function isTouched(value: unknown): value is TouchedFile {
  const { path, stamp } = (value ?? {}) as UnknownObject;
  return typeof path === "string" && (typeof stamp === "string" || stamp === null);
}

function contentOf(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}

/** More than the time between two hooks of one start, less than the time between two starts. */
const SAME_START_MS = 10_000;

const KEEP_MARK_MS = { briefed: 86_400_000, tmp: 60_000 };

/**
 * True for the first hook of a start or compaction. Cursor also runs the hooks of Claude Code: both try to
 * create the mark exclusively, and only the one that succeeds gives the briefing.
 */
export function isFirstToBrief(folder: string, session: string, source: string, now: number): boolean {
  const mark = join(folder, `${session}.${source.replace(/[^a-z]/gi, "").slice(0, 20)}.briefed`);
  const old = statSync(mark, { throwIfNoEntry: false });
  if (old && distance(now, old.mtimeMs) < SAME_START_MS) return false;
  if (old) rmSync(mark, { force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  try {
    closeSync(openSync(mark, "wx", 0o600));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

export function removeOldMarks(folder: string, now: number): void {
  for (const name of readdirSync(folder)) {
    const kind = (["briefed", "tmp"] as const).find((each) => name.endsWith(`.${each}`));
    if (kind === undefined) continue;
    const file = join(folder, name);
    const made = statSync(file, { throwIfNoEntry: false });
    if (made && distance(now, made.mtimeMs) > KEEP_MARK_MS[kind]) rmSync(file, { force: true });
  }
}

/** Absolute, because a clock that was set back must not make a mark last until the clock has caught up. */
function distance(now: number, then: number): number {
  return Math.abs(now - then);
}
