/**
 * `status` on its own short way: it is what people, prompts and hooks ask all day, so it loads neither
 * commander nor any schema. Anything but the plain options takes the long way, which answers the same.
 */

import { hasNews, spoolFolder } from "../agent-sessions/index.ts";
import { isHoldfastError } from "../model/errors.ts";
import { age } from "../model/time.ts";
import { openStore } from "../open-store.ts";
import type { GoalStatus, Need, Status, StorePlace } from "../operations/index.ts";
import {
  isRemote,
  locateStore,
  oneLineError,
  openAndMergeEvents,
  openAndPutBack,
  openOptionsOf,
  readStatus,
  requireStore,
  restoreFromRepository,
  sealNotice,
  sealWarning,
  unmergedEvents,
  unparsedEdits,
} from "../operations/index.ts";
import type { Store } from "../store.ts";
import { goalOption, type Options } from "./command.ts";
import { reportWarning } from "./failure.ts";
import type { Paint, Screen } from "./screen.ts";
import { commandToPaste, formatAnswer, linesOf, openScreen, print } from "./screen.ts";

const CELLS = 10;

export function statusPage(status: Status, screen: Screen): string {
  const { paint, store = "", page } = screen;
  if (screen.isLine) return statusLine(status);
  const notice = sealNotice(status);
  const isListed = status.needs.some(({ command }) => command === status.next.command);
  return linesOf([
    notice === null ? "" : `${mark(paint)} ${notice}`,
    ...status.notMerged.map((each) => `${mark(paint)} not merged: ${each}`),
    ...needLines(status.needs, screen),
    ...status.goals.flatMap((goal) => goalLines(goal, paint)),
    status.otherGoals > 0 ? paint.dim(`${status.otherGoals} more: holdfast goal list${store}`) : "",
    ...sessionLine(status.sessions),
    ...namespaceLines(status),
    ...(page === undefined ? [] : linksOf(status, page)),
    isListed ? "" : `next  ${status.next.what}  ${commandToPaste(screen, status.next.command)}`,
  ]);
}

/** `checkout 1/3 · T-002 Round to cents · 2 need you`: for the status line of an agent. */
function statusLine({ goals, needs }: Status): string {
  const [goal] = goals;
  const [task] = goal?.working ?? [];
  const parts = [
    goal ? `${goal.goal} ${goal.done}/${goal.tasks}` : "no goal",
    task ? `${task.task} ${task.title}` : "",
    needs.length === 0 ? "" : `${needs.length} ${needs.length === 1 ? "needs" : "need"} you`,
  ];
  return `${parts.filter(Boolean).join(" · ")}\n`;
}

/** Links into the page that `holdfast ui` serves. */
function linksOf({ needs, goals }: Status, page: string): string[] {
  return [
    needs.length === 0 ? "" : `inbox  ${page}/inbox`,
    ...goals.map(({ goal }) => `${goal}  ${page}/goals/${encodeURIComponent(goal)}`),
    `sessions  ${page}/sessions`,
  ];
}

export function statusData(status: Status, { store = "" }: Screen): Status {
  const withStore = ({ what, command }: Need): Need => ({ what, command: command + store });
  return { ...status, needs: status.needs.map(withStore), next: withStore(status.next) };
}

function needLines(needs: readonly Need[], screen: Screen): string[] {
  const { paint, width } = screen;
  const longest = Math.max(0, ...needs.map(({ what }) => what.length));
  const room = Number.isFinite(width) ? Math.min(longest, Math.max(20, width - 44)) : longest;
  return needs.map(({ what, command }) => {
    const text = what.length > room ? `${what.slice(0, room - 1)}…` : what.padEnd(room);
    return `${mark(paint)} ${text}  ${commandToPaste(screen, command)}`;
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
  const summary = [`${done}/${tasks} tasks`, ...counts].join(" · ");
  const title = goal.title === null ? "" : `  ${goal.title}`;
  return [
    `${paint.bold(goal.goal)}  ${bar} ${summary}${paint.dim(title)}`,
    ...goal.working.map(({ task, title: name, by, elsewhere }) => {
      const who = by === null ? "not held" : `${by}${elsewhere ? ", in another clone" : ""}`;
      return `  ${task}  ${who}  ${name}`;
    }),
    ...goal.crashed.map(
      ({ session, at }) =>
        `  ${mark(paint)} ${session} crashed ${age(Date.now() - at)} ago: its tasks are open`,
    ),
    ...goal.merged.map((each) => `  ${mark(paint)} ${each}`),
  ];
}

const NAMESPACES_SHOWN = 5;

/** Says what the page covers, where the store has more than one namespace or another than the default. */
function namespaceLines({ namespace, otherNamespaces: others, unreadNamespaces }: Status): string[] {
  if (others.length === 0) return namespace === "default" ? [] : [`namespace  ${namespace}`];
  const more = others.length > NAMESPACES_SHOWN ? ", …" : "";
  const shown = others.slice(0, NAMESPACES_SHOWN).join(", ");
  return [
    `namespace  ${namespace}; ${others.length} more (${shown}${more}): holdfast status --namespace <name>`,
    unreadNamespaces > 0 ? `${unreadNamespaces} of these were not read; this covers all: holdfast calls` : "",
  ];
}

function sessionLine(sessions: Status["sessions"]): string[] {
  const { running, waiting, crashed, prompted, idle, ended, spentUsd, limitUsd, ofLatest } = sessions;
  const counts = [
    count(running, "running"),
    count(waiting, "with open calls"),
    count(crashed, "crashed"),
    count(prompted, "with a queued prompt"),
    count(idle, "idle"),
    count(ended, "ended"),
  ].filter(Boolean);
  if (counts.length === 0) return [];
  const money = spentUsd === 0 && limitUsd === null ? "" : `   $${spentUsd.toFixed(2)}`;
  const limit = limitUsd === null ? "" : ` of $${limitUsd.toFixed(2)}`;
  const part = ofLatest === null ? "" : `   of the latest ${ofLatest}`;
  return [`sessions  ${counts.join(" · ")}${money}${limit}${part}`];
}

function mark(paint: Paint): string {
  return paint.yellow(paint.bold("!"));
}

function count(number: number, what: string): string {
  return number === 0 ? "" : `${number} ${what}`;
}

export async function showStatus(typed: Options): Promise<void> {
  const { store, namespace, goal } = typed as Readonly<Record<string, string | undefined>>;
  const [json, line] = [typed["json"] === true, typed["line"] === true];
  const place = await locateStore({ store, namespace }, process.cwd());
  const warn = (error: unknown): void => reportWarning(error, json);
  if (!place.exists && !(await restoreFromRepository(place, { warn }))) requireStore(place);
  let opened = await openReadOnly(place);
  let notMerged: readonly string[] = [];
  const events = place.isNamed ? null : await unmergedEvents(place, opened);
  if (events) notMerged = events.refused;
  if (events?.isPending) {
    await opened.close();
    notMerged = await openAndMergeEvents(place, warn).catch((error: unknown) => {
      warn(error);
      return [oneLineError(error)];
    });
    opened = await openReadOnly(place);
  }
  if (!place.isNamed) notMerged = [...notMerged, ...unparsedEdits(place)];
  const putBack = async (): Promise<void> => {
    await opened.close();
    // A store that cannot be written is shown as it is.
    await openAndPutBack(place, warn).catch(warn);
    opened = await openReadOnly(place);
  };
  if (!place.isNamed && hasNews(spoolFolder(place.home), Date.now())) await putBack();
  const screen = await openScreen({ store, namespace, line });
  const { coversAll } = place;
  const options = { ...openOptionsOf(place), coversAll, goal: goalOption(goal), now: Date.now(), notMerged };
  let status = await readStatus(opened, options);
  if (status.goals.some(({ working }) => working.some(({ by }) => by === null))) {
    await putBack();
    status = await readStatus(opened, options);
  }
  const warning = sealWarning(status);
  if (warning !== null) warn(warning);
  const page = (each: typeof status) => statusPage(each, screen);
  await print(formatAnswer(json, "status", status, page, (each) => statusData(each, screen)));
  // Exiting closes a local store that was only read, and is faster than closing it in order.
  if (!isRemote(place.address ?? place.home)) process.exit();
  await opened.close();
}

/** A store of an older format cannot be opened read-only: it is opened for writing, which migrates it. */
async function openReadOnly({ address, home, config }: StorePlace): Promise<Store> {
  const { encryption } = config;
  try {
    return await openStore(address ?? home, { encryption, readOnly: true });
  } catch (error) {
    if (!isHoldfastError(error, "STORE_READONLY")) throw error;
    return openStore(address ?? home, { encryption });
  }
}
