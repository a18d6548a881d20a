/**
 * `holdfast hook <agent> <event>`: the command that coding agents run at their hook points.
 *
 *     tool-start                      spools a call that reaches beyond the project; warns of a claimed file
 *     touched                         spools a line and opens no store: it runs after every tool use
 *     session-start                   spools a line, reads the goal, prints the briefing
 *     subagent-start                  reads the goal, prints the briefing
 *     checkpoint, stop, session-end   spool a line
 *
 * No hook writes to the store. All but the two about tools and sub-agents start a background process that
 * does (`background.ts`).
 *
 * A hook fails open. It always exits with 0 and prints what its agent understands. Errors go to stderr and to
 * `.holdfast/hooks/log.txt`. Paths outside the project are dropped, names reduced to letters and digits.
 */

import {
  appendFileSync,
  existsSync,
  fstatSync,
  mkdirSync,
  readSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join, resolve } from "node:path";
import {
  isFirstToBrief,
  processAbove,
  Spool,
  type SpoolLine,
  sessionName,
  type TouchedFile,
  touchedFile,
} from "../agent-sessions/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { REHEARSAL } from "../model/names.ts";
import type { StorePlace } from "../operations/index.ts";
import {
  chosenGoal,
  findStore,
  isWorkFile,
  locateStore,
  PLANNING,
  pathBelowRoot,
  requireStore,
} from "../operations/index.ts";
import { projectPlace } from "../project-place.ts";
import {
  type AgentEvent,
  HOOK_AGENTS,
  HOOK_EVENTS,
  type HookEvent,
  hookAnswer,
  INGEST,
  MAX_CONTEXT_CHARS,
  readAgentEvent,
} from "./agent-event.ts";
import { savedRules, saveRules, watchedPart } from "./watched-calls.ts";

/** Scale with the time that Node took to start: a busy machine needs longer for everything. */
const LOCK_MS = { min: 30, max: 500, perStart: 0.3 };
const SERVER_MS = { min: 100, max: 1_500, perStart: 1 };
/** Protects against a disk that does not answer. */
const DISK_MS = 1_500;
const INPUT_MS = 1_000;
const MAX_LOG_BYTES = 256 << 10;

/** Our own words only: the folder and its files may have been named to be read by an agent. */
const UNTRUSTED =
  "Holdfast: the store of this project was not opened, because somebody else may have written it. " +
  "There is no briefing. Ask a person to run: holdfast status";

const startupMs = process.uptime() * 1_000;

function waitLimit({ min, max, perStart }: typeof LOCK_MS): number {
  return Math.round(Math.min(max, Math.max(min, perStart * startupMs)));
}

export async function runHook([agentWord, eventWord]: readonly string[]): Promise<void> {
  if (agentWord === INGEST) {
    const { runIngest } = await import("./background.ts");
    await runIngest({
      warn: (home, error) => logError(home, INGEST, error),
      say: (text) => logError(null, INGEST, text),
    });
    process.exit(0);
  }
  const agent = HOOK_AGENTS.find((each) => each === agentWord);
  const event = HOOK_EVENTS.find((each) => each === eventWord);
  let home: string | null = null;
  let context: string | null = null;
  let ingestFrom: string | null = null;
  try {
    const input = await readInput(event);
    if (!agent || !event) throw new Error(`unknown hook "${agentWord ?? ""} ${eventWord ?? ""}"`);
    const about = readAgentEvent(agent, event, input);
    const from = about.cwd ?? process.cwd();
    const { place, whyNoConfig } = await locate(event, from);
    const isProject = existsSync(place.home);
    if (isProject) home = place.home;
    // A project without a store does not use Holdfast. A store that cannot be reached is an error.
    if (place.isUnreadable || place.emptyFile !== null || place.isNamed) requireStore(place);
    if (place.exists && isProject) {
      const isNews = trySpool(about, place);
      if (about.call !== null) await spoolCall(about, place);
      spoolPatch(about, place);
      if (event === "tool-start") context = await warnOfClaims(about, place);
      if (event === "subagent-start") context = await readBriefing(about, place);
      if (about.files.some((file) => file.includes(PLANNING))) await markEdits(about, place);
      if (isNews && about.conversation !== REHEARSAL) ingestFrom = from;
      if (isNews && event === "session-start") context = whyNoConfig ?? (await readBriefing(about, place));
    }
  } catch (error) {
    if (event === "session-start" && isHoldfastError(error, "STORE_UNTRUSTED")) context = UNTRUSTED;
    logError(home ?? homeOfCwd(), `${agentWord ?? ""} ${eventWord ?? ""}`, error);
  }
  // Uses the agent of the command line: Cursor expects the answer of Claude Code from a hook of Claude Code.
  print(hookAnswer(agent ?? "claude", event ?? "stop", context));
  // Starts the process after the answer, so that it takes no CPU time from it.
  if (ingestFrom !== null) spawnIngest(home, ingestFrom);
  process.exit(0);
}

/**
 * Finds the store. Only a briefing needs the configuration file, which may be code that takes long to
 * load. The background process reads it for all other events. A file that is refused costs the briefing, and
 * the lines wait in the spool.
 */
async function locate(event: string, from: string): Promise<{ place: StorePlace; whyNoConfig?: string }> {
  const { configFile } = projectPlace(from);
  if (configFile === null || event === "session-start" || event === "subagent-start") {
    try {
      return { place: await locateStore({}, from) };
    } catch (error) {
      if (configFile === null || !isHoldfastError(error)) throw error;
      const place = findStore(undefined, from);
      logError(existsSync(place.home) ? place.home : null, event, error);
      const whyNoConfig = `Holdfast: no briefing: ${error.message}. For a person: ${error.hint}`;
      return { place: { ...place, ...ANYWHERE }, whyNoConfig };
    }
  }
  return { place: { ...findStore(undefined, from), ...ANYWHERE } };
}

/** The configuration file names the store, so an event is spooled without looking for it. */
const ANYWHERE = { exists: true, isUnreadable: false, emptyFile: null };

function homeOfCwd(): string | null {
  try {
    const { home } = findStore(undefined, process.cwd());
    return existsSync(home) ? home : null;
  } catch {
    // The first error still goes to stderr; it matters more than this one.
    return null;
  }
}

/** A spool that cannot be written (a read-only folder, for example) must not suppress the briefing. */
function trySpool(about: AgentEvent, place: StorePlace): boolean {
  try {
    return spoolLine(about, place);
  } catch (error) {
    logError(place.home, `${about.agent} ${about.event}`, error);
    return about.event === "session-start";
  }
}

function spoolLine(about: AgentEvent, place: StorePlace): boolean {
  const { agent, conversation, event } = about;
  if (conversation === REHEARSAL) return event === "session-start";
  if (event === "tool-start" || event === "subagent-start") return false;
  // Gemini CLI announces a compression before it knows whether there is anything to compress.
  if (agent === "gemini" && event === "checkpoint" && about.source !== "manual") return false;
  const folder = join(place.home, "hooks");
  const name = sessionName(agent, conversation);
  if (event === "session-start" && !isFirstToBrief(folder, name, about.source, Date.now())) return false;
  if (event === "session-start") saveRules(folder, place.config.watch);
  const spool = new Spool(folder, name);
  spool.append(lineOf(about, place));
  if (event === "touched") return false;
  return event !== "stop" || spool.hasUnmergedEvents;
}

/** Records the intent or the outcome of a call that a rule names. All other calls load nothing more. */
async function spoolCall({ agent, conversation, event, call }: AgentEvent, place: StorePlace): Promise<void> {
  if (call === null || conversation === REHEARSAL) return;
  const folder = join(place.home, "hooks");
  const part = watchedPart(call.tool, call.command, savedRules(folder));
  if (part === null || (event === "touched" && call.outcome === null)) return;
  const [{ redactSecrets }, { sha256 }] = await Promise.all([
    import("../model/secrets.ts"),
    import("../model/digest.ts"),
  ]);
  const command = redactSecrets(part.slice(0, MAX_CALL)).slice(0, MAX_COMMAND);
  const origin = { at: Date.now(), root: place.root, call: call.id ?? sha256(Buffer.from(part)), command };
  const spool = new Spool(folder, sessionName(agent, conversation));
  if (event === "tool-start") spool.append({ ...origin, type: "call-started" });
  else spool.append({ ...origin, type: "call-ended", outcome: call.outcome ?? "ended" });
}

const MAX_CALL = 2_000;
const MAX_COMMAND = 200;

/** A warning if the agent is about to edit a file of a task that another live agent has claimed. */
async function warnOfClaims(about: AgentEvent, place: StorePlace): Promise<string | null> {
  const { agent, conversation, files, cwd } = about;
  const folder = join(place.home, "hooks");
  if (files.length === 0 || !existsSync(join(folder, "claims.json"))) return null;
  const { claimWarning } = await import("./claim-warning.ts");
  const paths = files.flatMap((file) => pathBelowRoot(place.root, resolve(cwd ?? place.root, file)) ?? []);
  return claimWarning(folder, sessionName(agent, conversation), paths);
}

async function readBriefing(about: AgentEvent, place: StorePlace): Promise<string> {
  const { agent, conversation, event } = about;
  const { briefSession } = await import("./briefing.ts");
  return briefSession({
    place,
    folder: join(place.home, "hooks"),
    session: conversation === REHEARSAL ? null : sessionName(agent, conversation),
    isSubagent: event === "subagent-start",
    characters: MAX_CONTEXT_CHARS,
    busyMs: waitLimit(LOCK_MS),
    waitMs: isServer(place) ? waitLimit(SERVER_MS) : DISK_MS,
    warn: (error) => logError(place.home, `${agent} ${event}`, error),
  });
}

/** Loaded only for an edit in `.planning/`: this hook runs after every tool use. */
async function markEdits(about: AgentEvent, place: StorePlace): Promise<void> {
  const { markAgentEdits } = await import("./agent-edits.ts");
  await markAgentEdits(about, place);
}

/**
 * Starts `background.ts` in a process of its own, without loading it here: the agent waits for this process.
 * `from` is the folder in which the hook looked for the store; the new process looks from there too.
 */
function spawnIngest(home: string | null, from: string): void {
  try {
    const { spawn } = process.getBuiltinModule("node:child_process");
    const [, program = ""] = process.argv;
    const child = spawn(process.execPath, [...process.execArgv, program, "hook", INGEST], {
      cwd: from,
      detached: true,
      stdio: "ignore",
    });
    // If it cannot start, the lines stay in the spool for the next one.
    child.on("error", () => undefined);
    child.unref();
  } catch (error) {
    logError(home, INGEST, error);
  }
}

function isServer({ address }: StorePlace): boolean {
  return /^postgres(ql)?:/i.test(address ?? "");
}

function lineOf(about: AgentEvent, place: StorePlace): SpoolLine {
  const { root } = place;
  const origin = { at: Date.now(), root };
  const { event, contextUsage, reason, source } = about;
  if (event === "session-start")
    return { ...origin, type: "start", source, process: processAbove(), goal: chosenGoal(place) };
  if (event === "touched") return { ...origin, type: "touched", files: touchedFiles(about, root) };
  if (event === "checkpoint") return { ...origin, type: "checkpoint", contextUsage };
  if (event === "stop-failure") return { ...origin, type: "failed", reason: reason ?? "no reason given" };
  return event === "session-end" ? { ...origin, type: "end", reason } : { ...origin, type: "stop" };
}

/** Files outside the project or above 16 MB are left out. */
function touchedFiles({ files, created, cwd }: AgentEvent, root: string): TouchedFile[] {
  return files.flatMap((file): TouchedFile[] => {
    const path = pathBelowRoot(root, resolve(cwd ?? root, file));
    const found = path === null || !isWorkFile(path) ? null : touchedFile(root, path);
    if (found === null) return [];
    const isNew = found.stamp !== null && created.includes(file);
    return [{ ...found, ...(isNew && { created: true as const }) }];
  });
}

/** Codex applies a patch that its model typed as a shell command itself, and runs no hook after it. */
function spoolPatch(about: AgentEvent, place: StorePlace): void {
  const { agent, conversation, event, call, files } = about;
  const isTyped = agent === "codex" && event === "tool-start" && call !== null && files.length > 0;
  if (!isTyped || conversation === REHEARSAL) return;
  const spool = new Spool(join(place.home, "hooks"), sessionName(agent, conversation));
  const { root } = place;
  spool.append({ at: Date.now(), root, type: "patching", files: touchedFiles(about, root) });
}

/** Reads stdin to its end, or for `INPUT_MS`: an agent may never close it. */
function readInput(event: HookEvent | undefined): Promise<string> {
  const chunks: Buffer[] = [];
  const isEveryTool = event === "touched" || event === "tool-start";
  if (isEveryTool && readBlocking(chunks)) return Promise.resolve(Buffer.concat(chunks).toString("utf8"));
  const { stdin } = process;
  if (stdin.isTTY) return Promise.resolve("");
  return new Promise((done) => {
    const end = (): void => {
      clearTimeout(timer);
      done(Buffer.concat(chunks).toString("utf8"));
    };
    const timer = setTimeout(end, INPUT_MS);
    stdin.on("data", (chunk: Buffer) => chunks.push(chunk));
    stdin.on("end", end);
    stdin.on("error", end);
  });
}

/**
 * Reads an object of JSON from a pipe or a file without Node's streams, which take a tenth of a start to
 * load. Half an object from an agent that never closes stdin blocks until the agent's own timeout. False:
 * the stream has to read the rest.
 */
function readBlocking(chunks: Buffer[]): boolean {
  try {
    if (fstatSync(0).isCharacterDevice()) return false;
    for (;;) {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      const bytes = readSync(0, chunk);
      if (bytes === 0) return true;
      chunks.push(chunk.subarray(0, bytes));
      if (END_OF_OBJECT.has(chunk[bytes - 1]) && isJson(chunks)) return true;
    }
  } catch (error) {
    // EAGAIN: stdin does not block. EOF: the end on Windows.
    return (error as NodeJS.ErrnoException).code === "EOF";
  }
}

const CHUNK_BYTES = 64 << 10;

/** A brace and a new line. */
const END_OF_OBJECT: ReadonlySet<number | undefined> = new Set([0x7d, 0x0a]);

function isJson(chunks: readonly Buffer[]): boolean {
  try {
    JSON.parse(Buffer.concat(chunks).toString());
    return true;
  } catch {
    // The brace was inside of the object: the rest is still to come.
    return false;
  }
}

function print(text: string): void {
  try {
    if (text !== "") writeSync(1, text);
  } catch (error) {
    // The reader closed the pipe, so there is no one to report the failure to.
    if (!["EPIPE", "EAGAIN"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

/** Agents hide the stderr of a hook that exits with 0, so the log file keeps the error for people. */
function logError(home: string | null, what: string, error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  const hint = isHoldfastError(error) ? ` (${error.hint})` : "";
  const line = `holdfast hook ${what}: ${why}${hint}\n`;
  try {
    writeSync(2, line);
    if (home === null) return;
    const folder = join(home, "hooks");
    const log = join(folder, "log.txt");
    // Only this folder is created, not its parents: a project that was removed meanwhile stays removed.
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    const isFull = (statSync(log, { throwIfNoEntry: false })?.size ?? 0) > MAX_LOG_BYTES;
    (isFull ? writeFileSync : appendFileSync)(log, `${new Date().toISOString()} ${line}`, { mode: 0o600 });
  } catch (failure) {
    // A full disk or a closed stderr: logging is the least important part of a hook.
    if (!(failure instanceof Error)) throw failure;
  }
}
