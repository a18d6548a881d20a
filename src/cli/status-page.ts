/** `status` for people: first what needs them, then how things stand, last what to type. */

import { type GoalStatus, movedLine, type Need, type Status, unfinishedLine } from "../operations/index.ts";
import { type Paint, type Screen, typed } from "./screen.ts";

const CELLS = 10;

export function statusPage(status: Status, screen: Screen): string {
  const { paint, store = "" } = screen;
  const isSaid = status.needs.some(({ command }) => command === status.next.command);
  const lines = [
    ...(status.moved === null ? [] : [`${paint.yellow(paint.bold("!"))} ${movedLine(status.moved)}`]),
    ...(status.unfinishedCopy === null
      ? []
      : [`${paint.yellow(paint.bold("!"))} ${unfinishedLine(status.unfinishedCopy)}`]),
    ...status.notTakenIn.map((each) => `${paint.yellow(paint.bold("!"))} not taken in: ${each}`),
    ...needLines(status.needs, screen),
    ...status.goals.flatMap((goal) => goalLines(goal, paint)),
    ...(status.otherGoals > 0 ? [paint.dim(`${status.otherGoals} more: holdfast goal list${store}`)] : []),
    ...sessionLine(status.sessions),
    ...(isSaid ? [] : [`next  ${status.next.what}  ${typed(screen, status.next.command)}`]),
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
    return `${paint.yellow(paint.bold("!"))} ${text}  ${typed(screen, command)}`;
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
