/**
 * A writer is killed again and again while it opens, appends, puts, takes leases, removes and compacts. After
 * each kill every acknowledged write must be there. Half of the stores are verified on a copy, with and
 * without the live file, so that the next life meets the folder as the kill left it. The other half are
 * verified through a handle that stays open, as a process beside it would have it.
 */

import { cpSync, rmSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openFiles } from "../../../src/stores/files/index.ts";
import { type Acknowledgement, readAcknowledgements } from "../../crash/acknowledgements.ts";
import { type Program, warmUp } from "../../crash/programs.ts";
import { verify } from "../../crash/verifier.ts";
import { FilesWorkshop } from "./workshop.ts";

/** HOLDFAST_FULL=1: a thousand. */
const KILLS = process.env["HOLDFAST_FULL"] ? 1_000 : 40;
/**
 * Each kill is followed by a verification, which takes longer as the store grows. HOLDFAST_FULL=1: twenty.
 */
const KILLS_PER_STORE = process.env["HOLDFAST_FULL"] ? 20 : 10;
/** Lives out of ten that end while the store opens. The others end some time after their first append. */
const EARLY_DEATHS = 2;
const OPENING_MS = 40;
const WORKING_MS = 50;

let workshop: FilesWorkshop;

beforeAll(async () => {
  workshop = await FilesWorkshop.make();
  await warmUp(workshop, join(workshop.folder, "nothing"));
});

afterAll(() => workshop.dispose());

/** One life: started, then killed at a random moment of its opening or of its work. */
async function liveAndDie(writer: Program, life: number): Promise<void> {
  const isEarly = life % 10 < EARLY_DEATHS;
  writer.say("go");
  await writer.line(isEarly ? "opening" : "working");
  await new Promise((resolve) => {
    setTimeout(resolve, Math.random() * (isEarly ? OPENING_MS : WORKING_MS));
  });
  writer.signal("SIGKILL");
  const { signal, errors } = await writer.ended;
  expect(errors).toBe("");
  expect(signal).toBe("SIGKILL");
}

async function verifyCopy(
  place: string,
  said: readonly Acknowledgement[],
  hasLive: boolean,
): Promise<string[]> {
  const copy = join(place, "copy");
  rmSync(copy, { recursive: true, force: true });
  cpSync(join(place, "store"), copy, { recursive: true });
  if (!hasLive) rmSync(join(copy, "live.jsonl"), { force: true });
  return verifyFolder(copy, said);
}

async function verifyFolder(path: string, said: readonly Acknowledgement[]): Promise<string[]> {
  const store = await openFiles({ path });
  try {
    return await verify(store, said);
  } finally {
    await store.close();
  }
}

interface Toll {
  kills: number;
  /** Lives with at least one acknowledgement. */
  fruitful: number;
  acknowledgements: number;
}

async function killOneStore(hasNeighbour: boolean): Promise<Toll> {
  const place = await workshop.place();
  const path = join(place, "store");
  const acknowledgements = join(place, "acknowledgements");
  const start = (life: number): Program => workshop.start("writer", path, acknowledgements, String(life));
  const toll = { kills: 0, fruitful: 0, acknowledgements: 0 };
  const neighbour = await openFiles({ path });
  if (!hasNeighbour) await neighbour.close();
  let next: Program | null = start(0);
  while (next) {
    const writer: Program = next;
    await writer.line("ready");
    next = toll.kills + 1 < KILLS_PER_STORE ? start(toll.kills + 1) : null;
    await liveAndDie(writer, toll.kills);
    toll.kills += 1;
    const said = readAcknowledgements(acknowledgements);
    const problems = hasNeighbour
      ? await verify(neighbour, said)
      : await verifyCopy(place, said, toll.kills % 2 === 0);
    expect(problems, `after kill ${toll.kills} of ${place}`).toEqual([]);
    if (said.length > toll.acknowledgements) toll.fruitful += 1;
    toll.acknowledgements = said.length;
  }
  await neighbour.close();
  expect(await verifyFolder(path, readAcknowledgements(acknowledgements))).toEqual([]);
  await rm(place, { recursive: true });
  return toll;
}

test(`${KILLS} kills at random moments lose no acknowledged write`, {
  timeout: 900_000,
}, async () => {
  const tolls: Toll[] = [];
  // In sequence: while this process verifies one store, it could not kill a writer of another in time.
  for (let store = 0; store < KILLS / KILLS_PER_STORE; store++)
    tolls.push(await killOneStore(store % 2 === 0));
  const sum = (of: keyof Toll) => tolls.reduce((total, toll) => total + toll[of], 0);
  console.info(
    `${sum("kills")} kills, ${sum("fruitful")} of them after ${sum("acknowledgements")} acknowledgements`,
  );
  expect(sum("kills")).toBe(KILLS);
  // Some lives end before the first append. If most did, the test would prove nothing.
  expect(sum("fruitful")).toBeGreaterThan(KILLS / 2);
});
