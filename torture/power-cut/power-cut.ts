/**
 * Cuts the power at every point of a traced run and opens every possible result. Everything acknowledged
 * before the cut must be there, unchanged, and the store must find no problem in itself.
 */

import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Bundle } from "../bundle.ts";
import type { Violation } from "../checker/index.ts";
import { Child, type Said, startNode } from "../processes.ts";
import { chosenStore, type SyncCall, storeFiles } from "../store-under-test.ts";
import { Disk, type Image } from "./disk.ts";
import { choices, Dice } from "./images.ts";
import type { Opened } from "./opener/main.ts";
import { type DiskStep, readTrace, TRACED } from "./trace.ts";
import type { Promised } from "./writer/main.ts";

export interface PowerCutOptions {
  readonly seed: number;
  /** Random images at each point, in addition to the systematic ones. */
  readonly randoms: number;
  readonly limit: number;
  /** Stops at the first loss, which is enough for a planted bug. */
  readonly untilFound?: boolean;
}

export interface PowerCutResult {
  readonly points: number;
  readonly images: number;
  readonly promises: number;
  readonly violations: readonly Violation[];
}

export interface WriterOptions {
  /** How often the store is opened, written to and closed. */
  readonly rounds: number;
  readonly payloadBytes: number;
  readonly failSyncs?: FailedSyncs | undefined;
}

/**
 * Every such call from this one on fails, until the writer ends without closing the store. Then a second
 * writer continues on a disk that works again.
 */
export interface FailedSyncs {
  readonly call: SyncCall;
  readonly from: number;
}

/**
 * Runs the writer under strace in `folder` and returns its disk operations. Empty: it makes fewer syncs than
 * the first one that should fail.
 */
export async function traceWriter(
  bundle: Bundle,
  folder: string,
  options: WriterOptions,
): Promise<DiskStep[]> {
  const { failSyncs } = options;
  const acks = join(folder, "acks");
  const run = (mode: string, ...faults: string[]) => traceOnce(bundle, folder, options, [mode, ...faults]);
  if (failSyncs === undefined) return readTrace(await run("whole"), folder, acks);
  const inject = `inject=${failSyncs.call}:error=EIO:when=${failSyncs.from}+`;
  const failed = await run("until an error", "-e", inject);
  if (!failed.includes("(INJECTED)")) return [];
  return readTrace(failed + (await run("resumed")), folder, acks);
}

async function traceOnce(
  bundle: Bundle,
  folder: string,
  options: WriterOptions,
  [mode = "", ...faults]: readonly string[],
): Promise<string> {
  const acks = join(folder, "acks");
  const { isTracedByName } = chosenStore();
  const paths = isTracedByName ? [folder, ...storeFiles(join(folder, "store")), acks] : [];
  const line = ["-qq", "-xx", "-y", "-s", "10000000", "-o", join(folder, "trace"), "-e", `trace=${TRACED}`];
  const { rounds, payloadBytes } = options;
  const writer = [process.execPath, bundle.writer, folder, acks, String(rounds), String(payloadBytes), mode];
  const args = [...line, ...faults, ...paths.flatMap((path) => ["-P", path]), ...writer];
  const { code, stderr } = await new Child("strace", args).ended;
  if (code !== 0) throw new Error(`the traced writer failed: ${stderr}`);
  return readFileSync(join(folder, "trace"), "utf8");
}

export interface Place {
  /** The folder of the traced writer. */
  readonly root: string;
  /** The folder for images. */
  readonly scratch: string;
  readonly bundle: Bundle;
}

export async function cutEverywhere(
  steps: readonly DiskStep[],
  place: Place,
  options: PowerCutOptions,
): Promise<PowerCutResult> {
  // If the first loss is enough, it shows before a second process would have started.
  const openers = Array.from({ length: options.untilFound ? 1 : 2 }, () => new Opener(place));
  const violations: Violation[] = [];
  const hasFailedSyncs = steps.some(({ act }) => act === "failed sync");
  let images = 0;
  let promises = 0;
  let points = 0;
  try {
    const cuts = everyCut(steps, place.root, options);
    const work = async (opener: Opener): Promise<void> => {
      for (let next = cuts.next(); !next.done; next = cuts.next()) {
        if (options.untilFound && violations.length > 0) return;
        const { point, image, promised } = next.value;
        images++;
        points = Math.max(points, point);
        promises = Math.max(promises, promised.length);
        const { problems, isRefused } = await opener.open(image, promised);
        // After failed syncs, a store that never acknowledged anything may be refused: nothing is lost.
        const wrong = isRefused && hasFailedSyncs && promised.length === 0 ? [] : problems;
        violations.push(
          ...wrong.map((what) => ({ invariant: "I2", what: `cut after step ${point}: ${what}` })),
        );
      }
    };
    await Promise.all(openers.map(work));
  } finally {
    for (const opener of openers) opener.close();
  }
  return { points, images, promises, violations };
}

interface Cut {
  readonly point: number;
  readonly image: Image;
  readonly promised: readonly Promised[];
}

/**
 * Skips images that were tried for the same promises. If there are too many, takes a fair sample at every
 * point. After failed syncs, it begins with the first of them: what comes before is in a run without faults.
 */
function* everyCut(steps: readonly DiskStep[], root: string, options: PowerCutOptions): Generator<Cut> {
  const disk = new Disk(root);
  const dice = new Dice(options.seed);
  const promised: Promised[] = [];
  const tried = new Set<string>();
  let images = 0;
  const begin = steps.findIndex(({ act }) => act === "failed sync");
  for (const [index, step] of steps.entries()) {
    disk.apply(step);
    if (step.act === "told") promised.push(JSON.parse(step.text) as Promised);
    if (index < begin) continue;
    const pending = disk.pending();
    // Rounded at random, so that a small limit is spread over all points, too.
    const share = (options.limit - images) / (steps.length - index);
    const allowed = images + Math.floor(share + dice.below(1_000) / 1_000);
    for (const kept of sampled([...choices(pending, dice, options.randoms)], dice)) {
      if (images >= allowed) break;
      const image = disk.image(pending, kept);
      const name = `${promised.length} ${digest(image)}`;
      if (tried.has(name)) continue;
      tried.add(name);
      images++;
      yield { point: index + 1, image, promised: [...promised] };
    }
  }
}

/** Nothing and everything first, the others shuffled, so that a limit leaves a fair sample. */
function sampled<Item>(items: Item[], dice: Dice): Item[] {
  const head = items.splice(0, 2);
  for (let index = items.length - 1; index > 0; index--) {
    const other = dice.below(index + 1);
    [items[index], items[other]] = [items[other] as Item, items[index] as Item];
  }
  return [...head, ...items];
}

function digest(image: Image): string {
  const hash = createHash("sha1");
  for (const [path, content] of image) hash.update(`${path} ${content.length} `).update(content);
  return hash.digest("base64");
}

const IMAGES_PER_PROCESS = 200;

/** A process that opens images, replaced before it holds too many descriptors. */
class Opener {
  private readonly place: Place;
  private child: Child | null = null;
  private opened = 0;

  constructor(place: Place) {
    this.place = place;
  }

  async open(image: Image, promised: readonly Promised[]): Promise<Opened> {
    if (this.opened >= IMAGES_PER_PROCESS) this.close();
    this.child ??= startNode(this.place.bundle.opener, []);
    this.opened++;
    const folder = mkdtempSync(join(this.place.scratch, "image-"));
    try {
      for (const [path, content] of image) {
        const copy = join(folder, relative(this.place.root, path));
        mkdirSync(dirname(copy), { recursive: true });
        writeFileSync(copy, content);
      }
      this.child.send(JSON.stringify({ folder, promised }));
      return (await this.child.event("opened")) as Said & Opened;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  close(): void {
    this.child?.kill("SIGKILL");
    this.child = null;
    this.opened = 0;
  }
}
