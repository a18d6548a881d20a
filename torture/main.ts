/**
 * `npm run torture`: kills, breaks, stops and cuts an agent everywhere, and compares the ledger with the
 * world.
 *
 *     --share 0.1        every tenth case (default 1)
 *     --only zombies     some families: failpoints recovery systemCalls ioErrors zombies resumers person
 *                        plants powerCut failedSyncs
 *     --scenario "a request"   cases of one scenario only
 *     --store files      a folder of files instead of a SQLite file
 *     --images 6000      how many images the power cut opens, and in all about as many after failed syncs
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
import { type DurabilityPlant, durabilityPlants, foundBy, PLANTS } from "./planted-bugs.ts";
import {
  cutEverywhere,
  type PowerCutOptions,
  type PowerCutResult,
  traceWriter,
  type WriterOptions,
} from "./power-cut/power-cut.ts";
import { Report, summary } from "./report.ts";
import { chooseStore, chosenStore } from "./store-under-test.ts";
import { Workshop } from "./workshop.ts";

/** The records of last writes that its stores leave go with them. */
const state = mkdtempSync(join(tmpdir(), "holdfast-torture-state-"));
process.env["XDG_STATE_HOME"] = state;
process.once("exit", () => rmSync(state, { recursive: true, force: true }));

const NEED_STRACE: readonly string[] = ["systemCalls", "ioErrors", "powerCut", "failedSyncs"];
const TRIES = 3;

const { values } = parseArgs({
  options: {
    share: { type: "string", default: "1" },
    only: { type: "string", multiple: true },
    scenario: { type: "string" },
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
    if (values.scenario !== undefined && values.scenario !== job.scenario) return;
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
  for (const plant of strace ? durabilityPlants(store) : []) {
    const under = await foundUnder(workshop, plant);
    const found = under !== null;
    report.plants.push({
      name: plant.name,
      under: under ?? "power cut",
      found,
      by: found ? "I2" : "nothing",
    });
  }
  const found = report.plants.filter((plant) => plant.found).length;
  console.log(`planted bugs: ${found} of ${report.plants.length} found, ${seconds(begun)}`);
}

/** The first power cut that shows the bug. With `failing`, from each such sync on in turn, every sync fails. */
async function foundUnder(
  workshop: Workshop,
  { mutations, failing }: DurabilityPlant,
): Promise<string | null> {
  const options = { seed: 1, randoms: 4, untilFound: true };
  if (failing === undefined) {
    const { images, violations } = await cut(workshop, { ...options, limit: 2_000 }, mutations);
    return violations.length > 0 ? `power cut, image ${images}` : null;
  }
  for (let from = 1; ; from++) {
    const failSyncs = { call: failing, from };
    const result = await cut(workshop, { ...options, limit: 200, failSyncs }, mutations);
    if (result.points === 0) return null;
    const { images, violations } = result;
    if (violations.length > 0) return `every ${failing} fails from ${from} on, power cut, image ${images}`;
  }
}

async function* each<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  yield* items;
}

function cut(
  workshop: Workshop,
  { failSyncs, ...options }: PowerCutOptions & Pick<WriterOptions, "failSyncs">,
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
    const steps = await traceWriter(writer, root, {
      rounds: failSyncs ? 2 : 3,
      payloadBytes: 6_000,
      failSyncs,
    });
    return cutEverywhere(steps, { root, scratch, bundle: workshop.bundle }, options);
  });
}

async function runPowerCut(workshop: Workshop, report: Report): Promise<void> {
  const begun = performance.now();
  const result = await cut(workshop, { seed: 20, randoms: 18, limit: Number(values.images) });
  report.powerCuts.push({ ...result, fault: "none" });
  console.log(`power cut: ${result.images} images at ${result.points} points, ${seconds(begun)}`);
}

/** The writer makes about as many syncs. Each gets the same share of the images. */
const SYNCS = 20;

/** From each sync of the writer on in turn, every sync fails, until the writer ends and another resumes. */
async function runFailedSyncs(workshop: Workshop, report: Report): Promise<void> {
  const limit = Math.ceil(Number(values.images) / SYNCS);
  const step = Math.max(1, Math.round(1 / Number(values.share)));
  for (const call of chosenStore().syncCalls) {
    const begun = performance.now();
    const results: PowerCutResult[] = [];
    let isOver = false;
    async function* syncs(): AsyncGenerator<number> {
      for (let from = 1; !isOver; from += step) yield from;
    }
    await inParallel(syncs(), async (from) => {
      const result = await cut(workshop, { seed: from, randoms: 4, limit, failSyncs: { call, from } });
      if (result.points > 0) results.push(result);
      else isOver = true;
      const [first] = result.violations;
      if (first) console.log(`  I2 ${call} fails from ${from} on: ${first.what}`);
    });
    const all = combined(results);
    report.powerCuts.push({ ...all, fault: `every ${call} fails from one on: ${results.length} runs` });
    console.log(
      `power cut after failed ${call}: ${all.images} images, ${results.length} runs, ${seconds(begun)}`,
    );
  }
}

function combined(results: readonly PowerCutResult[]): PowerCutResult {
  const sum = (count: (result: PowerCutResult) => number): number =>
    results.reduce((total, result) => total + count(result), 0);
  return {
    points: sum(({ points }) => points),
    images: sum(({ images }) => images),
    promises: Math.min(...results.map(({ promises }) => promises)),
    violations: results.flatMap(({ violations }) => violations),
  };
}

const seconds = (begun: number): string => `${((performance.now() - begun) / 1_000).toFixed(0)} s`;

/** What is between the marks of a store is from its last run. */
function writeDocs(text: string): void {
  const file = "docs/why/torture.md";
  const [begin, end] = ["the last full run", "end of it"].map((mark) => `<!-- ${values.store}: ${mark} -->`);
  const [before, rest = ""] = readFileSync(file, "utf8").split(`${begin}\n`);
  const [, after] = rest.split(`${end}\n`);
  if (after === undefined) throw new Error(`${file} has no marks for ${values.store}`);
  writeFileSync(file, `${before}${begin}\n\n${text}\n\n${end}\n${after}`);
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
  if (wanted("failedSyncs")) await runFailedSyncs(workshop, report);
} finally {
  await workshop.close();
}
const images = report.powerCuts.reduce((sum, result) => sum + result.images, 0);
const text = `${report.markdown()}\n\n${summary(report.totals(), images)}`;
console.log(`\n${text}`);
for (const complaint of report.complaints()) console.log(complaint);
if (values.write && report.isGood()) writeDocs(text);
process.exitCode = report.isGood() ? 0 : 1;
