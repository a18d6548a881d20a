/**
 * `holdfast hook <agent> <event>`: what an agent runs at its turning points.
 *
 *     touched                       leaves a line, opens no store: it runs after every tool use
 *     session-start                 leaves a line, takes in what was left, answers with the briefing
 *     checkpoint, stop, session-end leave a line, take in what was left
 *
 * It fails open. Whatever goes wrong, it ends with 0, prints what its agent understands, and says why on stderr and in
 * `.holdfast/hooks/log.txt`. It waits for the store no longer than `STORE_MS` says, and leaves what it could not do to the next
 * hook. Nothing that the agent says is trusted: a path outside the project is left out, a name is cut to letters.
 */

import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { sha256 } from "../model/index.ts";
import { findStore, type StorePlace } from "../operations/index.ts";
import { REHEARSAL } from "../wiring/index.ts";
import { type AgentEvent, HOOK_AGENTS, HOOK_EVENTS, readAgentEvent } from "./agent-event.ts";
import { answer } from "./answers.ts";
import { isFirstToBrief } from "./brief-once.ts";
import { processAbove } from "./process-above.ts";
import { Spool, type SpoolLine, sessionName, type TouchedFile } from "./spool.ts";

/**
 * How long a hook waits for the store: a tenth of a second, or on a busy machine a few times what Node itself took to
 * start, and never longer than any agent's patience.
 */
const STORE_MS = { least: 100, most: 1_500, starts: 3 };
const INPUT_MS = 1_000;
const MOST_HASHED_BYTES = 16 << 20;
const MOST_LOGGED_BYTES = 256 << 10;

function storeMs(): number {
  const { least, most, starts } = STORE_MS;
  return Math.round(Math.min(most, Math.max(least, starts * loadedAfterMs)));
}

/** Since the process began. */
const loadedAfterMs = performance.now();

export async function runHook([agentWord, eventWord]: readonly string[]): Promise<void> {
  const agent = HOOK_AGENTS.find((each) => each === agentWord);
  const event = HOOK_EVENTS.find((each) => each === eventWord);
  let home: string | null = null;
  let said: string | null = null;
  try {
    const input = await readInput();
    if (!agent || !event) throw new Error(`there is no hook ${agentWord ?? ""} ${eventWord ?? ""}`);
    const about = readAgentEvent(agent, event, input);
    const place = findStore(process.env["HOLDFAST_STORE"], about.cwd ?? process.cwd());
    // A project that has no store has no use for us.
    if (place.exists && existsSync(place.home)) {
      home = place.home;
      said = await act(about, place);
    }
  } catch (error) {
    tell(home, `${agentWord ?? ""} ${eventWord ?? ""}`, error);
  }
  // As the agent asked: Cursor that runs a hook of Claude Code expects that one's answer.
  print(answer(agent ?? "claude", event ?? "stop", said));
  // Whatever still waits is left to the next hook.
  process.exit(0);
}

/** What the model is to read, or null. */
async function act(about: AgentEvent, place: StorePlace): Promise<string | null> {
  const folder = join(place.home, "hooks");
  const isRehearsal = about.conversation === REHEARSAL;
  const name = sessionName(about.agent, about.conversation);
  const isStart = about.event === "session-start";
  if (!isRehearsal) {
    if (isStart && !isFirstToBrief(folder, name, about.source, Date.now())) return null;
    Spool.of(folder, about.agent, about.conversation).append(lineOf(about, place.root));
  }
  if (about.event === "touched") return null;
  if (about.event === "stop" && !Spool.of(folder, about.agent, about.conversation).hasUntaken) return null;
  const { briefed, takenIn } = await import("./store-side.ts");
  const side = {
    place,
    folder,
    waitMs: storeMs(),
    warn: (error: unknown) => tell(place.home, `${about.agent} ${about.event}`, error),
  };
  if (isStart) return briefed({ ...side, session: isRehearsal ? null : name });
  if (!isRehearsal) await takenIn(side);
  return null;
}

function lineOf(about: AgentEvent, root: string): SpoolLine {
  const at = Date.now();
  const { event, contextUsage, reason } = about;
  if (event === "session-start") return { at, type: "start", source: about.source, process: processAbove() };
  if (event === "touched") return { at, type: "touched", files: touchedFiles(about, root) };
  if (event === "checkpoint") return { at, type: "checkpoint", contextUsage };
  if (event === "stop-failure") return { at, type: "failed", reason: reason ?? "it did not say why" };
  return event === "session-end" ? { at, type: "end", reason } : { at, type: "stop" };
}

/** As they are on disk now. What is outside, or too large to be read in passing, is left out. */
function touchedFiles({ files, cwd }: AgentEvent, root: string): TouchedFile[] {
  return files.flatMap((file): TouchedFile[] => {
    const full = isAbsolute(file) ? file : resolve(cwd ?? root, file);
    const path = below(root, full);
    if (path === null) return [];
    const stats = statSync(full, { throwIfNoEntry: false });
    if (!stats) return [{ path, hash: null }];
    if (!stats.isFile() || stats.size > MOST_HASHED_BYTES) return [];
    return [{ path, hash: sha256(readFileSync(full)) }];
  });
}

/** Relative to the root, through links too; null for what is not below it, or is our own or git's. */
function below(root: string, full: string): string | null {
  const direct = relative(root, full);
  const path =
    direct.startsWith("..") && existsSync(full) ? relative(realpathSync(root), realpathSync(full)) : direct;
  if (path === "" || path.startsWith("..") || isAbsolute(path)) return null;
  const names = path.split(sep);
  return names[0] === ".git" || names[0] === ".holdfast" ? null : names.join("/");
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
  const line = `holdfast hook ${what}: ${error instanceof Error ? error.message : String(error)}\n`;
  try {
    writeSync(2, line);
    if (home === null) return;
    const folder = join(home, "hooks");
    const log = join(folder, "log.txt");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const isLong = (statSync(log, { throwIfNoEntry: false })?.size ?? 0) > MOST_LOGGED_BYTES;
    (isLong ? writeFileSync : appendFileSync)(log, `${new Date().toISOString()} ${line}`, { mode: 0o600 });
  } catch (failure) {
    // A full disk, a closed stderr: telling is the least of what a hook does.
    if (!(failure instanceof Error)) throw failure;
  }
}
