/**
 * Where hooks leave what they saw: one file per conversation, one line per event, appended and never rewritten. A hook
 * that runs after every tool use opens no store; what it left is taken into the goal later, by a hook that has the time
 * (`taking-in.ts`). So a store that is locked, broken or too new costs nothing but that delay.
 *
 *     <conversation>.jsonl   lines; its last one is the heartbeat
 *     <conversation>.taken   how many bytes of it are in the goal
 *     <conversation>.taking  the line that is being taken in, and where the goal stood before
 *
 * What a crash leaves: before the line is whole, half a line, which readers skip and the next writer ends. Between taking
 * in and noting how far, lines that are in the goal already; up to the one that was being taken in they are passed over,
 * and of that one the goal tells whether it is in. A mark that stayed while its file went is removed by whoever begins the
 * next file of that name.
 */

import {
  appendFileSync,
  closeSync,
  existsSync,
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
import type { HookAgent } from "./agent-event.ts";
import type { ProcessAbove } from "./process-above.ts";

export interface TouchedFile {
  /** Relative to the root, with / between names. */
  readonly path: string;
  /** Null: it is gone. */
  readonly hash: string | null;
}

interface Said {
  readonly at: number;
  /** The worktree that paths are relative to. Earlier versions did not say. */
  readonly root?: string;
}

interface Start {
  readonly type: "start";
  readonly source: string;
  readonly process: ProcessAbove | null;
  /** The goal that was chosen there; null when none was. */
  readonly goal?: string | null;
}

export type SpoolLine = Said &
  (
    | Start
    | { readonly type: "touched"; readonly files: readonly TouchedFile[] }
    | { readonly type: "checkpoint"; readonly contextUsage: number | null }
    | { readonly type: "stop" }
    | { readonly type: "failed"; readonly reason: string }
    | { readonly type: "end"; readonly reason: string | null }
  );

/** A line, and how many bytes the file has up to its end. */
export interface Left {
  readonly line: SpoolLine;
  readonly end: number;
}

/** What is being taken in. */
export interface Taking {
  /** The end of its line. */
  readonly end: number;
  readonly goal: string;
  /** Where the goal stood before. */
  readonly seq: number;
}

const KEPT_MS = 86_400_000;

export class Spool {
  /** `claude-7f2a91bc`: also the name of the session in the goal's history. */
  readonly name: string;
  readonly agent: string;
  private readonly file: string;
  private readonly mark: string;
  private readonly intent: string;

  constructor(folder: string, name: string) {
    this.name = name;
    this.agent = name.slice(0, name.indexOf("-"));
    this.file = join(folder, `${name}.jsonl`);
    this.mark = join(folder, `${name}.taken`);
    this.intent = join(folder, `${name}.taking`);
  }

  /** Every conversation that left something here. */
  static all(folder: string): Spool[] {
    if (!existsSync(folder)) return [];
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

  /** One write each, so that two hooks at once do not mix their lines; after half a line a new one is begun. */
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

  /** All lines, those that are not in the goal yet, and how many bytes they are. */
  read(): { all: Left[]; untaken: Left[]; bytes: number } {
    const whole = readFileSync(this.file);
    const bytes = whole.lastIndexOf(0x0a) + 1;
    const taken = this.taken(whole.length);
    const all = linesIn(whole);
    const intent = this.taking();
    const from = intent !== null && intent.end <= bytes ? intent.end : 0;
    return { all, untaken: all.filter(({ end }) => end > taken && end >= from), bytes };
  }

  get hasUntaken(): boolean {
    const size = statSync(this.file, { throwIfNoEntry: false })?.size ?? 0;
    return size > this.taken(size);
  }

  /** Whether anything was left that changes the goal. A turn that ended is a sign of life and no more. */
  get hasNews(): boolean {
    return this.read().untaken.some(({ line }) => line.type !== "stop");
  }

  /** A mark beyond the end of the file is of an earlier file. */
  private taken(size: number): number {
    const bytes = Number(contentOf(this.mark)) || 0;
    return bytes > size ? 0 : bytes;
  }

  noteTaken(bytes: number): void {
    const temporary = `${this.mark}.tmp`;
    writeFileSync(temporary, String(bytes), { mode: 0o600 });
    renameSync(temporary, this.mark);
    rmSync(this.intent, { force: true });
  }

  /** What was being taken in by one that was killed. */
  taking(): Taking | null {
    const value = parsed(contentOf(this.intent) ?? "") as Partial<Taking> | null;
    const { end, goal, seq } = value ?? {};
    return end !== undefined && goal !== undefined && seq !== undefined ? { end, goal, seq } : null;
  }

  noteTaking(taking: Taking): void {
    writeFileSync(this.intent, JSON.stringify(taking), { mode: 0o600 });
  }

  /** What ended or crashed long ago and is in the goal is of no more use. */
  removeIfOver(all: readonly Left[], now: number): void {
    const last = all.at(-1)?.line;
    if (!last || now - last.at < KEPT_MS) return;
    rmSync(this.file, { force: true });
    this.removeMarks();
  }

  private removeMarks(): void {
    rmSync(this.mark, { force: true });
    rmSync(this.intent, { force: true });
  }
}

/** Short enough to be typed; letters and digits of the conversation's own name. */
export function sessionName(agent: HookAgent, conversation: string): string {
  const short = conversation.replace(/[^A-Za-z0-9]/g, "").slice(0, 12);
  return `${agent}-${short || "unnamed"}`;
}

/** Whatever it may be. */
type Odd = Readonly<Record<string, unknown>>;

function linesIn(whole: Buffer): Left[] {
  const all: Left[] = [];
  for (let from = 0; ; ) {
    const to = whole.indexOf(0x0a, from);
    if (to < 0) return all;
    const line = parsed(whole.toString("utf8", from, to));
    if (isLine(line)) all.push({ line, end: to + 1 });
    from = to + 1;
  }
}

/** An object, or null: for half a line, left by a hook that was killed in the middle of it, and for what is none. */
function parsed(text: string): Odd | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" ? (value as Odd | null) : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

/** As far as anything is done with it: one odd line must not keep the others from being taken in. */
function isLine(value: Odd | null): value is Odd & SpoolLine {
  if (value === null || typeof value["at"] !== "number" || !Number.isFinite(value["at"])) return false;
  const { type, reason, files, process: above } = value;
  if (type === "start") return above === null || isProcess(above);
  if (type === "failed") return typeof reason === "string";
  if (type === "touched") return Array.isArray(files) && files.every(isTouched);
  return typeof type === "string";
}

function isProcess(value: unknown): value is ProcessAbove {
  const { pid, started, boot, pidNamespace, host } = (value ?? {}) as Odd;
  const texts = [started, boot, pidNamespace, host];
  return typeof pid === "number" && texts.every((each) => typeof each === "string");
}

function isTouched(value: unknown): value is TouchedFile {
  const { path, hash } = (value ?? {}) as Odd;
  return typeof path === "string" && (typeof hash === "string" || hash === null);
}

function contentOf(file: string): string | null {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return null;
    throw error;
  }
}
