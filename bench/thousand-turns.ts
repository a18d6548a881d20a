import type { Holdfast } from "../src/index.ts";
import { type RawDatabase, sizeOnDisk } from "./raw-database.ts";
import type { Scratch } from "./scratch.ts";
import { makeTurns } from "./turns.ts";

export const TURNS = 1_000;

export interface ThousandTurns {
  readonly holdfast: Holdfast;
  /** The session's name in `holdfast`, and its number in `raw`. */
  readonly session: string;
  readonly rawSession: number;
  readonly raw: RawDatabase;
  readonly oursBytes: number;
  readonly rawBytes: number;
}

let made: Promise<ThousandTurns> | undefined;

/** The same 1,000 turns in a store of ours, with a checkpoint each, and in a raw file. Made once. */
export function thousandTurns(scratch: Scratch): Promise<ThousandTurns> {
  made ??= make(scratch);
  return made;
}

async function make(scratch: Scratch): Promise<ThousandTurns> {
  const turns = makeTurns(TURNS);
  const oursFile = scratch.file("thousand");
  const rawFile = scratch.file("thousand-raw");
  const holdfast = await scratch.openOurs(oursFile);
  const session = await holdfast.session("thousand");
  for (const { messages } of turns) await session.append(messages, { checkpoint: true });
  const raw = await scratch.openRaw(rawFile);
  raw.writeTogether(turns.map(({ json }, index) => [1, index + 1, json] as const));
  const oursBytes = await sizeOnDisk(oursFile);
  const rawBytes = await sizeOnDisk(rawFile);
  return { holdfast, session: "thousand", rawSession: 1, raw, oursBytes, rawBytes };
}
