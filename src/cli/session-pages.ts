/** Pages for people about sessions, calls and the store. */

import { shellWord } from "../model/names.ts";
import type { ResultOf } from "../operations/index.ts";
import { ago, statusWord, valueText } from "./goal-pages.ts";
import { addStoreOption, commandToPaste, linesOf, type Screen, table, truncate } from "./screen.ts";

type Call = ResultOf<"calls">["calls"][number];
type ShownCall = ResultOf<"session show">["calls"][number];

/** Results of tools may be megabytes; `--json` has all of it. */
const MAX_CHARACTERS = 400;
const NAMED = 20;

function plural(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

function unitOf(count: number | undefined, unit: string): string {
  return count === 1 ? unit.replace(/s$/, "") : unit;
}

function activeWord(isRunning: boolean, isCrashed: boolean): string {
  return isRunning ? "running" : isCrashed ? "crashed" : "idle";
}

export function sessionListPage({ sessions, more }: ResultOf<"session list">, screen: Screen): string {
  if (sessions.length === 0) return "no sessions\n";
  const rows = sessions.map(
    ({ session, status, running, crashed, stale, openCalls, updatedAt, goal, parent, title, opening }) => [
      session,
      statusWord(status === "active" ? activeWord(running, crashed) : status, screen.paint),
      stale ? "stale" : "",
      openCalls === 0 ? "" : String(openCalls),
      ago(updatedAt),
      goal ?? "",
      parent ?? "",
      title ?? (opening === null ? "" : screen.paint.dim(`“${opening}”`)),
    ],
  );
  const head = ["session", "status", "age", "open calls", "changed", "goal", "part of", "title"];
  return `${table(screen, head, rows, ["title", "session"])}${more ? "there are more: --limit <n>\n" : ""}`;
}

export function sessionPage(session: ResultOf<"session show">, screen: Screen): string {
  const { paint } = screen;
  const { heldBy, goneHolder, budget, plan } = session;
  const spent = Object.entries(budget.spent).map(([unit, value]) => {
    const limit = budget.limit[unit as keyof typeof budget.limit];
    return `${value}${limit === undefined ? "" : ` of ${limit}`} ${unitOf(value, unit)}`;
  });
  const status = `${statusWord(session.status, paint)}${session.stale ? ", stale" : ""}`;
  const lines = [
    `${paint.bold(session.session)}  ${status}  ${session.title ?? ""}`,
    `${plural(session.messages, "message")}, version ${session.version}, changed ${ago(session.updatedAt)}`,
    queuedLine(session),
    heldBy ? `held by ${heldBy.label} (${heldBy.host}, pid ${heldBy.pid})` : "no process holds it",
    goneHolder ? `its process died (${goneHolder.label}, ${goneHolder.host}, pid ${goneHolder.pid})` : "",
    session.goal === null ? "" : `goal ${session.goal}`,
    session.parent === null ? "" : `started by ${session.parent}`,
    session.forkedFrom === null
      ? ""
      : `forked from ${session.forkedFrom} at version ${session.forkedAtVersion}`,
    session.effects === "on" ? "" : effectsOff(session.session, screen),
    spent.length === 0 ? "" : `spent ${spent.join(", ")}`,
    ...(plan?.steps.map(({ id, status, description }) => `  ${id} ${status}: ${description}`) ?? []),
  ];
  return linesOf(lines) + (session.calls.length === 0 ? "" : `\n${callTable(session.calls, screen)}`);
}

/** A session without a process reads its prompts only when its agent runs again. */
function queuedLine({ prompts, heldBy }: ResultOf<"session show">): string {
  if (prompts === 0) return "";
  const waits = prompts === 1 ? "1 prompt waits" : `${prompts} prompts wait`;
  return `${waits} for ${heldBy ? "its next turn" : "its agent to run again"}`;
}

export function forkPage(fork: ResultOf<"session fork">, screen: Screen): string {
  const { session, from, version, effects, laterEffects } = fork;
  return linesOf([
    `${session} forked from ${from} at version ${version}`,
    ...laterEffects.map(({ callId, tool, status }) => {
      const known = status === "completed" ? "happened later" : "may have happened";
      return `! ${tool} ${callId} ${known} in ${from}: the fork may do it again`;
    }),
    effects === "on" ? "" : effectsOff(session, screen),
  ]);
}

function effectsOff(session: string, screen: Screen): string {
  const command = commandToPaste(screen, `holdfast session effects ${shellWord(session)} on`);
  return `its effects are off: tools that change the world are refused; switch them on: ${command}`;
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
  const line = (mark: string, { role, text }: { role: string; text: string }): string =>
    truncate(`${mark} ${role}: ${text}`, width);
  const steps = diff.steps.flatMap(({ before, after }) => [
    before === null ? "" : paint.red(`- step ${before}`),
    after === null ? "" : paint.green(`+ step ${after}`),
  ]);
  const { before: oldSystem, after: newSystem } = diff.system;
  const system = (mark: string, text: string | null): string =>
    text === null || oldSystem === newSystem ? "" : truncate(`${mark} system: ${text}`, width);
  const units = new Set([...Object.keys(diff.spent.before), ...Object.keys(diff.spent.after)]);
  const spent = [...units].map((unit) => {
    const after = diff.spent.after[unit] ?? 0;
    return `spent ${diff.spent.before[unit] ?? 0} → ${after} ${unitOf(after, unit)}`;
  });
  return linesOf([
    paint.bold(`${diff.session} ${diff.before} → ${diff.after}`),
    paint.red(system("-", oldSystem)),
    paint.green(system("+", newSystem)),
    ...diff.removed.map((each) => paint.red(line("-", each))),
    ...diff.changed.flatMap(({ before, after }) => [
      paint.red(line("-", before)),
      paint.green(line("+", after)),
    ]),
    ...diff.added.map((each) => paint.green(line("+", each))),
    ...steps,
    ...spent,
    paint.dim(`${plural(diff.same, "message")} unchanged`),
  ]);
}

/** How a call got its outcome, and what is wrong with its result. An earlier doubt no longer matters. */
function outcomeNote({ status, settledBy, why, note, error, attempt }: ShownCall): string {
  if (status === "repeated") return note ?? "";
  if (status !== "completed") return error ?? why ?? "";
  return [note, howSettled(settledBy, why, attempt)].filter(Boolean).join("; ");
}

function howSettled(settledBy: string | null, why: string | null, attempt: number): string {
  if (settledBy === "person") return why ?? "confirmed by a person";
  if (settledBy === "verify") return "confirmed by its verify";
  if (settledBy === "late") return "its answer came late";
  return attempt > 1 ? `answered at attempt ${attempt}` : (why ?? "");
}

function callTable(calls: readonly ShownCall[], screen: Screen): string {
  const rows = calls.map((each) => [
    each.callId,
    each.tool,
    statusWord(each.status, screen.paint),
    ago(each.issuedAt),
    truncate(valueText(each.args), MAX_CHARACTERS),
    truncate(each.open ? (each.why ?? "") : outcomeNote(each), MAX_CHARACTERS),
  ]);
  return table(screen, ["call", "tool", "status", "issued", "args", "why"], rows, ["args", "why"]);
}

/** The open calls of a sub-agent, each with its session, which `resolve` needs. */
function innerCalls({ subAgentCalls }: Call): string {
  const named = subAgentCalls
    .slice(0, NAMED)
    .map(({ tool, callId, session }) => `${tool} ${callId} of session ${session}`);
  const more = subAgentCalls.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function whatHappensNext(call: Call): string {
  const { open, running, cancelled, effect, grantedBy, waitsForSubAgent } = call;
  if (!open) return "";
  if (waitsForSubAgent && !running)
    return `resumes once ${innerCalls(call)} is resolved and its agent runs again`;
  if (cancelled) return "its session is cancelled, so it is not retried";
  if (call.approved) return `${grantedBy} approved it: the next run of its session runs it`;
  if (grantedBy !== null)
    return `${grantedBy} allowed another attempt: the next run of its session retries it`;
  if (running) return "it is running";
  if (effect !== "mutate") return "its session settles it when it runs again";
  return "its session verifies it when it runs again; if the tool cannot tell, it waits for you";
}

function resolveCommands(named: string, call: Call, { cyan }: Screen["paint"]): string[] {
  const { unbegun, cancelled, subAgentCalls } = call;
  if (unbegun) {
    const deny = `refuse it:   ${cyan(`holdfast deny ${named}`)}`;
    return cancelled ? [deny] : [`let it run:  ${cyan(`holdfast approve ${named}`)}`, deny];
  }
  const all = { "it happened": "landed", "retry it": "retry", "it did not happen": "failed" };
  // While calls of its sub-agent are open, a call that is not cancelled can only be retried.
  const ways = Object.entries(all).filter(([, outcome]) => {
    return outcome === "retry" ? !cancelled : cancelled || subAgentCalls.length === 0;
  });
  const width = Math.max(...ways.map(([meaning]) => meaning.length));
  return ways.map(([meaning, outcome]) => {
    return `${`${meaning}:`.padEnd(width + 1)}  ${cyan(`holdfast resolve ${named} ${outcome}`)}`;
  });
}

export function callsPage(result: ResultOf<"calls">, screen: Screen): string {
  const { calls, namespaces } = result;
  const { paint, width } = screen;
  const isSpanning = namespaces.length > 1;
  const covered = isSpanning ? ` in ${namespaces.length} namespaces: ${namespaces.join(", ")}` : "";
  if (calls.length === 0) return `no open calls${covered}\n`;
  if (!calls.some(({ open }) => open)) return callTable(calls, screen);
  const rows = calls.map((each) => {
    const place = isSpanning ? ` in namespace ${each.namespace}` : "";
    // The options that were typed already name the namespace, unless the page covers several.
    const store = (screen.store ?? "") + (isSpanning ? ` --namespace ${each.namespace}` : "");
    const { callId, session, tool, status, issuedAt, args, key, why, verify, shared } = each;
    const isWaiting = status === "waiting" && !each.waitsForSubAgent;
    const state = isWaiting ? paint.red(paint.bold("WAITS FOR YOU")) : statusWord(status, paint);
    // `why` already contains the error of a failed verify.
    const isInWhy = verify !== null && why?.endsWith(verify.slice("error: ".length));
    const known = [why, verify && !isInWhy && `verify: ${verify}`].filter(Boolean).join("; ");
    const named = `${shellWord(callId)}${shared ? ` --session ${shellWord(session)}` : ""}${store}`;
    // No question if a person has already allowed a retry.
    const isAsked = isWaiting || (each.unattended && each.grantedBy === null && !each.waitsForSubAgent);
    const isRefused = isAsked && each.subAgentCalls.length > 0;
    const answers = [
      isWaiting ? "" : whatHappensNext(each),
      isRefused ? `landed or failed is possible once ${innerCalls(each)} is resolved` : "",
      ...(isAsked ? resolveCommands(named, each, paint) : []),
    ].filter(Boolean);
    const since = status === "issued" ? state : `${state}, issued`;
    const lines = [
      `${paint.bold(callId)} ${tool} ${truncate(valueText(args), 60)}  ${since} ${ago(issuedAt)}`,
      known === "" ? "" : truncate(`  ${known}`, Math.min(width, MAX_CHARACTERS)),
      `  session ${session}${place}, key ${key}`,
      screen.page === undefined ? "" : `  ${screen.page}/session/${encodeURIComponent(session)}?tab=calls`,
      ...answers.map((answer) => `  ${answer}`),
    ];
    return lines.filter(Boolean).join("\n");
  });
  return `${rows.join("\n")}\n${linesOf(result.unreadable.map(unreadableLine))}`;
}

function unreadableLine({ namespace, session, why }: ResultOf<"calls">["unreadable"][number]): string {
  return `! not decoded: session ${session} of namespace ${namespace} (${why})`;
}

export function approvedPage({ callId, approvedUntil, goesOn }: ResultOf<"approve">): string {
  const until = approvedUntil === null ? "" : ` until ${approvedUntil}`;
  return `${callId} approved${until}; ${continuation(goesOn)}\n`;
}

export function deniedPage({ callId, goesOn }: ResultOf<"deny">): string {
  return `${callId} denied; ${continuation(goesOn)}\n`;
}

function continuation(goesOn: boolean): string {
  return goesOn ? "its session continues when it next runs" : "its session stays cancelled";
}

export function resolvedPage({ callId, outcome, goesOn, hasResult }: ResultOf<"resolve">): string {
  const what = outcome === "retry" ? "may be retried" : outcome;
  const isNull = outcome === "landed" && goesOn && !hasResult;
  const noResult = isNull ? "no result was recorded: the agent gets null\n" : "";
  return `${callId} ${what}; ${continuation(goesOn)}\n${noResult}`;
}

function rehearsedPage(sessions: NonNullable<ResultOf<"check">["sessions"]>, { paint }: Screen): string {
  const bad = sessions.filter(({ problems }) => problems.length > 0);
  const skipped = sessions.filter(({ verdict }) => verdict === "skipped");
  const fine = sessions.length - bad.length - skipped.length;
  const hasDiverged = bad.some(({ verdict }) => verdict === "diverges");
  return linesOf([
    ...bad.flatMap(({ session, problems }) =>
      problems.map(({ kind, what }) => `${paint.red("!")} ${session} ${paint.yellow(kind)}: ${what}`),
    ),
    ...skipped.map(({ session }) => `- ${session} skipped: the program did not continue it`),
    `${plural(fine, "live session")} ok, ${bad.length} not, ${skipped.length} skipped`,
    hasDiverged ? 'Let them finish with the old release, or deploy with onDiverge: "adopt".' : "",
  ]);
}

export function checkPage(found: ResultOf<"check">, screen: Screen): string {
  const { ok, problems, files, strays, notMerged, sessions } = found;
  const { paint } = screen;
  if (sessions) return rehearsedPage(sessions, screen);
  const changed = files.filter(({ verdict }) => verdict !== "OK");
  return linesOf([
    ...problems.map(({ invariant, where, what }) => `${paint.red("!")} ${invariant} ${where}: ${what}`),
    ...changed.map(({ goal, path, verdict, why }) => {
      const state = `${statusWord(verdict, paint)}${why ? ` (${why})` : ""}`;
      return `${paint.yellow("!")} ${path} ${state}, recorded by ${goal}`;
    }),
    ...strays.map((each) => `${paint.yellow("!")} ${each}`),
    ...notMerged.map((each) => `${paint.yellow("!")} not merged: ${each}`),
    ok ? paint.green(`ok, ${plural(files.length, "recorded file")} unchanged`) : "",
  ]);
}

export function verifyPage(found: ResultOf<"verify">, { paint }: Screen): string {
  const { ok, streams, writes, unlinked, problems, digest, saved, against } = found;
  const signed = against?.signedBy ? `signed by ${against.signedBy}` : "whose signature was not checked";
  return linesOf([
    ...problems.map(({ where, what }) => `${paint.red("!")} ${where}: ${what}`),
    ok ? paint.green(`ok, ${writes} records in ${plural(streams, "stream")} are as they were written`) : "",
    unlinked > 0 ? `${plural(unlinked, "stream")} of other programs have no links and prove nothing` : "",
    against ? `compared with the heads of ${against.at}, ${signed}` : "",
    `digest ${digest}`,
    saved === null ? "" : `heads saved: ${saved}. Keep it where nobody who writes the store can`,
  ]);
}

export function doctorData({ ok, findings }: ResultOf<"doctor">): ResultOf<"doctor"> {
  const withStore = (hint: string | null) => (hint === null ? null : addStoreOption(hint));
  return { ok, findings: findings.map((each) => ({ ...each, hint: withStore(each.hint) })) };
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

const WHY_KEPT = {
  open: "it has open calls",
  held: "it is in use",
  needed: "another session or goal needs it",
  changed: "it was changed during the prune",
} as const;

export function prunePage(report: ResultOf<"prune">, { paint }: Screen): string {
  const { dryRun, removed, hidden, spared, artifacts } = report;
  const verb = dryRun ? "would remove" : "removed";
  const gone = [...removed, ...hidden];
  return linesOf([
    `${verb} ${plural(gone.length, "session")}${gone.length === 0 ? "" : `: ${someOf(gone)}`}`,
    ...spared.map(({ id, why }) => `kept ${id}: ${WHY_KEPT[why]}`),
    artifacts === 0 ? "" : `removed ${plural(artifacts, "artifact")} that nothing refers to`,
    dryRun ? paint.dim("nothing was removed") : "",
  ]);
}

export function migratePage({ address, dryRun, store, files }: ResultOf<"migrate">): string {
  const verb = dryRun ? "would migrate" : "migrated";
  return linesOf([
    store ? `${verb} ${address}` : `${address} is up to date`,
    ...files.map(({ file, from, to, backup }) => {
      const kept = backup === null ? "" : `; backup: ${backup}`;
      return `${verb} ${file} from version ${from} to ${to}${kept}`;
    }),
  ]);
}

export function exportPage(report: ResultOf<"export">): string {
  const { file, streams, writes, left, damaged, supervisorNotes } = report;
  return linesOf([
    `${file}: ${streams} goals and sessions, ${writes} writes${ofNamespaces(report)}`,
    ...damaged.map(({ stream, why }) => `! left out, cannot be read: ${stream} (${why})`),
    ...left.map((each) => `! left out: ${each}`),
    supervisorNotes === 0
      ? ""
      : `left out ${plural(supervisorNotes, "supervisor record")}, which a supervisor creates again`,
  ]);
}

export function movedPage({ from, to, rows, afterwards, abandoned, undone }: ResultOf<"move">): string {
  if (abandoned || undone) return `${from} takes writes\n${afterwards}\n`;
  const what = `${from} moved to ${to} (${rows["stream"] ?? 0} goals and sessions)`;
  return `${what}\nthe old one takes no more writes\n${afterwards}\n`;
}

/** Empty for the default namespace alone, which people without tenants need not know of. */
const CLAIMS_SHOWN = 10;

/** Names the keys that the file claims: a call that needs one of them does not run any more. */
export function importPage(report: ResultOf<"import">): string {
  const { file, streams, writes, added, claims } = report;
  const all = `${file}: ${streams} goals and sessions, ${writes} writes${ofNamespaces(report)}`;
  const isKnown = added === 0 && writes > 0 && claims.length === 0;
  if (isKnown) return `${all}, nothing new: all of it was imported before\n`;
  const shown = [...claims].sort((a, b) => Number(a.hasCall) - Number(b.hasCall)).slice(0, CLAIMS_SHOWN);
  const more = claims.length - shown.length;
  return linesOf([
    `${all} imported${added < writes ? `, ${added} of them new` : ""}`,
    claims.length === 0 ? "" : `keys that it claims: ${claims.length}`,
    ...shown.map(({ stream, key, hasCall }) => {
      return `  ${key}  ${stream}${hasCall ? "" : ", removed: the file has no call for it"}`;
    }),
    more === 0 ? "" : `  ${more} more: --json lists them`,
  ]);
}

function ofNamespaces({ namespaces }: { readonly namespaces: readonly string[] }): string {
  if (namespaces.join() === "default") return "";
  const word = namespaces.length === 1 ? "namespace" : "namespaces";
  return ` of ${word} ${namespaces.join(", ")}`;
}

type Restored = ResultOf<"restore">;

export function restorePage(found: Restored, screen: Screen): string {
  const { address, rewound, accepted, lastWriteAt, isComplete, sessions, calls, open } = found;
  if (!rewound) return `${address}: not older than it was; there is nothing to accept\n`;
  // The record notes a change of a call without its tool; the copy may know the call.
  const toolOf = new Map(open.map(({ callId, tool }) => [callId, tool]));
  const line = ({ namespace, session, callId, tool, status, at }: Restored["calls"][number]): string => {
    const where = namespace === "default" ? session : `${namespace}/${session}`;
    const when = at === null ? "" : `, ${at}`;
    const name = tool ?? toolOf.get(callId) ?? "unknown tool";
    return `  ${name} ${callId} of ${where}: ${status ?? "changed"}${when}`;
  };
  const command = commandToPaste(screen, "holdfast restore --accept");
  return linesOf([
    `${address}: an older copy, without writes up to ${lastWriteAt}`,
    ...sessions.map(({ stream, seq, knownSeq }) => `  ${stream} ends at event ${seq}, not ${knownSeq}`),
    calls.length === 0 ? "no call since is known" : "calls since, which this copy does not know:",
    ...calls.map(line),
    isComplete ? "" : "there may be more: the record does not reach back to this copy",
    open.length === 0 ? "" : "calls that were open in this copy, and may have happened since:",
    ...open.map(line),
    accepted
      ? "accepted: the store takes writes again. Check these calls outside before their agents run again."
      : `nothing was changed. Put the newer store back, or accept this copy: ${command}`,
  ]);
}

export function erasePage({ dryRun, erased, spared }: ResultOf<"session erase">): string {
  const word = dryRun ? "would be erased" : "erased";
  return linesOf([
    ...erased.map((id) => `${id} ${word}`),
    ...spared.map(({ id, why }) => `! ${id} not erased: ${why}`),
    spared.length > 0 ? "answer their calls or stop their processes, then erase them again" : "",
    erased.length + spared.length === 0 ? "no session matches" : "",
  ]);
}

export function vacuumPage({ address, artifacts, before, after, note }: ResultOf<"vacuum">): string {
  const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  return linesOf([
    artifacts === 0 ? "" : `${artifacts} artifacts that nothing refers to were removed`,
    `${address}: ${megabytes(Math.max(0, before - after))} given back, ${megabytes(after)} left`,
    note ?? "",
  ]);
}
