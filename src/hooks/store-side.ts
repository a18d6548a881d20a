/**
 * The part of a hook that needs the store: loaded only then. Each step has its share of the time; what does not come in
 * time is left out of the answer and said so, and the hook goes on.
 */

import {
  type Briefing,
  checkFiles,
  type FileCheck,
  type Goal,
  makeBriefing,
  openGoal,
} from "../goal/index.ts";
import { Journal } from "../journal/index.ts";
import { openStore } from "../open-store.ts";
import { currentGoal, knownGoals, type StorePlace } from "../operations/index.ts";
import { MOST_CHARACTERS } from "./answers.ts";
import { takeIn } from "./taking-in.ts";

export interface StoreSide {
  readonly place: StorePlace;
  /** Where hooks leave what they saw. */
  readonly folder: string;
  readonly waitMs: number;
  readonly warn: (error: unknown) => void;
}

const BRIEFING_TOKENS = 1_500;

export async function takenIn(side: StoreSide): Promise<void> {
  const goal = await limited(side.waitMs, "the store", openCurrentGoal(side));
  if (typeof goal === "string") return;
  await inTime(side, "taking in what was left", takeIn(goal, side.folder, Date.now()));
}

/** For the model: who it is, and where the work stands. `session` is null for a rehearsal, which records nothing. */
export async function briefed(side: StoreSide & { readonly session: string | null }): Promise<string> {
  const { session } = side;
  let goal: Goal | string;
  try {
    goal = await limited(side.waitMs, "the store", openCurrentGoal(side));
  } catch (error) {
    side.warn(error);
    return `Holdfast keeps the state of this project, but could not be read just now. Try: holdfast brief`;
  }
  if (typeof goal === "string") return goal;
  if (session !== null) await inTime(side, "taking in what was left", takeIn(goal, side.folder, Date.now()));
  const checking = checkFiles(side.place.root, [...goal.state.files.values()].slice(-200));
  const report = await inTime(side, "looking at the recorded files", checking);
  const who =
    session === null
      ? ""
      : `You are session ${session} of goal ${goal.id}: say --by ${session} --role worker --session ${session} to holdfast task claim.\n`;
  return who + fitting(goal, report?.files ?? [], MOST_CHARACTERS - who.length);
}

/** A goal, or why there is none to speak of. Without everything that sessions and calls need, which a hook does not. */
async function openCurrentGoal(side: StoreSide): Promise<Goal | string> {
  const { place } = side;
  const store = await openStore(place.address, { busyMs: side.waitMs });
  const journal = new Journal({ store, warn: side.warn });
  const { rows } = await journal.list<"streams">({ of: "streams", kind: "goal", limit: 500 });
  const { open, current } = knownGoals(rows, process.env["HOLDFAST_GOAL"] || currentGoal(place));
  const by = { name: "holdfast", role: "supervisor" } as const;
  if (current !== null) return openGoal(journal, current, { by, root: place.root, stale: "use" });
  if (open.length === 0)
    return 'Holdfast: there is no goal yet. Begin one: holdfast goal new <name> "what is to be reached"';
  return `Holdfast: several goals are open (${open.slice(0, 20).join(", ")}). Choose one for this worktree: holdfast goal use <goal>; then: holdfast brief`;
}

function fitting(goal: Goal, files: readonly FileCheck[], characters: number): string {
  for (let tokens = BRIEFING_TOKENS; ; tokens = Math.floor(tokens / 1.5)) {
    const { text }: Briefing = makeBriefing(goal.state, goal.seq, Date.now(), {
      tokens: Math.max(200, tokens),
      files,
    });
    if (text.length <= characters || tokens < 200) return text.slice(0, characters);
  }
}

/** The value, or null after a warning: the hook has more to do than this. */
async function inTime<Value>(side: StoreSide, what: string, act: Promise<Value>): Promise<Value | null> {
  try {
    return await limited(side.waitMs, what, act);
  } catch (error) {
    side.warn(error);
    return null;
  }
}

function limited<Value>(waitMs: number, what: string, act: Promise<Value>): Promise<Value> {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`${what} took longer than ${waitMs} ms`)), waitMs);
    act.then(resolve, reject).finally(() => clearTimeout(limit));
  });
}
