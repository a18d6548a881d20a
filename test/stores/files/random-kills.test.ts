/**
 * A writer is killed again and again while it opens, appends, puts, takes leases, removes and rewrites its journal.
 * After each kill everything that it was told must be there. Half of the stores are verified on a copy, with and
 * without the file that is never synced, so that the next life meets the folder as the kill left it; half through a
 * handle that stays open meanwhile, as a neighbouring process would have it.
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
/** Each is verified after every kill, so a store that lives on costs more with each. HOLDFAST_FULL=1: twenty. */
const KILLS_PER_STORE = process.env["HOLDFAST_FULL"] ? 20 : 10;
/** Of ten lives this many end while the store is being opened; the others some time after their first append. */
const EARLY_DEATHS = 2;
const OPENING_MS = 40;
const WORKING_MS = 50;

let workshop: FilesWorkshop;

beforeAll(async () => {
  workshop = await FilesWorkshop.make();
  await warmUp(workshop, join(workshop.folder, "nothing"));
});

afterAll(() => workshop.dispose());

/** One life: told to go, killed at some moment of its opening or of its work. */
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
  /** Lives that were told of at least one thing. */
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

test(`${KILLS} kills at random moments take nothing that was acknowledged`, {
  timeout: 900_000,
}, async () => {
  const tolls: Toll[] = [];
  // One after the other: while this process verifies one store, it could not end a life in another in time.
  for (let store = 0; store < KILLS / KILLS_PER_STORE; store++)
    tolls.push(await killOneStore(store % 2 === 0));
  const sum = (of: keyof Toll) => tolls.reduce((total, toll) => total + toll[of], 0);
  console.info(
    `${sum("kills")} kills, ${sum("fruitful")} of them after ${sum("acknowledgements")} acknowledgements`,
  );
  expect(sum("kills")).toBe(KILLS);
  // Some lives end before the first append; if most did, this would show nothing.
  expect(sum("fruitful")).toBeGreaterThan(KILLS / 2);
});
