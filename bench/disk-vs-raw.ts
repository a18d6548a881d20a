import type { Measure } from "./measure.ts";
import { rounded } from "./statistics.ts";
import { TURNS, thousandTurns } from "./thousand-turns.ts";

export const diskVsRaw: Measure = {
  name: "diskVsRaw",
  what: "file of 1,000 turns, a checkpoint each, after a WAL checkpoint, against the raw file",
  bar: 1.3,
  direction: "at most",
  async run(scratch) {
    const { oursBytes, rawBytes } = await thousandTurns(scratch);
    return { value: rounded(oursBytes / rawBytes), numbers: { oursBytes, rawBytes, turns: TURNS } };
  },
};
