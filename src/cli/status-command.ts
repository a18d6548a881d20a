/**
 * `status` on its own short way: it is what people, prompts and hooks ask all day, so it loads neither commander nor
 * any schema. Anything but the plain options takes the long way, which answers the same.
 */

import { isHoldfastError } from "../model/errors.ts";
import { openStore } from "../open-store.ts";
import {
  findStore,
  hasNews,
  isRemote,
  movedNote,
  oneLineError,
  openAndIngestNews,
  readStatus,
  refuseMissing,
  restoreFromRepository,
  unfinishedNote,
  unparsedEdits,
} from "../operations/index.ts";
import type { Store } from "../store.ts";
import { reportWarning } from "./failure.ts";
import { answer, openScreen, printed } from "./screen.ts";
import { statusData, statusPage } from "./status-page.ts";
import { goalSaid } from "./values.ts";

export interface PlainOptions {
  readonly json: boolean;
  readonly store: string | undefined;
  readonly goal: string | undefined;
}

/** Null when there is anything that only the long way understands. */
export function plainOptions(args: readonly string[]): PlainOptions | null {
  const said: { json: boolean; store?: string; goal?: string } = { json: false };
  for (let index = 0; index < args.length; index++) {
    const [, name, value] = /^--(json|store|goal)(?:=(.*))?$/.exec(args[index] ?? "") ?? [];
    if (name === "json" && value === undefined) said.json = true;
    else if (name === "store" || name === "goal") {
      const given = value ?? args[++index];
      if (given === undefined || given === "") return null;
      said[name] = given;
    } else return null;
  }
  return { json: said.json, store: said.store, goal: said.goal };
}

export async function showStatus({ json, store, goal }: PlainOptions): Promise<void> {
  const place = findStore(store ?? process.env["HOLDFAST_STORE"], process.cwd());
  const warn = (error: unknown): void => reportWarning(error, json);
  if (!place.exists && !(await restoreFromRepository(place, { warn }))) refuseMissing(place);
  const isStoreSaid = (store ?? process.env["HOLDFAST_STORE"] ?? "") !== "";
  let opened = await openForALook(place.address ?? place.home);
  let notTakenIn: readonly string[] = [];
  // The store answers as it is; that this is not all has to be said.
  if (!isStoreSaid && (await hasNews(place, opened))) {
    await opened.close();
    notTakenIn = await openAndIngestNews(place, warn).catch((error: unknown) => {
      warn(error);
      return [oneLineError(error)];
    });
    opened = await openForALook(place.address ?? place.home);
  }
  if (!isStoreSaid) notTakenIn = [...notTakenIn, ...unparsedEdits(place)];
  const screen = await openScreen(store);
  const status = await readStatus(opened, { goal: goalSaid(goal), now: Date.now(), notTakenIn });
  if (status.moved !== null) warn(movedNote(status.address, status.moved));
  if (status.unfinishedCopy !== null) warn(unfinishedNote(status.address, status.unfinishedCopy));
  const page = (each: typeof status) => statusPage(each, screen);
  await printed(answer(json, "status", status, page, (each) => statusData(each, screen)));
  // A process that ends lets go of what it only looked at; closing in good order takes longer than the look.
  if (!isRemote(place.address ?? place.home)) process.exit();
  await opened.close();
}

/** A store of an older format cannot be read as it is: it is opened in the usual way, which brings it up to date. */
async function openForALook(address: string | undefined): Promise<Store> {
  try {
    return await openStore(address, { readOnly: true });
  } catch (error) {
    if (!isHoldfastError(error, "STORE_READONLY")) throw error;
    return openStore(address);
  }
}
