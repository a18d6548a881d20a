/**
 * `holdfast hook <agent> <event>`: what an agent runs at its turning points.
 *
 *     touched                       leaves a line, opens no store: it runs after every tool use
 *     session-start                 leaves a line, reads the goal, answers with the briefing
 *     checkpoint, stop, session-end leave a line
 *
 * No hook writes to the store. All but the first start a process that nobody waits for, which takes in what was left
 * (`background.ts`).
 *
 * It fails open. Whatever goes wrong, it ends with 0, prints what its agent understands, and says why on stderr and in
 * `.holdfast/hooks/log.txt`. It waits for the store no longer than `LOCK_MS` and `SERVER_MS` say. Nothing that the agent
 * says is trusted: a path outside the project is left out, a name is cut to letters.
 */

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { isAbsolute, join, resolve } from "node:path";
import { sha256 } from "../model/digest.ts";
import { isHoldfastError } from "../model/errors.ts";
import { belowRoot, findStore, isWork, refuseMissing, type StorePlace } from "../operations/index.ts";
import { REHEARSAL, withTypedCommands } from "../wiring/index.ts";
import { type AgentEvent, HOOK_AGENTS, HOOK_EVENTS, readAgentEvent, TAKE_IN } from "./agent-event.ts";
import { answer, MOST_CHARACTERS } from "./answers.ts";
import { isFirstToBrief } from "./brief-once.ts";
import { chosenGoal } from "./goal-choice.ts";
import { processAbove } from "./process-above.ts";
import { Spool, type SpoolLine, sessionName, type TouchedFile } from "./spool.ts";

/**
 * How long a hook waits: for a lock of another process, and for a server to answer. On a busy machine as long as a part
 * of what Node itself took to start, and never longer than any agent's patience.
 */
const LOCK_MS = { least: 30, most: 500, starts: 0.3 };
const SERVER_MS = { least: 100, most: 1_500, starts: 1 };
/** Reading a file takes as long as it takes; this is for a disk that does not answer. */
const FILE_MS = 1_500;
const INPUT_MS = 1_000;
const MOST_HASHED_BYTES = 16 << 20;
const MOST_LOGGED_BYTES = 256 << 10;

function within({ least, most, starts }: typeof LOCK_MS): number {
  return Math.round(Math.min(most, Math.max(least, starts * loadedAfterMs)));
}

/** Since the process began. */
const loadedAfterMs = process.uptime() * 1_000;

export async function runHook([agentWord, eventWord]: readonly string[]): Promise<void> {
  if (agentWord === TAKE_IN) {
    const { runTakingIn } = await import("./background.ts");
    await runTakingIn({
      warn: (at, error) => tell(at, TAKE_IN, error),
      say: (text) => tell(null, TAKE_IN, text),
    });
    process.exit(0);
  }
  const agent = HOOK_AGENTS.find((each) => each === agentWord);
  const event = HOOK_EVENTS.find((each) => each === eventWord);
  let home: string | null = null;
  let said: string | null = null;
  let takeInFrom: string | null = null;
  try {
    const input = await readInput();
    if (!agent || !event) throw new Error(`there is no hook ${agentWord ?? ""} ${eventWord ?? ""}`);
    const about = readAgentEvent(agent, event, input);
    const from = about.cwd ?? process.cwd();
    const place = findStore(process.env["HOLDFAST_STORE"], from);
    const isProject = existsSync(place.home);
    if (isProject) home = place.home;
    // A project that has no store has no use for us; one whose store we cannot reach has, and nobody else would tell.
    if (place.isKeptOut || place.emptied !== null || process.env["HOLDFAST_STORE"]) refuseMissing(place);
    if (place.exists && isProject) {
      const isNews = leftLine(about, place);
      if (isNews && about.conversation !== REHEARSAL) takeInFrom = from;
      if (isNews && event === "session-start") said = await readBriefing(about, place);
    }
  } catch (error) {
    tell(home ?? homeAround(), `${agentWord ?? ""} ${eventWord ?? ""}`, error);
  }
  // As the agent asked: Cursor that runs a hook of Claude Code expects that one's answer.
  print(answer(agent ?? "claude", event ?? "stop", said));
  // Last, so that it takes no share of the machine from the answer.
  if (takeInFrom !== null) await takeInLater(home, takeInFrom);
  process.exit(0);
}

/** For what went wrong before the agent's own folder was known. */
function homeAround(): string | null {
  try {
    const { home } = findStore(undefined, process.cwd());
    return existsSync(home) ? home : null;
  } catch {
    // Then it is told on stderr alone; what it was about matters more than why there is no log.
    return null;
  }
}

/** A line that cannot be left, as in a folder that cannot be written, is no reason to say nothing of the goal. */
function leftLine(about: AgentEvent, place: StorePlace): boolean {
  try {
    return leaveLine(about, place);
  } catch (error) {
    tell(place.home, `${about.agent} ${about.event}`, error);
    return about.event === "session-start";
  }
}

/** Whether that is something to act on. */
function leaveLine(about: AgentEvent, place: StorePlace): boolean {
  const { agent, conversation, event } = about;
  if (conversation === REHEARSAL) return event === "session-start";
  const folder = join(place.home, "hooks");
  const name = sessionName(agent, conversation);
  if (event === "session-start" && !isFirstToBrief(folder, name, about.source, Date.now())) return false;
  const spool = new Spool(folder, name);
  spool.append(lineOf(about, place));
  if (event === "touched") return false;
  return event !== "stop" || spool.hasNews;
}

/** What the model is to read. */
async function readBriefing(about: AgentEvent, place: StorePlace): Promise<string> {
  const { agent, conversation, event } = about;
  const { briefed } = await import("./briefing-side.ts");
  const text = await briefed({
    place,
    folder: join(place.home, "hooks"),
    session: conversation === REHEARSAL ? null : sessionName(agent, conversation),
    characters: MOST_CHARACTERS,
    busyMs: within(LOCK_MS),
    waitMs: isServer(place) ? within(SERVER_MS) : FILE_MS,
    warn: (error) => tell(place.home, `${agent} ${event}`, error),
  });
  const pasted = withTypedCommands(text);
  return pasted.length <= MOST_CHARACTERS ? pasted : text;
}

async function takeInLater(home: string | null, from: string): Promise<void> {
  try {
    const { startTakingIn } = await import("./background.ts");
    startTakingIn(TAKE_IN, from);
  } catch (error) {
    tell(home, TAKE_IN, error);
  }
}

function isServer({ address }: StorePlace): boolean {
  return /^postgres(ql)?:/i.test(address ?? "");
}

function lineOf(about: AgentEvent, place: StorePlace): SpoolLine {
  const { root } = place;
  const said = { at: Date.now(), root };
  const { event, contextUsage, reason, source } = about;
  if (event === "session-start")
    return { ...said, type: "start", source, process: processAbove(), goal: chosenGoal(place) };
  if (event === "touched") return { ...said, type: "touched", files: touchedFiles(about, root) };
  if (event === "checkpoint") return { ...said, type: "checkpoint", contextUsage };
  if (event === "stop-failure") return { ...said, type: "failed", reason: reason ?? "it did not say why" };
  return event === "session-end" ? { ...said, type: "end", reason } : { ...said, type: "stop" };
}

/** As they are on disk now. What is outside, or too large to be read in passing, is left out. */
function touchedFiles({ files, cwd }: AgentEvent, root: string): TouchedFile[] {
  return files.flatMap((file): TouchedFile[] => {
    const full = isAbsolute(file) ? file : resolve(cwd ?? root, file);
    const path = belowRoot(root, full);
    if (path === null || !isWork(path)) return [];
    const stats = statSync(full, { throwIfNoEntry: false });
    if (!stats) return [{ path, hash: null }];
    if (!stats.isFile() || stats.size > MOST_HASHED_BYTES) return [];
    return [{ path, hash: sha256(readFileSync(full)) }];
  });
}

/** All that the agent wrote, or what came in time: one that never closes its end must not keep us. */
function readInput(): Promise<string> {
  const { stdin } = process;
  if (stdin.isTTY) return Promise.resolve("");
  return new Promise((done) => {
    const chunks: Buffer[] = [];
    const end = (): void => {
      clearTimeout(limit);
      done(Buffer.concat(chunks).toString("utf8"));
    };
    const limit = setTimeout(end, INPUT_MS);
    stdin.on("data", (chunk: Buffer) => chunks.push(chunk));
    stdin.on("end", end);
    stdin.on("error", end);
  });
}

function print(text: string): void {
  try {
    if (text !== "") writeSync(1, text);
  } catch (error) {
    // Whoever asked has gone; there is nobody left to fail for.
    if (!["EPIPE", "EAGAIN"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}

/** For people: an agent shows nobody what a hook says when it ends with 0, so it is also kept. */
function tell(home: string | null, what: string, error: unknown): void {
  const why = error instanceof Error ? error.message : String(error);
  const hint = isHoldfastError(error) ? ` (${error.hint})` : "";
  const line = `holdfast hook ${what}: ${why}${hint}\n`;
  try {
    writeSync(2, line);
    if (home === null) return;
    const folder = join(home, "hooks");
    const log = join(folder, "log.txt");
    // Not what is above it: a project that was removed meanwhile stays removed.
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    const isLong = (statSync(log, { throwIfNoEntry: false })?.size ?? 0) > MOST_LOGGED_BYTES;
    (isLong ? writeFileSync : appendFileSync)(log, `${new Date().toISOString()} ${line}`, { mode: 0o600 });
  } catch (failure) {
    // A full disk, a closed stderr: telling is the least of what a hook does.
    if (!(failure instanceof Error)) throw failure;
  }
}
