import type { Measure } from "./measure.ts";
import { alternate, perItem } from "./rounds.ts";
import { median, rounded } from "./statistics.ts";
import { makeTurns } from "./turns.ts";

const SESSIONS = 64;
const ROUNDS = 40;

/** The floor gathers the rows of all sessions by itself and commits them at once; ours has to find out that it can. */
export const groupCommitVsRaw: Measure = {
  name: "groupCommitVsRaw",
  what: "64 sessions append at once in one process: turns per second, against raw commits of 64 rows",
  bar: 0.7,
  direction: "at least",
  async run(scratch) {
    const turns = makeTurns(SESSIONS * ROUNDS);
    const raw = await scratch.openRaw();
    const holdfast = await scratch.openOurs();
    const names = Array.from({ length: SESSIONS }, (_, index) => `session-${index}`);
    const sessions = await Promise.all(names.map((name) => holdfast.session(name)));
    const part = (round: number) => turns.slice(round * SESSIONS, (round + 1) * SESSIONS);
    const rounds = await alternate(
      ROUNDS,
      (round) =>
        raw.writeTogether(
          part(round).map(({ messages }, index) => [index + 1, round + 1, JSON.stringify(messages)] as const),
        ),
      async (round) => {
        const [...now] = part(round);
        await Promise.all(
          sessions.map((session, index) => session.append(now[index]?.messages ?? [], { checkpoint: true })),
        );
      },
    );
    const { rawMs, oursMs } = rounds;
    return {
      value: rounded(median(rawMs) / median(oursMs)),
      numbers: {
        rawPerSecond: Math.round((1000 * SESSIONS) / median(rawMs)),
        oursPerSecond: Math.round((1000 * SESSIONS) / median(oursMs)),
        ...perItem(rounds, SESSIONS),
      },
    };
  },
};
