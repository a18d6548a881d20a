/**
 * The part of a hook that reads the store, loaded only at the start of a session. It writes nothing, so that it needs
 * neither schemas nor a lock: a reader of SQLite waits for nobody who writes. What does not come in time is left out of the
 * answer and said so, and the hook goes on.
 */

import { type BriefingOptions, checkFiles, makeBriefing } from "../goal/index.ts";
import { loadStream, Payloads } from "../journal/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { type GoalState, goalFold } from "../model/goal/index.ts";
import { streamName } from "../model/names.ts";
import { openStore } from "../open-store.ts";
import {
  goalRows,
  hasNews,
  knownGoals,
  oneLineError,
  openAndIngestNews,
  type StorePlace,
  sealLine,
  unparsedEdits,
} from "../operations/index.ts";
import type { Store } from "../store.ts";
import { Foreseen } from "./foreseen.ts";
import { chosenGoal, type GoalChoice, goalChoice } from "./goal-choice.ts";
import { foresee } from "./taking-in.ts";

export interface BriefingSide {
  readonly place: StorePlace;
  /** Where hooks leave what they saw. */
  readonly folder: string;
  /** Null for a rehearsal, which records nothing. */
  readonly session: string | null;
  /** No more than an agent takes. */
  readonly characters: number;
  /** For a lock of somebody else. */
  readonly busyMs: number;
  /** For everything, where a server is asked. */
  readonly waitMs: number;
  readonly warn: (error: unknown) => void;
}

const NAMESPACE = "default";
const BRIEFING_TOKENS = 1_500;
/** Looking at recorded files is worth a few of the milliseconds that an agent waits. */
const LOOK = { files: 200, ms: 25 };

/** For the model: who it is, and where the work stands. */
export async function briefed(side: BriefingSide): Promise<string> {
  try {
    return await limited(side.waitMs, "the store", brief(side));
  } catch (error) {
    side.warn(error);
    return "Holdfast keeps the state of this project, but could not be read just now. Try: holdfast brief";
  }
}

async function brief(side: BriefingSide): Promise<string> {
  const { session, place } = side;
  const { store, left } = await withNews(side, await openForALook(side));
  const [found, sealed] = await Promise.all([readCurrentGoal(store, place), sealLine(store, NAMESPACE)]);
  const gone = sealed === null ? "" : `Holdfast: ${sealed}. Ask a person before you work by it.\n`;
  const old = left === null ? "" : `What a pull brought is not in yet: ${left}\n`;
  if (typeof found === "string") return gone + old + found;
  const { state, seq, choose } = found;
  if (session !== null) await picture(side, state, choose);
  const { files } = await checkFiles(place.root, state.files.values(), LOOK);
  const notLookedAt = state.files.size - files.length;
  const who =
    session === null
      ? ""
      : `You are session ${session} of goal ${state.id}: say --by ${session} --role worker --session ${session} to holdfast task claim.\n`;
  const more = notLookedAt === 0 ? "" : `${notLookedAt} recorded files were not looked at: holdfast check\n`;
  const head = gone + who + old + more;
  const notTakenIn = process.env["HOLDFAST_STORE"] ? [] : unparsedEdits(place);
  const told = { files, notTakenIn, ...(session !== null && { session }) };
  return head + fitting(state, seq, told, side.characters - head.length);
}

/**
 * What a pull brought has to be in before anything is said: it is rare, and takes the time that it takes. `left` is why
 * something of it is not.
 */
async function withNews(side: BriefingSide, store: Store): Promise<{ store: Store; left: string | null }> {
  if (process.env["HOLDFAST_STORE"]) return { store, left: null };
  let left: string | null = null;
  const tell = (error: unknown): void => {
    side.warn(error);
    left ??= oneLine(oneLineError(error));
  };
  try {
    if (!(await hasNews(side.place, store))) return { store, left };
  } catch (error) {
    tell(error);
    return { store, left };
  }
  await store.close();
  await openAndIngestNews(side.place, tell).catch(tell);
  return { store: await openForALook(side), left };
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, " ").slice(0, 300);
}

/** A store of an older format cannot be read as it is: opened in the usual way it is brought up to date, this once. */
async function openForALook({ place, busyMs }: BriefingSide): Promise<Store> {
  try {
    return await openStore(place.address, { busyMs, readOnly: true });
  } catch (error) {
    if (!isHoldfastError(error, "STORE_READONLY")) throw error;
    return openStore(place.address, { busyMs });
  }
}

/** A goal, or why there is none to speak of. */
async function readCurrentGoal(
  store: Store,
  place: StorePlace,
): Promise<{ state: GoalState; seq: number; choose: GoalChoice } | string> {
  const rows = await goalRows(store, NAMESPACE);
  const { open, current } = knownGoals(rows, chosenGoal(place));
  if (current !== null) {
    const reader = { store, namespace: NAMESPACE, payloads: new Payloads([]) };
    const { state, head } = await loadStream(reader, goalFold, streamName("goal", current));
    return { state, seq: head.seq, choose: goalChoice(place, rows) };
  }
  if (open.length === 0)
    return 'Holdfast: there is no goal yet. Begin one: holdfast goal new <name> "what is to be reached"';
  return `Holdfast: several goals are open (${open.slice(0, 20).join(", ")}). Choose one for this worktree: holdfast goal use <goal>; then: holdfast brief`;
}

/** What hooks left and cannot be made out is no reason to say nothing of the goal. */
async function picture({ folder, warn }: BriefingSide, state: GoalState, choose: GoalChoice): Promise<void> {
  const now = Date.now();
  try {
    await foresee(new Foreseen(state, now), choose, folder, now, warn);
  } catch (error) {
    warn(error);
  }
}

function fitting(state: GoalState, seq: number, options: BriefingOptions, characters: number): string {
  for (let tokens = BRIEFING_TOKENS; ; tokens = Math.floor(tokens / 1.5)) {
    const { text } = makeBriefing(state, seq, Date.now(), { ...options, tokens: Math.max(200, tokens) });
    if (text.length <= characters || tokens < 200) return text.slice(0, characters);
  }
}

function limited<Value>(waitMs: number, what: string, act: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`${what} took longer than ${waitMs} ms`)), waitMs);
    act.then(resolve, reject).finally(() => clearTimeout(limit));
  });
}
