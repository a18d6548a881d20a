/**
 * `npm run torture`: kills, breaks, stops and cuts an agent everywhere, and compares the ledger with the
 * world.
 *
 *     --share 0.1        every tenth case (default 1)
 *     --only zombies     some families: failpoints recovery systemCalls ioErrors zombies resumers person
 *                        plants powerCut
 *     --store files      a folder of files instead of a SQLite file
 *     --images 6000      how many images the power cut opens
 *     --jobs 3           cases at once
 *     --write            puts the tables into docs/why/torture.md
 */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { bundle } from "./bundle.ts";
import { hasStrace } from "./cases/system-calls.ts";
import { FAMILIES, type Family, type Job, type Outcome, PLANS } from "./families.ts";
import { DURABILITY_PLANTS, FILES_DURABILITY_PLANTS, foundBy, PLANTS } from "./planted-bugs.ts";
import {
  cutEverywhere,
  type PowerCutOptions,
  type PowerCutResult,
  traceWriter,
} from "./power-cut/power-cut.ts";
import { Report, summary } from "./report.ts";
import { chooseStore, chosenStore } from "./store-under-test.ts";
import { Workshop } from "./workshop.ts";

/** The records of last writes that its stores leave go with them. */
const state = mkdtempSync(join(tmpdir(), "holdfast-torture-state-"));
process.env["XDG_STATE_HOME"] = state;
process.once("exit", () => rmSync(state, { recursive: true, force: true }));

const NEED_STRACE: readonly string[] = ["systemCalls", "ioErrors", "powerCut"];
const TRIES = 3;

const { values } = parseArgs({
  options: {
    share: { type: "string", default: "1" },
    only: { type: "string", multiple: true },
    store: { type: "string", default: "sqlite" },
    images: { type: "string", default: "6000" },
    jobs: { type: "string", default: "3" },
    write: { type: "boolean", default: false },
  },
});
chooseStore(values.store);
const strace = hasStrace();
const wanted = (family: string): boolean => {
  if (values.only && !values.only.includes(family)) return false;
  return strace || !NEED_STRACE.includes(family);
};

/** Runs a few at a time, from a slow source. */
async function inParallel<Item>(
  items: AsyncIterator<Item>,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  let asking: Promise<IteratorResult<Item>> = Promise.resolve({ done: false, value: undefined as never });
  const next = (): Promise<IteratorResult<Item>> => {
    asking = asking.then(() => items.next());
    return asking;
  };
  const worker = async (): Promise<void> => {
    for (let item = await next(); !item.done; item = await next()) await work(item.value);
  };
  await Promise.all(Array.from({ length: Number(values.jobs) }, worker));
}

/** Retries, because a fault that depends on timing may miss. A fault that never fires is not counted. */
async function untilFired(job: Job): Promise<Outcome> {
  let outcome: Outcome = { fired: false, violations: [] };
  for (let tries = 0; tries < TRIES && !outcome.fired; tries++) outcome = await job.run();
  return outcome;
}

async function runFamily(workshop: Workshop, report: Report, family: Family): Promise<void> {
  const begun = performance.now();
  let count = 0;
  await inParallel(PLANS[family](workshop, Number(values.share)), async (job) => {
    const outcome = await untilFired(job);
    report.add({ job, outcome });
    count++;
    for (const { invariant, what } of outcome.violations) {
      console.log(`  ${invariant} ${job.scenario} · ${job.fault}: ${what}`);
    }
    if (!outcome.fired) console.log(`  did not fire: ${job.scenario} · ${job.fault}`);
  });
  console.log(`${FAMILIES[family]}: ${count} cases, ${seconds(begun)}`);
}

async function runPlants(workshop: Workshop, report: Report): Promise<void> {
  const begun = performance.now();
  const { name: store } = chosenStore();
  const plants = PLANTS.filter((plant) => {
    return (strace || !plant.needsStrace) && (plant.store ?? store) === store;
  });
  await inParallel(each(plants), async (plant) => {
    const result = await plant.run(workshop);
    report.plants.push({ name: plant.name, under: plant.under, ...foundBy(plant, result) });
  });
  const durabilityPlants = store === "files" ? FILES_DURABILITY_PLANTS : DURABILITY_PLANTS;
  if (strace) {
    for (const [name, mutations] of Object.entries(durabilityPlants)) {
      const result = await cut(workshop, { seed: 1, randoms: 4, limit: 2_000, untilFound: true }, mutations);
      const found = result.violations.length > 0;
      report.plants.push({
        name,
        under: `power cut, image ${result.images}`,
        found,
        by: found ? "I2" : "nothing",
      });
    }
  }
  const found = report.plants.filter((plant) => plant.found).length;
  console.log(`planted bugs: ${found} of ${report.plants.length} found, ${seconds(begun)}`);
}

async function* each<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  yield* items;
}

function cut(
  workshop: Workshop,
  options: PowerCutOptions,
  mutations: Parameters<typeof bundle>[1] = [],
): Promise<PowerCutResult> {
  return workshop.within(async (folder) => {
    const [made, root, scratch] = ["bundle", "root", "images"].map((name) => join(folder, name)) as [
      string,
      string,
      string,
    ];
    for (const each of [made, root, scratch]) mkdirSync(each);
    const writer = mutations.length > 0 ? await bundle(made, mutations, ["writer"]) : workshop.bundle;
    const steps = await traceWriter(writer, root, { rounds: 3, payloadBytes: 6_000 });
    return cutEverywhere(steps, { root, scratch, bundle: workshop.bundle }, options);
  });
}

async function runPowerCut(workshop: Workshop, report: Report): Promise<void> {
  const begun = performance.now();
  const result = await cut(workshop, { seed: 20, randoms: 18, limit: Number(values.images) });
  report.powerCuts.push(result);
  console.log(`power cut: ${result.images} images at ${result.points} points, ${seconds(begun)}`);
}

const seconds = (begun: number): string => `${((performance.now() - begun) / 1_000).toFixed(0)} s`;

/** Everything below the mark is from the last run. */
function writeDocs(text: string): void {
  const file = "docs/why/torture.md";
  const mark = "<!-- the last full run -->";
  const [before] = readFileSync(file, "utf8").split(mark);
  writeFileSync(file, `${before}${mark}\n\n${text}\n`);
}

const report = new Report();
const workshop = await Workshop.open();
try {
  if (!strace) console.log("strace is missing: no faults at system calls, no power cut");
  for (const family of Object.keys(FAMILIES) as Family[]) {
    if (wanted(family)) await runFamily(workshop, report, family);
  }
  if (wanted("plants")) await runPlants(workshop, report);
  if (wanted("powerCut")) await runPowerCut(workshop, report);
} finally {
  await workshop.close();
}
const images = report.powerCuts.reduce((sum, result) => sum + result.images, 0);
const text = `${report.markdown()}\n\n${summary(report.totals(), images)}`;
console.log(`\n${text}`);
for (const complaint of report.complaints()) console.log(complaint);
if (values.write && report.isGood()) writeDocs(text);
process.exitCode = report.isGood() ? 0 : 1;
