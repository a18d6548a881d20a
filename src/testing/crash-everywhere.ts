/**
 * Proof for agents. Kills a program at every failpoint that it passes and runs it again until it ends. Then
 * it compares the effects on the world with those of an undisturbed run.
 *
 *     setup ──▶ run to the end, noting failpoints ──▶ effects()             the reference
 *     for each point: setup ──▶ run, killed there ──▶ run until it exits with 0 ──▶ effects() ──▶ compare
 */

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The program to kill, and how to see its effects. */
export interface CrashEverywhereOptions {
  /** The program and its arguments: `["node", "agent.js"]`. It must exit with 0 when its work is done. */
  readonly command: readonly [string, ...string[]];
  /** The effects on the world, such as payments. Equal effects need equal text: no times, no random ids. */
  readonly effects: () => readonly string[] | Promise<readonly string[]>;
  /** Makes a fresh world and a fresh store before every experiment. Example: `() => rmSync("state", …)`. */
  readonly setup?: () => unknown;
  /** More variables for the program: `{ STORE: "state/store.db" }`. */
  readonly env?: Readonly<Record<string, string>>;
  /** The folder that the program runs in. Default: this process's. */
  readonly cwd?: string;
  /** The time limit of one run. Default: 60,000 (60 s). */
  readonly timeoutMs?: number;
  /** The program is stuck if it has not exited with 0 after this many more runs. Default: 5. */
  readonly maxRuns?: number;
  /** Called after each experiment, for a progress display. */
  readonly done?: (experiment: CrashExperiment) => void;
}

/** One kill and its consequences. */
export interface CrashExperiment {
  /** `call.executed:2`: the second time that the program passed there. */
  readonly failpoint: string;
  /** False if the program did not pass this failpoint again, because its runs differ. */
  readonly killed: boolean;
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  /** The program did not exit with 0 within `maxRuns` more runs. */
  readonly stuck: boolean;
}

/** An effect that differs from the undisturbed run, and the failpoint of the kill. */
export interface CrashFinding {
  readonly failpoint: string;
  readonly effect: string;
}

/** The result of all kills. The agent is safe if `lost`, `doubled` and `stuck` are empty. */
export interface CrashReport {
  readonly runs: number;
  readonly kills: number;
  /** Effects of the undisturbed run that are missing after a kill. */
  readonly lost: readonly CrashFinding[];
  /** Effects that happened more often than in the undisturbed run. */
  readonly doubled: readonly CrashFinding[];
  /** Failpoints after which the program no longer finished. */
  readonly stuck: readonly string[];
}

/**
 * Kills your agent with SIGKILL at every failpoint that it passes, and reports lost and doubled effects. A
 * program passes failpoints when it uses Holdfast, or when it calls `failpoint()` itself.
 *
 * @example
 * const report = await crashEverywhere({
 *   command: ["node", "agent.js"],
 *   setup: () => rmSync("state", { recursive: true, force: true }),
 *   effects: () => readFileSync("state/payments.log", "utf8").split("\n").filter(Boolean),
 * });
 * assert.deepEqual(report.lost, []);
 * assert.deepEqual(report.doubled, []);
 * assert.deepEqual(report.stuck, []);
 */
export async function crashEverywhere(options: CrashEverywhereOptions): Promise<CrashReport> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-crash-"));
  try {
    const { points, expected } = await undisturbed(options, join(folder, "failpoints"));
    let runs = 1;
    let kills = 0;
    const experiments: CrashExperiment[] = [];
    for (const point of points) {
      const { experiment, started } = await killAt(options, point, expected);
      runs += started;
      if (experiment.killed) kills++;
      experiments.push(experiment);
      options.done?.(experiment);
    }
    const found = (kind: "lost" | "doubled") =>
      experiments.flatMap((each) => each[kind].map((effect) => ({ failpoint: each.failpoint, effect })));
    const stuck = experiments.filter((each) => each.stuck).map(({ failpoint }) => failpoint);
    return { runs, kills, lost: found("lost"), doubled: found("doubled"), stuck };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function undisturbed(
  options: CrashEverywhereOptions,
  log: string,
): Promise<{ points: string[]; expected: readonly string[] }> {
  await options.setup?.();
  const ended = await start(options, { HOLDFAST_FAILPOINT_LOG: log });
  if (ended.code !== 0) {
    throw new Error(
      `the program fails even without a kill: exit ${ended.code ?? ended.signal}\n${ended.stderr}`,
    );
  }
  const text = await readFile(log, "utf8").catch(() => "");
  const points = text.split("\n").filter(Boolean);
  if (points.length === 0) throw new Error("the program passed no failpoint. Does it use Holdfast?");
  return { points, expected: await options.effects() };
}

async function killAt(
  options: CrashEverywhereOptions,
  failpoint: string,
  expected: readonly string[],
): Promise<{ experiment: CrashExperiment; started: number }> {
  await options.setup?.();
  let ended = await start(options, { HOLDFAST_FAILPOINT: failpoint });
  const killed = ended.signal === "SIGKILL" && !ended.timedOut;
  let started = 1;
  for (; ended.code !== 0 && started <= (options.maxRuns ?? 5); started++) ended = await start(options, {});
  const actual = await options.effects();
  const compared = { lost: surplus(expected, actual), doubled: surplus(actual, expected) };
  return { experiment: { failpoint, killed, ...compared, stuck: ended.code !== 0 }, started };
}

/** The entries that `more` has and `fewer` lacks, counting repetitions: `[a, a]` against `[a]` is `[a]`. */
function surplus(more: readonly string[], fewer: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const each of fewer) counts.set(each, (counts.get(each) ?? 0) + 1);
  return more.filter((each) => {
    const count = counts.get(each) ?? 0;
    counts.set(each, count - 1);
    return count <= 0;
  });
}

type Ended = { code: number | null; signal: NodeJS.Signals | null; stderr: string; timedOut: boolean };

/** Starts the program in a process group of its own, so that its children end with it. */
function start(options: CrashEverywhereOptions, env: Record<string, string>): Promise<Ended> {
  const [command, ...args] = options.command;
  const { HOLDFAST_FAILPOINT: _point, HOLDFAST_FAILPOINT_LOG: _log, ...inherited } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ["ignore", "ignore", "pipe"],
      detached: true,
      env: { ...inherited, ...options.env, ...env },
      ...(options.cwd !== undefined && { cwd: options.cwd }),
    });
    let stderr = "";
    let timedOut = false;
    child.stderr.on("data", (chunk: Buffer) => {
      stderr = `${stderr}${chunk}`.slice(-4_000);
    });
    const limit = setTimeout(() => {
      timedOut = true;
      endGroup(child.pid);
    }, options.timeoutMs ?? 60_000);
    child.on("error", (error) => {
      clearTimeout(limit);
      reject(error);
    });
    child.on("exit", () => endGroup(child.pid));
    child.on("close", (code, signal) => {
      clearTimeout(limit);
      resolve({ code, signal, stderr, timedOut });
    });
  });
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    // The group has already ended.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
