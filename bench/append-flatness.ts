import { LONG_TURNS, longRun } from "./append-vs-raw.ts";
import type { Measure } from "./measure.ts";
import { alternate, ratio } from "./rounds.ts";
import { median, rounded } from "./statistics.ts";
import { makeTurns } from "./turns.ts";

const SHORT_TURNS = 100;
const ROUNDS = 300;

/**
 * Two sessions, each in a file of its own, continue by turns: one from turn 100, one from turn 2,000.
 * Comparing the start of one run with its end would compare two moments of the machine.
 */
export const appendFlatness: Measure = {
  name: "appendFlatness",
  what: "durable append at turn 2,000, against turn 100",
  bar: 1.2,
  direction: "at most",
  async run(scratch) {
    const { session: long } = await longRun(scratch);
    const holdfast = await scratch.openOurs();
    await scratch.warmUp(holdfast);
    const short = await holdfast.session("short");
    for (const { messages } of makeTurns(SHORT_TURNS)) await short.append(messages, { checkpoint: true });
    const later = makeTurns(ROUNDS, LONG_TURNS + 1);
    const goOn = (session: typeof short) => (round: number) =>
      session.append(later[round]?.messages ?? [], { checkpoint: true });
    const rounds = await alternate(ROUNDS, goOn(short), goOn(long));
    return {
      value: ratio(rounds),
      numbers: {
        atTurn100Ms: rounded(median(rounds.rawMs), 4),
        atTurn2000Ms: rounded(median(rounds.oursMs), 4),
        rounds: ROUNDS,
      },
    };
  },
};
