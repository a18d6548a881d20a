/**
 * Where hooks leave what they saw: one file per conversation, one line per event, appended and never rewritten. A hook
 * that runs after every tool use opens no store; what it left is taken into the goal later, by a hook that has the time
 * (`taking-in.ts`). So a store that is locked, broken or too new costs nothing but that delay.
 *
 *     <conversation>.jsonl   lines; its last one is the heartbeat
 *     <conversation>.taken   how many bytes of it are in the goal
 *
 * What a crash leaves: before the line is whole, half a line, which readers skip and the next writer ends. Between taking
 * in and noting how far, lines that are taken in again; all of them say how things are, not what to add, so that the
 * second time changes nothing.
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

export type SpoolLine = { readonly at: number } & (
  | { readonly type: "start"; readonly source: string; readonly process: ProcessAbove | null }
  | { readonly type: "touched"; readonly files: readonly TouchedFile[] }
  | { readonly type: "checkpoint"; readonly contextUsage: number | null }
  | { readonly type: "stop" }
  | { readonly type: "failed"; readonly reason: string }
  | { readonly type: "end"; readonly reason: string | null }
);

const KEPT_MS = 86_400_000;

export class Spool {
  /** `claude-7f2a91bc`: also the name of the session in the goal's history. */
  readonly name: string;
  readonly agent: string;
  private readonly file: string;
  private readonly mark: string;

  constructor(folder: string, name: string) {
    this.name = name;
    this.agent = name.slice(0, name.indexOf("-"));
    this.file = join(folder, `${name}.jsonl`);
    this.mark = join(folder, `${name}.taken`);
  }

  static of(folder: string, agent: HookAgent, conversation: string): Spool {
    return new Spool(folder, sessionName(agent, conversation));
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
      const last = Buffer.alloc(1);
      const isTorn = size > 0 && readSync(descriptor, last, 0, 1, size - 1) === 1 && last[0] !== 0x0a;
      appendFileSync(descriptor, isTorn ? `\n${text}` : text);
    } finally {
      closeSync(descriptor);
    }
  }

  /** All lines, and how many bytes they are. */
  read(): { lines: SpoolLine[]; untaken: SpoolLine[]; bytes: number } {
    const whole = readFileSync(this.file);
    const bytes = whole.lastIndexOf(0x0a) + 1;
    const taken = Math.min(this.taken(), bytes);
    const lines = linesIn(whole.subarray(0, bytes).toString("utf8"));
    const untaken = linesIn(whole.subarray(taken, bytes).toString("utf8"));
    return { lines, untaken, bytes };
  }

  get hasUntaken(): boolean {
    return (statSync(this.file, { throwIfNoEntry: false })?.size ?? 0) > this.taken();
  }

  /** Whether anything was left that changes the goal. A turn that ended is a sign of life and no more. */
  get hasNews(): boolean {
    return this.read().untaken.some(({ type }) => type !== "stop");
  }

  private taken(): number {
    try {
      return Number(readFileSync(this.mark, "utf8")) || 0;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return 0;
      throw error;
    }
  }

  noteTaken(bytes: number): void {
    const temporary = `${this.mark}.${process.pid}.tmp`;
    writeFileSync(temporary, String(bytes), { mode: 0o600 });
    renameSync(temporary, this.mark);
  }

  /** What ended or crashed long ago and is in the goal is of no more use. */
  removeIfOver(lines: readonly SpoolLine[], now: number): void {
    const last = lines.at(-1);
    if (!last || now - last.at < KEPT_MS) return;
    rmSync(this.file, { force: true });
    rmSync(this.mark, { force: true });
  }
}

/** Short enough to be typed; letters and digits of the conversation's own name. */
export function sessionName(agent: HookAgent, conversation: string): string {
  const short = conversation.replace(/[^A-Za-z0-9]/g, "").slice(0, 12);
  return `${agent}-${short || "unnamed"}`;
}

function linesIn(text: string): SpoolLine[] {
  return text.split("\n").flatMap((each) => {
    if (each.trim() === "") return [];
    try {
      return [JSON.parse(each) as SpoolLine];
    } catch (error) {
      // Half a line, left by a hook that was killed in the middle of it.
      if (error instanceof SyntaxError) return [];
      throw error;
    }
  });
}
