/**
 * The file that an export writes: under another name until all of it is on the disk, then renamed, and the folder synced.
 * When something fails nothing is left of it. What turns out to be damaged is taken out again: back to a mark before it.
 */

import { createHash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { HoldfastError } from "../../model/errors.ts";
import type { Line } from "./lines.ts";

/** Appending: after a part was taken out, the next write goes to the new end. */
const ANEW = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_APPEND;

/** How far a file had come. */
export interface Mark {
  readonly bytes: number;
  readonly sum: ReturnType<typeof createHash>;
}

/** So much is kept in memory before it is written. */
const AT_ONCE = 1024 * 1024;

export class WrittenFile {
  private readonly file: string;
  private readonly handle: FileHandle;
  private sum = createHash("sha256");
  /** All that was added, also what waits. */
  private bytes = 0;
  private waiting: Buffer[] = [];
  private waitingBytes = 0;

  private constructor(file: string, handle: FileHandle) {
    this.file = file;
    this.handle = handle;
  }

  static async begin(file: string): Promise<WrittenFile> {
    if (existsSync(file)) {
      throw new HoldfastError("STREAM_EXISTS", `${file} is there already`, {
        hint: "Name a file that does not exist yet, or move that one away.",
        data: { file },
      });
    }
    const handle = await onDisk(file, () => open(partOf(file), ANEW, 0o600));
    return new WrittenFile(file, handle);
  }

  async add(line: Line): Promise<void> {
    const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
    this.sum.update(bytes);
    await this.put(bytes);
  }

  mark(): Mark {
    return { bytes: this.bytes, sum: this.sum.copy() };
  }

  /** Takes out what was added since, once. */
  async backTo({ bytes, sum }: Mark): Promise<void> {
    await this.flush();
    await onDisk(this.file, () => this.handle.truncate(bytes));
    this.bytes = bytes;
    this.sum = sum;
  }

  /** The last line, after which the file has its name. */
  async end(counts: { streams: number; writes: number }): Promise<void> {
    const end = { ...counts, sha256: this.sum.digest("hex") };
    await this.put(Buffer.from(`${JSON.stringify({ end })}\n`));
    await this.flush();
    await onDisk(this.file, async () => {
      await this.handle.sync();
      await this.handle.close();
      await rename(partOf(this.file), this.file);
      await syncFolder(dirname(this.file));
    });
  }

  async discard(): Promise<void> {
    // Why it is given up is told already; a disk that refused to write may also refuse to close.
    await this.handle.close().catch(() => undefined);
    await rm(partOf(this.file), { force: true });
  }

  private async put(bytes: Buffer): Promise<void> {
    this.waiting.push(bytes);
    this.waitingBytes += bytes.length;
    this.bytes += bytes.length;
    if (this.waitingBytes >= AT_ONCE) await this.flush();
  }

  private async flush(): Promise<void> {
    const bytes = Buffer.concat(this.waiting);
    this.waiting = [];
    this.waitingBytes = 0;
    // Writes until all of it is written: a disk that fills up takes a part and refuses only the next.
    await onDisk(this.file, () => this.handle.appendFile(bytes));
  }
}

function partOf(file: string): string {
  return `${file}.part`;
}

async function syncFolder(folder: string): Promise<void> {
  if (process.platform === "win32") return;
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function onDisk<Result>(file: string, act: () => Promise<Result>): Promise<Result> {
  try {
    return await act();
  } catch (error) {
    throw unwritable(file, error);
  }
}

const FULL = ["ENOSPC", "EDQUOT", "EFBIG"];

function unwritable(file: string, cause: unknown): HoldfastError {
  const { code = "" } = cause as NodeJS.ErrnoException;
  const folder = dirname(file);
  if (code === "ENOENT") {
    const what = `${file} cannot be written: there is no folder ${folder}`;
    const hint = "Make the folder first, or name a file in one that is there.";
    return new HoldfastError("INPUT_INVALID", what, { hint, cause, data: { file } });
  }
  const hint = FULL.includes(code)
    ? "There is no room for it, and nothing of it was left behind. Make room, or name a file on another disk."
    : "Check that every part of the path but the last is a folder that you may write to, and the space on the disk.";
  return new HoldfastError("STORE_IO", `${file} cannot be written (${code})`, {
    hint,
    cause,
    data: { file },
  });
}
