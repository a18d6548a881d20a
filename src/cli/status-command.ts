/**
 * `status` on its own short way: it is what people, prompts and hooks ask all day, so it loads neither commander nor
 * any schema. Anything but the plain options takes the long way, which answers the same.
 */

import { openStore } from "../open-store.ts";
import { findStore, readStatus, refuseMissing } from "../operations/index.ts";
import { envelope, openScreen } from "./screen.ts";
import { statusPage } from "./status-page.ts";

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
  refuseMissing(place);
  const opened = await openStore(place.address);
  try {
    const screen = await openScreen();
    const wanted = goal ?? (process.env["HOLDFAST_GOAL"] || undefined);
    const status = await readStatus(opened, { goal: wanted, now: Date.now() });
    process.stdout.write(json ? envelope("status", status) : statusPage(status, screen));
  } finally {
    await opened.close();
  }
}
