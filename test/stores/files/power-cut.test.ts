import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Bundle, bundle, type Mutation } from "../../../torture/bundle.ts";
import { FILES_DURABILITY_PLANTS } from "../../../torture/planted-bugs.ts";
import { cutEverywhere, type PowerCutOptions, traceWriter } from "../../../torture/power-cut/power-cut.ts";
import { killAll } from "../../../torture/processes.ts";
import { chooseStore } from "../../../torture/store-under-test.ts";
import { scratch } from "../../../torture/workshop.ts";
import { hasStrace, needs } from "../sqlite/processes.ts";

const LIMIT_MS = 400_000;
const isFull = Boolean(process.env["HOLDFAST_FULL"]);
const IMAGES = isFull ? 4_000 : 600;
/** Not all images of one disk differ. */
const ENOUGH = isFull ? 2_000 : 500;

describe.skipIf(!hasStrace)(needs("a power cut", "strace", hasStrace), () => {
  let folder: string;
  let whole: Bundle;
  beforeAll(async () => {
    chooseStore("files");
    folder = mkdtempSync(join(scratch(), "holdfast-power-cut-"));
    whole = await bundle(make("whole"), [], ["writer", "opener"]);
  });
  afterAll(() => {
    killAll();
    // Restored for other test files in this process.
    chooseStore("sqlite");
    rmSync(folder, { recursive: true, force: true });
  });

  function make(name: string): string {
    const made = join(folder, name);
    mkdirSync(made);
    return made;
  }

  async function cut(name: string, writer: Bundle, options: Partial<PowerCutOptions>) {
    const root = make(`${name}-root`);
    const steps = await traceWriter(writer, root, { rounds: isFull ? 4 : 2, payloadBytes: 5_000 });
    const place = { root, scratch: make(`${name}-images`), bundle: whole };
    const result = await cutEverywhere(steps, place, {
      seed: 4711,
      randoms: isFull ? 12 : 3,
      limit: IMAGES,
      ...options,
    });
    return { ...result, renames: steps.filter(({ act }) => act === "rename").length };
  }

  test(`loses no acknowledged write and tears no file, in at least ${ENOUGH} images of the disk`, {
    timeout: LIMIT_MS,
  }, async () => {
    const { images, promises, points, renames, violations } = await cut("whole", whole, {});
    console.info(`${images} images at ${points} points, ${promises} promises, ${renames} renames`);
    expect(violations).toEqual([]);
    expect(images).toBeGreaterThanOrEqual(ENOUGH);
    expect(promises).toBeGreaterThan(20);
    // The first journal, every artifact, and at least one compaction.
    expect(renames).toBeGreaterThan(5);
  });

  test.for(Object.entries(FILES_DURABILITY_PLANTS))(
    "shows a planted bug: %s",
    { timeout: LIMIT_MS },
    async ([name, mutations]) => {
      const id = name.replaceAll(/\W+/g, "-");
      const planted = await bundle(make(id), mutations as Mutation[], ["writer"]);
      const { violations } = await cut(`${id}-cut`, planted, { untilFound: true });
      expect(violations).not.toEqual([]);
    },
  );
});
