import type { Session } from "../src/index.ts";
import type { Measure } from "./measure.ts";
import { type Commit, recordCommits } from "./replay.ts";
import { alternate, perItem, type Rounds, ratio } from "./rounds.ts";
import type { Scratch } from "./scratch.ts";
import { makeTurns, type Turn } from "./turns.ts";

export const LONG_TURNS = 2_000;

interface LongRun {
  readonly rounds: Rounds;
  readonly session: Session;
  readonly bytesPerTurn: number;
}

let made: Promise<LongRun> | undefined;

/** A session of 2,000 turns, and how long each round of it took. Made once and shared with other measures. */
export function longRun(scratch: Scratch): Promise<LongRun> {
  made ??= make(scratch);
  return made;
}

async function make(scratch: Scratch): Promise<LongRun> {
  const turns = makeTurns(LONG_TURNS);
  const commits = await recordAppends(scratch, turns);
  const replay = await scratch.openReplay();
  for (const commit of commits.slice(0, -LONG_TURNS)) replay.commit(commit);
  const appends = commits.slice(-LONG_TURNS);
  const session = await (await scratch.openOurs()).session("long");
  const messagesOf = (round: number) => turns[round]?.messages ?? [];
  await scratch.warmCode();
  const rounds = await alternate(
    LONG_TURNS,
    (round) => {
      JSON.stringify(messagesOf(round));
      replay.commit(appends[round] ?? []);
    },
    (round) => session.append(messagesOf(round), { checkpoint: true }),
  );
  const bytes = turns.reduce((sum, { json }) => sum + Buffer.byteLength(json), 0);
  return { rounds, session, bytesPerTurn: Math.round(bytes / LONG_TURNS) };
}

/** The last commits are the appends, one each. */
async function recordAppends(scratch: Scratch, turns: readonly Turn[]): Promise<Commit[]> {
  const holdfast = await scratch.openOurs();
  let before = 0;
  const commits = await recordCommits(async (soFar) => {
    const session = await holdfast.session("long");
    before = soFar();
    for (const { messages } of turns) await session.append(messages, { checkpoint: true });
  });
  if (commits.length !== before + turns.length) throw new Error("an append is not one commit");
  return commits;
}

export const appendVsRaw: Measure = {
  name: "appendVsRaw",
  what: "durable append of a turn with its checkpoint, against one raw commit of the same rows",
  bar: 1.5,
  direction: "at most",
  async run(scratch) {
    const { rounds, bytesPerTurn } = await longRun(scratch);
    return {
      value: ratio(rounds),
      numbers: { ...perItem(rounds, 1), turns: LONG_TURNS, bytesPerTurn },
    };
  },
};
