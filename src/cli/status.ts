/**
 * `status` on its own short way: it is what people, prompts and hooks ask all day, so it loads neither commander nor
 * any schema. Anything but the plain options takes the long way, which answers the same.
 */

import { isHoldfastError } from "../model/errors.ts";
import { openStore } from "../open-store.ts";
import {
  findStore,
  type GoalStatus,
  hasUnmergedEvents,
  isRemote,
  movedNotice,
  movedWarning,
  type Need,
  oneLineError,
  openAndMergeEvents,
  readStatus,
  requireStore,
  restoreFromRepository,
  type Status,
  unfinishedNotice,
  unfinishedWarning,
  unparsedEdits,
} from "../operations/index.ts";
import type { Store } from "../store.ts";
import { goalOption } from "./command.ts";
import { reportWarning } from "./failure.ts";
import { commandToPaste, formatAnswer, openScreen, type Paint, print, type Screen } from "./screen.ts";

/** `status` for people: first what needs them, then how things stand, last what to type. */

const CELLS = 10;

export function statusPage(status: Status, screen: Screen): string {
  const { paint, store = "" } = screen;
  const isSaid = status.needs.some(({ command }) => command === status.next.command);
  const lines = [
    ...(status.moved === null ? [] : [`${paint.yellow(paint.bold("!"))} ${movedNotice(status.moved)}`]),
    ...(status.unfinishedCopy === null
      ? []
      : [`${paint.yellow(paint.bold("!"))} ${unfinishedNotice(status.unfinishedCopy)}`]),
    ...status.notTakenIn.map((each) => `${paint.yellow(paint.bold("!"))} not taken in: ${each}`),
    ...needLines(status.needs, screen),
    ...status.goals.flatMap((goal) => goalLines(goal, paint)),
    ...(status.otherGoals > 0 ? [paint.dim(`${status.otherGoals} more: holdfast goal list${store}`)] : []),
    ...sessionLine(status.sessions),
    ...(isSaid ? [] : [`next  ${status.next.what}  ${commandToPaste(screen, status.next.command)}`]),
  ];
  return lines.map((line) => `${line}\n`).join("");
}

/** What `--json` gives: its commands reach the store that was named, as those of the page do. */
export function statusData(status: Status, { store = "" }: Screen): Status {
  const reaching = ({ what, command }: Need): Need => ({ what, command: command + store });
  return { ...status, needs: status.needs.map(reaching), next: reaching(status.next) };
}

function needLines(needs: readonly Need[], screen: Screen): string[] {
  const { paint, width } = screen;
  const longest = Math.max(0, ...needs.map(({ what }) => what.length));
  const room = Number.isFinite(width) ? Math.min(longest, Math.max(20, width - 44)) : longest;
  return needs.map(({ what, command }) => {
    const text = what.length > room ? `${what.slice(0, room - 1)}…` : what.padEnd(room);
    return `${paint.yellow(paint.bold("!"))} ${text}  ${commandToPaste(screen, command)}`;
  });
}

function goalLines(goal: GoalStatus, paint: Paint): string[] {
  const { tasks, done, ready, blocked, submitted, failed } = goal;
  const filled = tasks === 0 ? 0 : Math.floor((CELLS * done) / tasks);
  const bar = paint.green("█".repeat(filled)) + paint.dim("░".repeat(CELLS - filled));
  const counts = [
    count(ready, "open"),
    count(goal.working.length, "in progress"),
    count(submitted, "submitted"),
    count(blocked, "blocked"),
    count(failed, "failed"),
  ].filter(Boolean);
  const title = goal.title === null ? "" : `  ${goal.title}`;
  return [
    `${paint.bold(goal.goal)}  ${bar} ${done}/${tasks} tasks${counts.map((each) => ` · ${each}`).join("")}${paint.dim(title)}`,
    ...goal.working.map(({ task, title: name, by, elsewhere }) => {
      const who = by === null ? "nobody holds it" : `${by}${elsewhere ? ", in another clone" : ""}`;
      return `  ${task}  ${who}  ${name}`;
    }),
    ...goal.merged.map((each) => `  ${paint.yellow(paint.bold("!"))} ${each}`),
  ];
}

function sessionLine(sessions: Status["sessions"]): string[] {
  const { running, waiting, crashed, idle, ended, spentUsd, limitUsd, ofLatest } = sessions;
  const counts = [
    count(running, "running"),
    count(waiting, "with open calls"),
    count(crashed, "crashed"),
    count(idle, "idle"),
    count(ended, "ended"),
  ].filter(Boolean);
  if (counts.length === 0) return [];
  const money = spentUsd === 0 && limitUsd === null ? "" : `   $${spentUsd.toFixed(2)}`;
  const limit = limitUsd === null ? "" : ` of $${limitUsd.toFixed(2)}`;
  const part = ofLatest === null ? "" : `   of the latest ${ofLatest}`;
  return [`sessions  ${counts.join(" · ")}${money}${limit}${part}`];
}

function count(number: number, what: string): string {
  return number === 0 ? "" : `${number} ${what}`;
}

export interface StatusCommandOptions {
  readonly json: boolean;
  readonly store: string | undefined;
  readonly goal: string | undefined;
}

/** Null when there is anything that only the long way understands. */
export function readStatusOptions(args: readonly string[]): StatusCommandOptions | null {
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

export async function showStatus({ json, store, goal }: StatusCommandOptions): Promise<void> {
  const place = findStore(store ?? process.env["HOLDFAST_STORE"], process.cwd());
  const warn = (error: unknown): void => reportWarning(error, json);
  if (!place.exists && !(await restoreFromRepository(place, { warn }))) requireStore(place);
  const isStoreSaid = (store ?? process.env["HOLDFAST_STORE"] ?? "") !== "";
  let opened = await openForALook(place.address ?? place.home);
  let notTakenIn: readonly string[] = [];
  // The store answers as it is; that this is not all has to be said.
  if (!isStoreSaid && (await hasUnmergedEvents(place, opened))) {
    await opened.close();
    notTakenIn = await openAndMergeEvents(place, warn).catch((error: unknown) => {
      warn(error);
      return [oneLineError(error)];
    });
    opened = await openForALook(place.address ?? place.home);
  }
  if (!isStoreSaid) notTakenIn = [...notTakenIn, ...unparsedEdits(place)];
  const screen = await openScreen(store);
  const status = await readStatus(opened, { goal: goalOption(goal), now: Date.now(), notTakenIn });
  if (status.moved !== null) warn(movedWarning(status.address, status.moved));
  if (status.unfinishedCopy !== null) warn(unfinishedWarning(status.address, status.unfinishedCopy));
  const page = (each: typeof status) => statusPage(each, screen);
  await print(formatAnswer(json, "status", status, page, (each) => statusData(each, screen)));
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
