import type { Holdfast, Session } from "../src/index.ts";
import type { Measure } from "./measure.ts";
import { recordCommits } from "./replay.ts";
import { alternate, lastOf, perItem } from "./rounds.ts";
import { median, rounded } from "./statistics.ts";
import { makeTurns } from "./turns.ts";

const SESSIONS = 64;
/**
 * Rounds that are not counted, on both sides. After recording (which replaces methods) and after closing a
 * file on Node 20 (which collects all garbage) V8 discards compiled code. It compiles it again within 2,000
 * turns.
 */
const WARM_ROUNDS = 40;
const ROUNDS = 120;
const ALL_ROUNDS = WARM_ROUNDS + ROUNDS;

/**
 * The floor collects the rows of all sessions itself and commits them at once; ours has to discover that it
 * can.
 */
export const groupCommitVsRaw: Measure = {
  name: "groupCommitVsRaw",
  what: "64 sessions append at once in one process: turns per second, against raw commits of the same rows",
  bar: 0.7,
  direction: "at least",
  async run(scratch) {
    const turns = makeTurns(SESSIONS * ALL_ROUNDS);
    const part = (round: number) => turns.slice(round * SESSIONS, (round + 1) * SESSIONS);
    const appendAll = async (sessions: readonly Session[], round: number): Promise<void> => {
      const now = part(round);
      await Promise.all(
        sessions.map((session, index) => session.append(now[index]?.messages ?? [], { checkpoint: true })),
      );
    };
    await scratch.warmCode();
    const recorded = await scratch.openOurs();
    const commits = await recordCommits(async () => {
      const sessions = await openSessions(recorded);
      for (let round = 0; round < ALL_ROUNDS; round++) await appendAll(sessions, round);
    });
    const replay = await scratch.openReplay();
    for (const commit of commits.slice(0, -ALL_ROUNDS)) replay.commit(commit);
    const together = commits.slice(-ALL_ROUNDS);
    const sessions = await openSessions(await scratch.openOurs());
    const all = await alternate(
      ALL_ROUNDS,
      (round) => {
        for (const { messages } of part(round)) JSON.stringify(messages);
        replay.commit(together[round] ?? []);
      },
      (round) => appendAll(sessions, round),
    );
    const rounds = lastOf(all, ROUNDS);
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

function openSessions(holdfast: Holdfast): Promise<Session[]> {
  const names = Array.from({ length: SESSIONS }, (_, index) => `session-${index}`);
  return Promise.all(names.map((name) => holdfast.session(name)));
}
