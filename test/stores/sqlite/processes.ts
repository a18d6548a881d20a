import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { programFile } from "../../program.ts";

/** Another process that runs a script of this folder and reports in lines of JSON. */
export class Companion {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: AsyncIterator<string>;

  /** `wrapper`: a command that the process runs under, such as strace with its options. */
  constructor(script: string, args: readonly string[], wrapper: readonly string[] = []) {
    const file = programFile(new URL(script, import.meta.url));
    const command = [...wrapper, process.execPath, file, ...args];
    this.#child = spawn(command[0] as string, command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** The next line; undefined after the last. */
  async hear(): Promise<Record<string, unknown> | undefined> {
    const { value, done } = await this.#lines.next();
    return done ? undefined : JSON.parse(value);
  }

  async hearAll(): Promise<Record<string, unknown>[]> {
    const all: Record<string, unknown>[] = [];
    for (let said = await this.hear(); said; said = await this.hear()) all.push(said);
    return all;
  }

  /** Lets it continue. */
  nudge(): void {
    this.#child.stdin.write("\n");
  }

  async ended(): Promise<number | null> {
    this.#child.stdin.end();
    if (this.#child.exitCode === null && this.#child.signalCode === null) await once(this.#child, "exit");
    return this.#child.exitCode;
  }
}

export function works(command: string, ...args: string[]): boolean {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

export const hasStrace = process.platform === "linux" && works("strace", "-qq", "-o", "/dev/null", "true");
export const hasShell = works("sqlite3", "--version");

/** Mounting needs root and a kernel that lets this container do it. */
export const canMount =
  process.platform === "linux" && process.getuid?.() === 0 && works("unshare", "-m", "true");

const BIND = "mount --bind /dev/null /proc/uptime";
export const canMountOnProc = canMount && works("unshare", "-m", "sh", "-c", BIND);

/** Runs a command in a time namespace of its own, with a longer uptime. */
export const IN_OTHER_TIME = ["unshare", "-T", "--boottime", "100000", "--fork"] as const;
export const canLeaveTime = process.platform === "linux" && works(...IN_OTHER_TIME, "true");

/** A name for `test.skipIf`, so that a skipped test says why. */
export function needs(name: string, what: string, isThere: boolean): string {
  return isThere ? name : `${name} (skipped: ${what} is not to be had here)`;
}
