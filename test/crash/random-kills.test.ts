/**
 * A writer is killed again and again while it opens, appends, puts, takes leases, removes and checkpoints.
 * After each kill, everything that was acknowledged must be there. Half of the stores are verified on a copy,
 * so that the next writer recovers the files as the kill left them. The other half through a handle that
 * stays open, like that of a neighbouring process.
 */

import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import { type Acknowledgement, readAcknowledgements } from "./acknowledgements.ts";
import { type Program, Workshop, warmUp } from "./programs.ts";
import { verify } from "./verifier.ts";

/**
 * Two Nodes share the tests: the first runs ten kills, the second the rest of 200. HOLDFAST_FULL=1: a
 * thousand each.
 */
const isShort = Boolean(process.env["HOLDFAST_SHORT"]);
const SHARE = isShort ? 10 : process.env["HOLDFAST_REST"] ? 190 : 200;
const KILLS = process.env["HOLDFAST_FULL"] ? 1_000 : SHARE;
/** A store is verified after every kill, so it costs more with each. Five of ten kills have a neighbour. */
const KILLS_PER_STORE = process.env["HOLDFAST_FULL"] ? 20 : isShort ? 5 : 10;
/** Writers out of ten that are killed while they open the store; the others after their first append. */
const EARLY_DEATHS = 2;
const OPENING_MS = 40;
const WORKING_MS = 25;

let workshop: Workshop;

beforeAll(async () => {
  workshop = await Workshop.make();
  await warmUp(workshop, join(workshop.folder, "nothing"));
});

afterAll(() => workshop.dispose());

/** One writer, killed at some moment while it opens or works. */
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
 * The file and its journals, without the shared memory, as a machine finds them after a restart. A new file
 * has a rollback journal until its tables exist, and is damaged without it.
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
  /** Writers with at least one acknowledgement. */
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

test(`${KILLS} kills at random moments lose nothing that was acknowledged`, {
  timeout: 900_000,
}, async () => {
  const tolls: Toll[] = [];
  // One after the other: while this process verifies one store, it could not kill the writer of another in
  // time.
  for (let store = 0; store < KILLS / KILLS_PER_STORE; store++)
    tolls.push(await killOneStore(store % 2 === 0));
  const sum = (of: keyof Toll) => tolls.reduce((total, toll) => total + toll[of], 0);
  console.info(
    `${sum("kills")} kills, ${sum("fruitful")} of them after ${sum("acknowledgements")} acknowledgements`,
  );
  expect(sum("kills")).toBe(KILLS);
  // Some writers die before their first append; if most did, the test would prove nothing.
  expect(sum("fruitful")).toBeGreaterThan(KILLS / 2);
});
