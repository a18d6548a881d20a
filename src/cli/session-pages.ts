/** What the answers about sessions, calls and the store look like to a person. */

import { shellWord } from "../model/stream/index.ts";
import type { ResultOf } from "../operations/index.ts";
import { ago, statusWord, valueText } from "./goal-pages.ts";
import { addStoreOption, commandToPaste, type Screen, table, truncate } from "./screen.ts";

type Call = ResultOf<"calls">["calls"][number];
type ShownCall = ResultOf<"session show">["calls"][number];

/** What somebody's tool or vendor said may be megabytes; `--json` has all of it. */
const LONGEST = 400;
const NAMED = 20;

function counted(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

/** `turns` and `tokens`, of which there may be one. */
function unitOf(count: number | undefined, unit: string): string {
  return count === 1 ? unit.replace(/s$/, "") : unit;
}

function activeWord(isRunning: boolean, isCrashed: boolean): string {
  return isRunning ? "running" : isCrashed ? "crashed" : "idle";
}

export function sessionListPage({ sessions, more }: ResultOf<"session list">, screen: Screen): string {
  if (sessions.length === 0) return "no sessions\n";
  const rows = sessions.map(
    ({ session, status, running, crashed, stale, openCalls, updatedAt, goal, parent, title }) => [
      session,
      statusWord(status === "active" ? activeWord(running, crashed) : status, screen.paint),
      stale ? "stale" : "",
      openCalls === 0 ? "" : String(openCalls),
      ago(updatedAt),
      goal ?? "",
      parent ?? "",
      title ?? "",
    ],
  );
  const head = ["session", "status", "age", "open calls", "touched", "goal", "part of", "title"];
  return `${table(screen, head, rows, ["title", "session"])}${more ? "more: --limit\n" : ""}`;
}

export function sessionPage(session: ResultOf<"session show">, screen: Screen): string {
  const { paint } = screen;
  const { heldBy, goneHolder, budget, plan } = session;
  const spent = Object.entries(budget.spent).map(([unit, value]) => {
    const limit = budget.limit[unit as keyof typeof budget.limit];
    return `${value}${limit === undefined ? "" : ` of ${limit}`} ${unitOf(value, unit)}`;
  });
  const lines = [
    `${paint.bold(session.session)}  ${statusWord(session.status, paint)}${session.stale ? ", stale" : ""}  ${session.title ?? ""}`,
    `${counted(session.messages, "message")}, version ${session.version}, touched ${ago(session.updatedAt)}`,
    heldBy ? `held by ${heldBy.label} (${heldBy.host}, pid ${heldBy.pid})` : "held by nobody",
    goneHolder ? `its process is gone (${goneHolder.label}, ${goneHolder.host}, pid ${goneHolder.pid})` : "",
    session.goal === null ? "" : `goal ${session.goal}`,
    session.parent === null ? "" : `started by ${session.parent}`,
    session.forkedFrom === null
      ? ""
      : `forked from ${session.forkedFrom} at version ${session.forkedAtVersion}`,
    session.effects === "on" ? "" : effectsOff(session.session, screen),
    spent.length === 0 ? "" : `spent ${spent.join(", ")}`,
    ...(plan?.steps.map(({ id, status, description }) => `  ${id} ${status}: ${description}`) ?? []),
  ];
  const calls = session.calls.length === 0 ? "" : `\n${callTable(session.calls, screen)}`;
  return `${lines.filter(Boolean).join("\n")}\n${calls}`;
}

export function forkPage(fork: ResultOf<"session fork">, screen: Screen): string {
  const { session, from, version, effects, laterEffects } = fork;
  const lines = [
    `${session} forked from ${from} at version ${version}`,
    ...laterEffects.map(({ callId, tool, status }) => {
      const known = status === "completed" ? "happened later" : "may have happened";
      return `! ${tool} ${callId} ${known} in ${from}: the fork may do it again`;
    }),
    effects === "on" ? "" : effectsOff(session, screen),
  ];
  return `${lines.filter(Boolean).join("\n")}\n`;
}

function effectsOff(session: string, screen: Screen): string {
  return `its effects are off: tools that change the world are refused; switch them on: ${commandToPaste(screen, `holdfast session effects ${session} on`)}`;
}

export function logPage({ lines }: ResultOf<"session log">, { paint, width }: Screen): string {
  let day = "";
  return lines
    .map(({ at, word, text }) => {
      const today = at.slice(0, 10);
      const head = today === day ? "" : `${paint.dim(today)}\n`;
      day = today;
      const label = word.padEnd(10);
      const isBad = ["unknown", "waits", "failed", "cancelled"].includes(word);
      const shown = isBad ? paint.red(label) : label;
      return `${head}${paint.dim(at.slice(11, 19))} ${shown} ${truncate(text, width - 20)}\n`;
    })
    .join("");
}

export function versionsPage({ versions }: ResultOf<"session versions">, screen: Screen): string {
  if (versions.length === 0) return "no versions yet\n";
  const rows = versions.map(({ version, at, label, seq }) => [String(version), at, label ?? "", String(seq)]);
  return table(screen, ["version", "at", "label", "seq"], rows, ["label"]);
}

export function diffPage(diff: ResultOf<"session diff">, { paint, width }: Screen): string {
  const said = (mark: string, { role, text }: { role: string; text: string }): string =>
    truncate(`${mark} ${role}: ${text}`, width);
  const steps = diff.steps.flatMap(({ before, after }) => [
    before === null ? "" : paint.red(`- step ${before}`),
    after === null ? "" : paint.green(`+ step ${after}`),
  ]);
  const units = new Set([...Object.keys(diff.spent.before), ...Object.keys(diff.spent.after)]);
  const spent = [...units].map((unit) => {
    const after = diff.spent.after[unit] ?? 0;
    return `spent ${diff.spent.before[unit] ?? 0} → ${after} ${unitOf(after, unit)}`;
  });
  const lines = [
    paint.bold(`${diff.session} ${diff.before} → ${diff.after}`),
    ...diff.removed.map((each) => paint.red(said("-", each))),
    ...diff.changed.flatMap(({ before, after }) => [
      paint.red(said("-", before)),
      paint.green(said("+", after)),
    ]),
    ...diff.added.map((each) => paint.green(said("+", each))),
    ...steps,
    ...spent,
    paint.dim(`${counted(diff.same, "message")} the same`),
  ];
  return `${lines.filter(Boolean).join("\n")}\n`;
}

/** Why it was in doubt once says nothing of a call that has its outcome; what a person said of that does. */
function endedHow({ status, settledBy, why, error, attempt }: ShownCall): string {
  if (status !== "completed") return error ?? why ?? "";
  if (settledBy === "person") return why ?? "a person says that it happened";
  if (settledBy === "verify") return "its tool found that it had happened";
  if (settledBy === "late") return "its answer came late";
  // One that was never in doubt has a remark on its result there, if anything.
  return attempt > 1 ? `answered at attempt ${attempt}` : (why ?? "");
}

function callTable(calls: readonly ShownCall[], screen: Screen): string {
  const rows = calls.map((each) => [
    each.call,
    each.tool,
    statusWord(each.status, screen.paint),
    ago(each.issuedAt),
    truncate(valueText(each.args), LONGEST),
    truncate(each.open ? (each.why ?? "") : endedHow(each), LONGEST),
  ]);
  return table(screen, ["call", "tool", "status", "issued", "args", "why"], rows, ["args", "why"]);
}

/** Calls of a sub-agent, each with its session: that is where a person answers. */
function namedBelow({ subAgentCalls }: Call): string {
  const named = subAgentCalls
    .slice(0, NAMED)
    .map(({ tool, call, session }) => `${tool} ${call} of session ${session}`);
  const more = subAgentCalls.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function whatComes(call: Call): string {
  const { open, running, cancelled, effect, grantedBy, goesOnByItself } = call;
  if (!open) return "";
  if (goesOnByItself && !running)
    return `goes on by itself once ${namedBelow(call)} is answered and its agent is run again`;
  if (cancelled) return "its session was cancelled, and is not run any more";
  if (grantedBy !== null)
    return `${grantedBy} allowed another attempt: the next run of its session tries it again`;
  if (running) return "its session is at it right now";
  if (effect !== "mutate") return "its session finds out when it runs again";
  return "its session looks into it when it runs again; where the tool cannot tell, it waits for you";
}

/** A command on each line, whole, so that it can be pasted. */
function waysToAnswer(named: string, call: Call, { cyan }: Screen["paint"]): string[] {
  const { unbegun, cancelled, subAgentCalls } = call;
  const all = unbegun
    ? { "let it run": "retry", "refuse it": "failed" }
    : { "it happened": "landed", "try once more": "retry", "it did not happen": "failed" };
  // One that was cancelled is not tried again; of another nothing else can be said before its sub-agent's calls are answered.
  const ways = Object.entries(all).filter(([, outcome]) => {
    return outcome === "retry" ? !cancelled : cancelled || subAgentCalls.length === 0;
  });
  const width = Math.max(...ways.map(([meaning]) => meaning.length));
  return ways.map(([meaning, outcome]) => {
    return `${`${meaning}:`.padEnd(width + 1)}  ${cyan(`holdfast resolve ${named} ${outcome}`)}`;
  });
}

/** Each call with what is known of it and the ways to answer: this is what a person reads before deciding. */
export function callsPage({ calls }: ResultOf<"calls">, screen: Screen): string {
  const { paint, width, store = "" } = screen;
  if (calls.length === 0) return "no open calls\n";
  if (!calls.some(({ open }) => open)) return callTable(calls, screen);
  const rows = calls.map((each) => {
    const { call, session, tool, status, issuedAt, args, key, why, verify, shared } = each;
    const isWaiting = status === "waiting" && !each.goesOnByItself;
    const state = isWaiting ? paint.red(paint.bold("WAITS FOR YOU")) : statusWord(status, paint);
    // A verify that failed for good is the reason already.
    const isSaid = verify !== null && why?.endsWith(verify.slice("error: ".length));
    const known = [why, verify && !isSaid && `verify: ${verify}`].filter(Boolean).join("; ");
    const named = `${shellWord(call)}${shared ? ` --session ${shellWord(session)}` : ""}${store}`;
    // What a person has allowed already is not asked again.
    const isAsked = isWaiting || (each.unattended && each.grantedBy === null && !each.goesOnByItself);
    const isRefused = isAsked && each.subAgentCalls.length > 0;
    const answers = [
      isWaiting ? "" : whatComes(each),
      isRefused ? `whether it happened can be said once ${namedBelow(each)} is answered` : "",
      ...(isAsked ? waysToAnswer(named, each, paint) : []),
    ].filter(Boolean);
    const since = status === "issued" ? state : `${state}, issued`;
    const lines = [
      `${paint.bold(call)} ${tool} ${truncate(valueText(args), 60)}  ${since} ${ago(issuedAt)}`,
      known === "" ? "" : truncate(`  ${known}`, Math.min(width, LONGEST)),
      `  session ${session}, key ${key}`,
      ...answers.map((answer) => `  ${answer}`),
    ];
    return lines.filter(Boolean).join("\n");
  });
  return `${rows.join("\n")}\n`;
}

export function resolvedPage({ call, outcome, goesOn, hasResult }: ResultOf<"resolve">): string {
  const said = outcome === "retry" ? "may be tried once more" : outcome;
  const then = goesOn ? "its session goes on when it next runs" : "its session was cancelled, and stays so";
  const isNull = outcome === "landed" && goesOn && !hasResult;
  return `${call} ${said}; ${then}\n${isNull ? "no result was recorded: the agent is told null\n" : ""}`;
}

export function checkPage({ ok, problems, files, notTakenIn }: ResultOf<"check">, { paint }: Screen): string {
  const changed = files.filter(({ verdict }) => verdict !== "OK");
  const lines = [
    ...problems.map(({ invariant, where, what }) => `${paint.red("!")} ${invariant} ${where}: ${what}`),
    ...changed.map(({ goal, path, verdict, why }) => {
      return `${paint.yellow("!")} ${path} ${statusWord(verdict, paint)}${why ? ` (${why})` : ""}, recorded by ${goal}`;
    }),
    ...notTakenIn.map((each) => `${paint.yellow("!")} not taken in: ${each}`),
    ok
      ? paint.green(
          `all is well, ${counted(files.length, "recorded file")} as ${files.length === 1 ? "it was" : "they were"}`,
        )
      : "",
  ];
  return `${lines.filter(Boolean).join("\n")}\n`;
}

/** Its hints reach the store that was named. */
export function doctorData({ ok, findings }: ResultOf<"doctor">): ResultOf<"doctor"> {
  return {
    ok,
    findings: findings.map((each) => ({
      ...each,
      hint: each.hint === null ? null : addStoreOption(each.hint),
    })),
  };
}

export function doctorPage(found: ResultOf<"doctor">, { paint }: Screen): string {
  return doctorData(found)
    .findings.map(({ name, ok, what, hint }) => {
      const mark = ok ? paint.green("ok") : paint.red("!!");
      return `${mark} ${name.padEnd(7)} ${what}\n${hint === null ? "" : `           ${hint}\n`}`;
    })
    .join("");
}

function someOf(ids: readonly string[]): string {
  const more = ids.length - NAMED;
  return ids.slice(0, NAMED).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

const WHY_SPARED = {
  open: "it has open calls",
  held: "it is in use",
  needed: "what it works for is not finished",
  changed: "it was written to meanwhile",
} as const;

export function prunePage(report: ResultOf<"prune">, { paint }: Screen): string {
  const { dryRun, removed, hidden, spared, artifacts } = report;
  const verb = dryRun ? "would remove" : "removed";
  const gone = [...removed, ...hidden];
  const lines = [
    `${verb} ${counted(gone.length, "session")}${gone.length === 0 ? "" : `: ${someOf(gone)}`}`,
    ...spared.map(({ id, why }) => `spared ${id}: ${WHY_SPARED[why]}`),
    artifacts === 0 ? "" : `removed ${counted(artifacts, "artifact")} that nothing refers to`,
    dryRun ? paint.dim("nothing was removed") : "",
  ];
  return `${lines.filter(Boolean).join("\n")}\n`;
}

export function migratePage({ address, dryRun, store, files }: ResultOf<"migrate">): string {
  const verb = dryRun ? "would bring" : "brought";
  const lines = [
    store ? `${verb} ${address} up to date` : `${address} is up to date`,
    ...files.map(({ file, from, to, backup }) => {
      return `${verb} ${file} from version ${from} to ${to}${backup === null ? "" : `, the old one is ${backup}`}`;
    }),
  ];
  return `${lines.join("\n")}\n`;
}

export function exportPage(report: ResultOf<"export">): string {
  const { file, streams, writes, left, damaged, supervisorNotes } = report;
  const notes = counted(supervisorNotes, "note");
  return [
    `${file}: ${streams} goals and sessions, ${writes} writes`,
    ...damaged.map(({ stream, why }) => `! left out, because it is damaged: ${stream} (${why})`),
    ...left.map((each) => `! left out: ${each}`),
    ...(supervisorNotes === 0
      ? []
      : [`without ${notes} of supervisors on their workers, which a supervisor makes anew`]),
  ]
    .map((each) => `${each}\n`)
    .join("");
}
