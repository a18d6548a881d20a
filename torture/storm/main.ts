/**
 * Storms over repo memory: clones of a repository work on one goal and merge each other with the real git, in
 * random order. Every record must survive, no merge may conflict, and all clones must end equal.
 *
 *     npm run storm -- [--seeds 11,21,42] [--clones 5] [--operations 40] [--skew-hours 10]
 *
 * Every second seed runs with skewed clocks; with `--skew-hours`, all of them. Exits with 1 if anything broke.
 * `docs/why/torture.md` explains it.
 */

import { parseArgs } from "node:util";
import { storm } from "../../test/projections/storm.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "11,21,22,24,41,42" },
    clones: { type: "string", default: "5" },
    operations: { type: "string", default: "40" },
    "skew-hours": { type: "string" },
  },
});

/** For every second seed, unless a skew is given for all of them. */
const USUAL_SKEW_HOURS = 10;
const skewHours = values["skew-hours"];
const shape = { clones: Number(values.clones), operations: Number(values.operations) };
let isBroken = false;
for (const [index, seed] of values.seeds.split(",").map(Number).entries()) {
  const usual = index % 2 === 0 ? 0 : USUAL_SKEW_HOURS;
  const skewMs = Number(skewHours ?? usual) * 3_600_000;
  const begun = performance.now();
  const { broken, ...counts } = await storm({ ...shape, seed, skewMs });
  const seconds = Math.round((performance.now() - begun) / 1_000);
  console.log(JSON.stringify({ seed, ...shape, skewMs, ...counts, broken: broken.length, seconds }));
  for (const each of broken.slice(0, 20)) console.log(`  ${each}`);
  isBroken ||= broken.length > 0;
}
process.exitCode = isBroken ? 1 : 0;
