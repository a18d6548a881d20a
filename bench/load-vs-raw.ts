import type { Measure } from "./measure.ts";
import { alternate, cpuRatio, perItem } from "./rounds.ts";
import { TURNS, thousandTurns } from "./thousand-turns.ts";

const ROUNDS = 30;

export const loadVsRaw: Measure = {
  name: "loadVsRaw",
  what: "load the latest version at 1,000 turns, against reading and parsing the raw rows (processor time)",
  bar: 1.5,
  direction: "at most",
  async run(scratch) {
    const { holdfast, session, raw, rawSession } = await thousandTurns(scratch);
    const rounds = await alternate(
      ROUNDS,
      () => raw.read(rawSession, TURNS),
      () => holdfast.sessions.at(session, TURNS),
    );
    return { value: cpuRatio(rounds), numbers: perItem(rounds, 1) };
  },
};
