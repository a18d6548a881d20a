import type { Session } from "../src/index.ts";
import type { Measure } from "./measure.ts";
import { alternate, perItem, type Rounds, ratio } from "./rounds.ts";
import type { Scratch } from "./scratch.ts";
import { makeTurns } from "./turns.ts";

export const LONG_TURNS = 2_000;
const TURNS_PER_ROUND = 10;

interface LongRun {
  readonly rounds: Rounds;
  readonly session: Session;
  readonly bytesPerTurn: number;
}

let made: Promise<LongRun> | undefined;

/** A session of 2,000 turns, and how long each round of it took. Made once: other measures go on with it. */
export function longRun(scratch: Scratch): Promise<LongRun> {
  made ??= make(scratch);
  return made;
}

async function make(scratch: Scratch): Promise<LongRun> {
  const turns = makeTurns(LONG_TURNS);
  const raw = await scratch.openRaw();
  const session = await (await scratch.openOurs()).session("long");
  const part = (round: number) => turns.slice(round * TURNS_PER_ROUND, (round + 1) * TURNS_PER_ROUND);
  const rounds = await alternate(
    LONG_TURNS / TURNS_PER_ROUND,
    (round) => {
      for (const [index, { messages }] of part(round).entries()) {
        raw.write(1, round * TURNS_PER_ROUND + index + 1, JSON.stringify(messages));
      }
    },
    async (round) => {
      for (const { messages } of part(round)) await session.append(messages, { checkpoint: true });
    },
  );
  const bytes = turns.reduce((sum, { json }) => sum + Buffer.byteLength(json), 0);
  return { rounds, session, bytesPerTurn: Math.round(bytes / LONG_TURNS) };
}

export const appendVsRaw: Measure = {
  name: "appendVsRaw",
  what: "durable append of a turn with its checkpoint, against one raw commit",
  bar: 1.5,
  direction: "at most",
  async run(scratch) {
    const { rounds, bytesPerTurn } = await longRun(scratch);
    return {
      value: ratio(rounds),
      numbers: { ...perItem(rounds, TURNS_PER_ROUND), turns: LONG_TURNS, bytesPerTurn },
    };
  },
};
