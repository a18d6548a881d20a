/**
 * A state in a JSON file, and beside it the log of its changes, `<name>.events.jsonl`. Under the lock:
 *
 *     1 read     the file, and the last lines of the log
 *     2 decide   the next state, on the state in the file
 *     3 log      append the states of a person's edit and of this commit, and sync
 *     4 place    rename the new file into place, and sync the folder
 *
 * | the file is | because |
 * |---|---|
 * | as the last line says | this log wrote it last |
 * | as an earlier line says, and older than the last line | of a crash between 3 and 4: the line is undone |
 * | different | a person edited it: refused for five seconds, then logged as the person's line |
 * | there without a log | it is older than its log, which begins with it |
 *
 * A crash within 3 leaves a line without its end, which the next append removes. Every state that the file
 * ever had at a commit is a line, so the past can be read back.
 */

import { constants } from "node:fs";
import { mkdir, open, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";
import { withFileLock } from "./file-lock.ts";
import { layoutJson } from "./json-layout.ts";
import { parseJson, readBounded, UnreadableText } from "./untrusted-text.ts";
import { prepareFile, syncFolder } from "./whole-file.ts";

type JsonObject = Record<string, unknown>;

/** A state that was stored. */
export interface StateChange<State = JsonObject> {
  readonly seq: number;
  readonly at: Date;
  /** `person`: an edit of the file by hand, or by another program. */
  readonly by: "program" | "person";
  /** Null: the file was removed. */
  readonly state: State | null;
}

interface LoggedState {
  readonly seq: number;
  readonly at: string;
  readonly by: StateChange["by"];
  /** SHA-256 of the file with this state, and of the file before it. */
  readonly hash: string | null;
  readonly before: string | null;
  readonly last_human_touch: string | null;
  readonly state: JsonObject | null;
}

export type NextState = (current: JsonObject | null, humanTouch: string | null) => JsonObject;

const FILE_BYTES = 64 * 1024 * 1024;
const LOG_BYTES = 1024 * 1024 * 1024;
const TAIL_BYTES = 64 * 1024;

export class StateFile {
  readonly name: string;
  private readonly log: string;
  private readonly quietMs: number;

  constructor(path: string, quietMs: number) {
    this.name = path;
    this.log = `${path.replace(/\.json$/, "")}.events.jsonl`;
    this.quietMs = quietMs;
  }

  async read(): Promise<JsonObject | null> {
    return (await this.found()).state;
  }

  async change(next: NextState): Promise<void> {
    await mkdir(dirname(this.name), { recursive: true });
    for (;;) if (await this.attempt(next)) return;
  }

  async history(): Promise<StateChange[]> {
    const text = await this.readable(this.log, () => readBounded(this.log, LOG_BYTES));
    return logLines(text ?? "").map(({ seq, at, by, state }) => ({ seq, at: new Date(at), by, state }));
  }

  private attempt(next: NextState): Promise<boolean> {
    return withFileLock(this.name, async (lock) => {
      const found = await this.found();
      const { lines, end } = await this.tail();
      const last = lines.at(-1) ?? null;
      const edit = this.personsEdit(found, lines);
      const touch = edit?.last_human_touch ?? last?.last_human_touch ?? null;
      const state = next(found.state, touch);
      const text = `${layoutJson(state)}\n`;
      const made: LoggedState = {
        seq: (edit?.seq ?? last?.seq ?? 0) + 1,
        at: new Date().toISOString(),
        by: "program",
        hash: sha256(text),
        before: found.hash,
        last_human_touch: touch,
        state,
      };
      const prepared = await prepareFile(this.name, text);
      if (!(await lock.isHeld())) {
        await prepared.discard();
        return false;
      }
      await this.append(edit ? [edit, made] : [made], end);
      await prepared.place();
      await syncFolder(dirname(this.name));
      return true;
    });
  }

  /** The line for a file that no line of the log describes, if it is one. Throws while the edit is fresh. */
  private personsEdit(found: FoundFile, lines: readonly LoggedState[]): LoggedState | null {
    const last = lines.at(-1);
    if (found.hash === (last?.hash ?? null)) return null;
    const isKnown = lines.some(({ hash, before }) => hash === found.hash || before === found.hash);
    if (last && isKnown && found.modifiedMs <= Date.parse(last.at)) return null;
    const remainingMs = this.quietMs - (Date.now() - found.modifiedMs);
    // A time in the future is no evidence.
    if (last && found.hash !== null && remainingMs > 0 && remainingMs <= 2 * this.quietMs)
      throw humanIsEditing(this.name, remainingMs);
    const at = new Date(found.hash === null ? Date.now() : found.modifiedMs).toISOString();
    const { hash, state } = found;
    const before = last?.hash ?? null;
    return { seq: (last?.seq ?? 0) + 1, at, by: "person", hash, before, last_human_touch: at, state };
  }

  private async found(): Promise<FoundFile> {
    const { name } = this;
    const text = await this.readable(name, () => readBounded(name, FILE_BYTES));
    if (text === null) return { state: null, hash: null, modifiedMs: 0 };
    const { mtimeMs } = await stat(name);
    const state = await this.readable(name, async () => parseJson(text), text);
    return { state, hash: sha256(text), modifiedMs: Math.floor(mtimeMs) };
  }

  private async readable<Value>(file: string, act: () => Promise<Value>, text = ""): Promise<Value> {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof UnreadableText)) throw error;
      throw damaged(file, this.log, text, error);
    }
  }

  /** The last whole lines of the log, and where they end. */
  private async tail(): Promise<{ lines: LoggedState[]; end: number }> {
    const file = await open(this.log, "r").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return null;
      throw error;
    });
    if (file === null) return { lines: [], end: 0 };
    try {
      const { size } = await file.stat();
      for (let length = Math.min(size, TAIL_BYTES); ; length = Math.min(size, length * 4)) {
        const bytes = Buffer.alloc(length);
        await file.read(bytes, 0, length, size - length);
        const end = bytes.lastIndexOf("\n") + 1;
        const start = length === size ? 0 : bytes.indexOf("\n") + 1;
        if (end <= start && length < size) continue;
        return { lines: logLines(bytes.toString("utf8", start, end)), end: size - length + end };
      }
    } finally {
      await file.close();
    }
  }

  private async append(lines: readonly LoggedState[], end: number): Promise<void> {
    const file = await open(this.log, constants.O_WRONLY | constants.O_CREAT, 0o644);
    try {
      await file.truncate(end);
      const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      await file.write(bytes, 0, bytes.length, end);
      await file.sync();
    } finally {
      await file.close();
    }
  }
}

interface FoundFile {
  readonly state: JsonObject | null;
  readonly hash: string | null;
  readonly modifiedMs: number;
}

/** A line that cannot be read, such as one that a merge garbled, is left out. */
function logLines(text: string): LoggedState[] {
  return text.split("\n").flatMap((line): LoggedState[] => {
    try {
      const value = parseJson(line) as unknown as LoggedState;
      return Number.isInteger(value.seq) && !Number.isNaN(Date.parse(value.at)) ? [value] : [];
    } catch (error) {
      if (error instanceof UnreadableText) return [];
      throw error;
    }
  });
}

function humanIsEditing(file: string, remainingMs: number): HoldfastError {
  const seconds = Math.max(1, Math.ceil(remainingMs / 1_000));
  return new HoldfastError("HUMAN_EDITING", `${file}: a person edited it a moment ago`, {
    hint: `Nothing was written. Wait ${seconds} s, load it again, and repeat the update.`,
    data: { file, remainingMs },
  });
}

function damaged(file: string, log: string, text: string, cause: UnreadableText): HoldfastError {
  const line = lineOf(text, String((cause.cause as Error | undefined)?.message ?? ""));
  return new HoldfastError("STORE_CORRUPT", `${file}, line ${line}: ${cause.message}`, {
    hint:
      `Nothing was changed. Correct the file, or restore it: git checkout -- ${file}. ` +
      `${log} has every committed state, one in each line.`,
    data: { file, line },
    cause,
  });
}

/** Node names a position or a line, or says that the text ends too early. */
function lineOf(text: string, message: string): number {
  const line = /\bline (\d+)/.exec(message)?.[1];
  if (line !== undefined) return Number(line);
  const position = /position (\d+)/.exec(message)?.[1];
  const before = position === undefined ? text.trimEnd() : text.slice(0, Number(position));
  return before.split("\n").length;
}
