/** Pages for people: the inbox, the ledger, the fleet, and a session's past. */

import type { ResultOf } from "../operations/index.ts";
import { ago, statusWord, valueText } from "./goal-pages.ts";
import { commandToPaste, linesOf, type Screen, table, truncate } from "./screen.ts";

export function inboxPage({ items, leftOut }: ResultOf<"inbox">, screen: Screen): string {
  if (items.length === 0) return "nothing is undecided\n";
  const lines = items.flatMap(({ kind, what, since, command }) => [
    `${screen.paint.bold(kind.padEnd(9))} ${what}${since === null ? "" : `, ${ago(since)}`}`,
    `          ${commandToPaste(screen, command)}`,
  ]);
  return linesOf([...lines, leftOut === 0 ? "" : `${leftOut} more open calls: holdfast calls`]);
}

export function ledgerPage({ calls, cursor, searched }: ResultOf<"ledger">, screen: Screen): string {
  const more = cursor === null ? "" : `${searched} calls searched, there are more: --cursor ${cursor}\n`;
  if (calls.length === 0) return `no such call\n${more}`;
  const rows = calls.map(({ issuedAt, tool, args, status, session, callId, key, asked, note }) => [
    issuedAt.slice(0, 19),
    tool,
    truncate(valueText(args), 60),
    statusWord(status, screen.paint),
    asked === 1 ? "" : String(asked),
    session,
    callId,
    key,
    truncate(note ?? "", 60),
  ]);
  const head = ["issued", "tool", "arguments", "status", "asked", "session", "call", "key", "note"];
  return table(screen, head, rows, ["arguments", "key", "session", "note"]) + more;
}

function duration(ms: number | null): string {
  return ms === null ? "" : ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}

export function fleetPage(fleet: ResultOf<"fleet">, screen: Screen): string {
  const { running, tools, spending, humanWait, bytes, address } = fleet;
  const held = running.map(({ name, label, host, pid, token, remainingMs, dead }) => [
    name,
    label,
    `${host} ${pid}`,
    String(token),
    dead ? screen.paint.red("gone") : duration(remainingMs),
  ]);
  const times = tools.map(({ tool, calls, p50Ms, p99Ms, unknown, failed }) => [
    tool,
    String(calls),
    duration(p50Ms),
    duration(p99Ms),
    unknown === 0 ? "" : String(unknown),
    failed === 0 ? "" : String(failed),
  ]);
  const usd = spending.reduce((sum, each) => sum + each.usd, 0);
  return [
    linesOf([
      `${address}${bytes === null ? "" : `, ${(bytes / 1e6).toFixed(1)} MB`}`,
      `spent $${usd.toFixed(4)} (the last 24 hours, or --hours)`,
      humanWait.answers === 0
        ? ""
        : `people answered ${humanWait.answers} calls, half within ${duration(humanWait.p50Ms)}`,
    ]),
    held.length === 0
      ? "no process holds anything\n"
      : table(screen, ["lease", "holder", "process", "token", "left"], held, ["lease"]),
    times.length === 0
      ? ""
      : table(screen, ["tool", "calls", "p50", "p99", "unknown", "failed"], times, ["tool"]),
  ]
    .filter(Boolean)
    .join("\n");
}

export function eventPage({ seq, at, type, data }: ResultOf<"session event">, { paint }: Screen): string {
  return `${paint.bold(String(seq))} ${at} ${type}\n${JSON.stringify(data, null, 2)}\n`;
}

export function timelinePage({ lanes, bars }: ResultOf<"session timeline">, screen: Screen): string {
  if (lanes.length === 0) return "no events yet\n";
  const { paint } = screen;
  const lasted = (from: string, until: string | null): string =>
    until === null ? "so far" : duration(Date.parse(until) - Date.parse(from));
  return lanes
    .map(({ token, owner, host, pid, from, until, crashed, evidence }) => {
      const who = `token ${token}  ${owner ?? "earlier"}${host === null ? "" : ` (${host}, pid ${pid})`}`;
      const end = crashed ? paint.red(`crashed: ${evidence}`) : lasted(from, until);
      const rows = bars
        .filter((bar) => bar.token === token && bar.kind !== "gap")
        .map(({ kind, label, status, from: start, until: stop, attempt }) => [
          start.slice(11, 19),
          kind,
          label,
          statusWord(status, paint),
          (attempt ?? 1) > 1 ? `attempt ${attempt}` : "",
          lasted(start, stop),
        ]);
      const head = ["at", "what", "name", "status", "attempt", "took"];
      return `${paint.bold(who)}  ${end}\n${rows.length === 0 ? "" : table(screen, head, rows, ["name"])}`;
    })
    .join("\n");
}

export function transcriptPage(then: ResultOf<"session at">, { paint, width }: Screen): string {
  const { version, at, label, first, total, messages } = then;
  const shown = `messages ${first + 1} to ${first + messages.length} of ${total}`;
  const head = `version ${version}${label === null ? "" : ` ${label}`}, ${at}, ${shown}`;
  const lines = messages.flatMap(({ role, blocks }) =>
    blocks.map(({ kind, text, tool }) => {
      const mark = kind === "tool_call" ? `→ ${tool} ` : kind === "tool_result" ? "← " : "";
      return `${role.padEnd(9)} ${truncate(`${mark}${text}`, Math.min(width, 2_000) - 10)}`;
    }),
  );
  return linesOf([paint.bold(total === 0 ? `version ${version}, no messages` : head), ...lines]);
}
