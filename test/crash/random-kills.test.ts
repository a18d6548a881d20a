/**
 * A writer is killed again and again while it opens, appends, puts, takes leases, removes and checkpoints. After
 * each kill everything that it was told must be there. Half of the stores are verified on a copy, so that the next
 * life meets the files as the kill left them and recovers them itself; half through a handle that stays open
 * meanwhile, as a neighbouring process would have it.
 */

import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { type Acknowledgement, readAcknowledgements } from "./acknowledgements.ts";
import { type Program, Workshop, warmUp } from "./programs.ts";
import { verify } from "./verifier.ts";

/** Where two Nodes share the tests, the first has ten and the second the rest of two hundred. HOLDFAST_FULL=1: each a thousand. */
const isShort = Boolean(process.env["HOLDFAST_SHORT"]);
const SHARE = isShort ? 10 : process.env["HOLDFAST_REST"] ? 190 : 200;
const KILLS = process.env["HOLDFAST_FULL"] ? 1_000 : SHARE;
/** Each is verified after every kill, so a store that lives on costs more with each; of ten kills five are with a neighbour. */
const KILLS_PER_STORE = process.env["HOLDFAST_FULL"] ? 20 : isShort ? 5 : 10;
/** Of ten lives this many end while the store is being opened; the others some time after their first append. */
const EARLY_DEATHS = 2;
const OPENING_MS = 40;
const WORKING_MS = 25;

let workshop: Workshop;

beforeAll(async () => {
  workshop = await Workshop.make();
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

/**
 * The file and its journals, without the shared memory: what a machine finds after it was switched on again. A new file has a
 * rollback journal until its tables are there, and is damaged without it.
 */
async function verifyCopy(place: string, said: readonly Acknowledgement[]): Promise<string[]> {
  const copy = join(place, "copy.db");
  for (const end of ["", "-wal", "-journal"]) {
    await rm(copy + end, { force: true });
    await copyFile(join(place, `store.db${end}`), copy + end).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
  return verifyFile(copy, said);
}

async function verifyFile(path: string, said: readonly Acknowledgement[]): Promise<string[]> {
  const store = await openSqlite({ path });
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
  const path = join(place, "store.db");
  const acknowledgements = join(place, "acknowledgements");
  const start = (life: number): Program => workshop.start("writer", path, acknowledgements, String(life));
  const toll = { kills: 0, fruitful: 0, acknowledgements: 0 };
  const neighbour = hasNeighbour ? await openSqlite({ path }) : null;
  let next: Program | null = start(0);
  while (next) {
    const writer: Program = next;
    await writer.line("ready");
    next = toll.kills + 1 < KILLS_PER_STORE ? start(toll.kills + 1) : null;
    await liveAndDie(writer, toll.kills);
    toll.kills += 1;
    const said = readAcknowledgements(acknowledgements);
    const problems = neighbour ? await verify(neighbour, said) : await verifyCopy(place, said);
    expect(problems, `after kill ${toll.kills} of ${place}`).toEqual([]);
    if (said.length > toll.acknowledgements) toll.fruitful += 1;
    toll.acknowledgements = said.length;
  }
  await neighbour?.close();
  expect(await verifyFile(path, readAcknowledgements(acknowledgements))).toEqual([]);
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
