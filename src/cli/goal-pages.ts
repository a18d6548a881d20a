/** Pages for people about goals, tasks and notes. */

import { age } from "../model/time.ts";
import type { ResultOf } from "../operations/index.ts";
import { commandToPaste, linesOf, type Paint, type Screen, table } from "./screen.ts";

type Task = ResultOf<"task show">;
type TaskRow = ResultOf<"task list">["tasks"][number];
type Blocker = ResultOf<"block list">["blockers"][number];
type Decision = ResultOf<"decisions">["decisions"][number];

export function ago(time: string): string {
  return `${age(Math.max(0, Date.now() - Date.parse(time)))} ago`;
}

function fields(rows: readonly (readonly [string, string | null])[], paint: Paint): string {
  const filled = rows.filter(([, text]) => text);
  const width = Math.max(0, ...filled.map(([label]) => label.length));
  return filled.map(([label, text]) => `${paint.dim(label.padEnd(width))}  ${text}\n`).join("");
}

export function statusWord(status: string, { green, yellow, red, dim }: Paint): string {
  if (["done", "completed", "accepted", "OK"].includes(status)) return green(status);
  if (["blocked", "failed", "waiting", "crashed", "MISSING"].includes(status)) return red(status);
  if (["submitted", "in_progress", "unknown", "active", "DRIFTED"].includes(status)) return yellow(status);
  return status === "dropped" ? dim(status) : status;
}

function taskTable(tasks: readonly TaskRow[], screen: Screen): string {
  const rows = tasks.map(({ id, status, phase, by, blockedBy, title }) => {
    return [id, statusWord(status, screen.paint), String(phase), by ?? blockedBy.join(" "), title];
  });
  return table(screen, ["id", "status", "phase", "who", "title"], rows, ["title", "who"]);
}

export function taskListPage(result: ResultOf<"task list">, screen: Screen): string {
  const { goal, tasks, hidden } = result;
  const stale = staleLine(result, screen);
  const all = `holdfast task list --all${screen.store ?? ""}`;
  const rest = hidden > 0 ? screen.paint.dim(`${hidden} not shown: ${all}\n`) : "";
  if (tasks.length === 0) return `${stale}${goal}: no matching tasks\n${rest}`;
  return stale + taskTable(tasks, screen) + rest;
}

export function taskPage(task: Task, { paint }: Screen): string {
  const { claim, previous, failure, submission, verdict } = task;
  return fields(
    [
      [task.id, `${paint.bold(task.title)}`],
      ["status", `${statusWord(task.status, paint)}${task.kind === "review" ? ", a review" : ""}`],
      ["blocked", task.blockedBy.join(", ")],
      ["phase", `${task.phase}${task.plan === null ? "" : `, plan ${task.plan}`}, wave ${task.wave}`],
      ["about", task.description],
      ["wanted", task.wanted.join("\n        ")],
      ["reviews", task.reviews.join(", ")],
      ["after", task.dependsOn.join(", ")],
      ["files", task.files.join(", ")],
      ["held by", claim && `${claim.by.name} since ${ago(claim.since)}${reason(claim.note)}`],
      [
        "before",
        previous && `${previous.by.name}, ${previous.ended} ${ago(previous.endedAt)}${reason(previous.why)}`,
      ],
      ["failure", failure && `${failure.error}${failure.retryable ? "" : " (do not retry)"}`],
      ["submitted", submission && `${submission.by.name} ${ago(submission.at)}: ${submission.summary ?? ""}`],
      ["evidence", submission?.files.map(({ path }) => path).join(", ") ?? null],
      [
        "verdict",
        verdict &&
          `${verdict.accepted ? "accepted" : "rejected"} by ${verdict.by.name}${reason(verdict.why)}`,
      ],
      ["origin", task.origins.join("\n        ")],
    ],
    paint,
  );
}

function reason(why: string | null): string {
  return why ? `: ${why}` : "";
}

export function taskLine({ id, title, status, by }: TaskRow, { paint }: Screen): string {
  return `${paint.bold(id)}  ${statusWord(status, paint)}${by === null ? "" : ` by ${by}`}  ${title}\n`;
}

export function goalPage(goal: ResultOf<"goal show">, screen: Screen): string {
  const { paint } = screen;
  const { position, progress, next } = goal;
  const place =
    position.phase === null
      ? "no phase yet"
      : `phase ${position.phase}/${progress.phases} ${position.phaseName}, ${position.status}`;
  const head = fields(
    [
      [goal.goal, paint.bold(goal.statement)],
      ["as of", goal.asOf && `${goal.asOf}, event ${goal.seq}`],
      ["at", `${place}${position.task === null ? "" : `, ${position.task}`}`],
      ["done", `${progress.tasksCompleted}/${progress.tasks} tasks, ${progress.percent}%`],
      ["next", next.tasks[0] ? `${next.tasks[0].id} ${next.tasks[0].title}` : next.why],
      ["noted", next.noted],
      ["questions", goal.questions.map(({ id, text }) => `${id} ${text}`).join("; ")],
      [
        "assumed",
        goal.assumptions
          .filter(({ status }) => status !== "confirmed")
          .map(({ id, text, status }) => `${id} ${text}${status === "refuted" ? " (refuted)" : ""}`)
          .join("; "),
      ],
      ["facts", goal.facts.map(({ key, value }) => `${key}=${valueText(value)}`).join(", ")],
    ],
    paint,
  );
  const phases = goal.phases.map(({ number, name, status, tasks, completed }) => {
    return [String(number), name, status, `${completed}/${tasks}`];
  });
  const parts = [
    warningLines(next, screen),
    head,
    phases.length > 0 ? table(screen, ["phase", "name", "status", "tasks"], phases, ["name"]) : "",
    goal.blockers.length > 0 ? blockerTable(goal.blockers, screen) : "",
    goal.decisions.length > 0 ? decisionTable(goal.decisions.slice(0, 5), screen) : "",
    goal.history.length > 0 ? historyTable(goal.history, screen) : "",
  ];
  return parts.filter(Boolean).join("\n");
}

export function goalLogPage({ lines, hidden }: ResultOf<"goal log">, screen: Screen): string {
  const rows = lines.map(({ seq, at, type, by, text }) => {
    return [String(seq), at.slice(0, 19).replace("T", " "), type, by, text];
  });
  const rest = hidden > 0 ? screen.paint.dim(`${hidden} more not shown\n`) : "";
  return table(screen, ["seq", "when", "event", "by", "what"], rows, ["what"]) + rest;
}

function historyTable(history: ResultOf<"goal show">["history"], screen: Screen): string {
  const rows = history.map(({ session, agent, status, startedAt, workingOn, handoffReason }) => {
    const word = statusWord(status, screen.paint);
    return [session, agent, word, ago(startedAt), workingOn ?? "", handoffReason ?? ""];
  });
  return table(screen, ["session", "agent", "status", "started", "task", "handed off"], rows, ["handed off"]);
}

export function importedPage(result: ResultOf<"goal import">, screen: Screen): string {
  const { goal, percent, contradictions, assumed, kept, renamedTo, position } = result;
  const lines = [
    `goal ${goal} imported: ${percent}%, at ${position.task ?? "no task"} (${position.status})`,
    ...(renamedTo === null ? [] : [`the imported file is now ${renamedTo}`]),
    ...contradictions.map((each) => `! ${each}`),
    ...assumed.map((each) => screen.paint.dim(`assumed: ${each}`)),
    ...(kept.length === 0 ? [] : [screen.paint.dim(`kept as facts: ${kept.join(", ")}`)]),
    `continue: ${commandToPaste(screen, `holdfast resume --goal ${goal}`)}`,
  ];
  return `${lines.join("\n")}\n`;
}

export function goalListPage({ goals }: ResultOf<"goal list">, screen: Screen): string {
  const first = 'holdfast goal new <name> "what to achieve"';
  if (goals.length === 0) return `no goals yet: ${commandToPaste(screen, first)}\n`;
  const rows = goals.map(({ goal, status, stale, updatedAt, title }) => {
    const word = statusWord(status ?? "active", screen.paint);
    return [goal, word, stale ? "stale" : "", ago(updatedAt), title ?? ""];
  });
  return table(screen, ["goal", "status", "age", "changed", "title"], rows, ["title"]);
}

/** Warnings that come before a goal's page: changes that are not merged, and what merges changed. */
function warningLines(next: Omit<ResultOf<"next">, "goal">, screen: Screen): string {
  const lines = [...next.notMerged.map((each) => `not merged: ${each}`), ...next.merged];
  return staleLine(next, screen) + lines.map((each) => `! ${each}\n`).join("");
}

function staleLine({ staleNotice }: { readonly staleNotice: string | null }, screen: Screen): string {
  if (staleNotice === null) return "";
  return `! ${staleNotice}, then: ${commandToPaste(screen, "holdfast resume --force")}\n`;
}

export function movePage({ goal, position, left, closed }: ResultOf<"goal move">, screen: Screen): string {
  const rest = left.map(
    (task) =>
      `! stays in the old phase: ${task.id} ${statusWord(task.status, screen.paint)}  ${task.title}\n`,
  );
  const back = closed && commandToPaste(screen, `holdfast goal move ${closed.number}`);
  const empty = closed
    ? `! phase ${closed.number} ${closed.name} had no tasks and counts as complete; go back: ${back}\n`
    : "";
  return `${goal} is in phase ${position.phase} ${position.phaseName}\n${rest.join("")}${empty}`;
}

export function nextPage(next: ResultOf<"next">, screen: Screen): string {
  const { outlook, why, tasks, noted } = next;
  const note = `${warningLines(next, screen)}${noted === null ? "" : `noted: ${noted}\n`}`;
  const [first] = tasks;
  if (!first) return `${note}nothing to claim (${outlook}): ${why}\n`;
  return `${note}${taskTable(tasks, screen)}${commandToPaste(screen, `holdfast task claim ${first.id}`)}\n`;
}

export function blockerTable(blockers: readonly Blocker[], screen: Screen): string {
  const rows = blockers.map(({ id, status, reportedAt, affects, description, workaround, resolution }) => [
    id,
    statusWord(status === "active" ? "blocked" : status, screen.paint).replace("blocked", "active"),
    ago(reportedAt),
    [
      ...affects.tasks,
      ...affects.phases.map((phase) => `phase ${phase}`),
      affects.goal ? "the whole goal" : "",
      ...affects.other,
    ]
      .filter(Boolean)
      .join(" "),
    [description, workaround && `workaround: ${workaround}`, resolution && `resolved: ${resolution}`]
      .filter(Boolean)
      .join("; "),
  ]);
  return table(screen, ["id", "status", "reported", "blocks", "what"], rows, ["what", "blocks"]);
}

export function decisionTable(decisions: readonly Decision[], screen: Screen): string {
  const rows = decisions.map(({ id, date, type, decision, context, reason, supersededBy, origin }) => {
    return [id, date, type, `${decision} for ${context}`, reason, supersededBy ?? "", origin ?? ""];
  });
  const head = ["id", "date", "type", "decision", "because", "replaced by", "origin"];
  return table(screen, head, rows, ["decision", "because", "origin"]);
}

export function factTable(facts: ResultOf<"facts">["facts"], screen: Screen): string {
  const first = "holdfast fact <key> <value> --source <where from>";
  if (facts.length === 0) return `no facts yet: ${commandToPaste(screen, first)}\n`;
  const rows = facts.map(({ key, value, source, by, at }) => {
    return [key, valueText(value), source, by.name, ago(at)];
  });
  return table(screen, ["key", "value", "source", "by", "when"], rows, ["value", "source"]);
}

export function valueText(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function resumePage(resumed: ResultOf<"resume">, screen: Screen): string {
  const { paint } = screen;
  const changed = resumed.files.filter(({ verdict }) => verdict !== "OK");
  const files = changed.map(({ path, verdict, why }) => {
    return `${paint.yellow("!")} ${path} ${statusWord(verdict, paint)}${why ? ` (${why})` : ""}\n`;
  });
  if (!resumed.begun) {
    const again = commandToPaste(screen, `holdfast resume --force --goal ${resumed.goal}`);
    return `${files.join("")}${paint.bold("not started")}: ${resumed.why}\nlook at that, then: ${again}\n`;
  }
  const end = commandToPaste(screen, `holdfast handoff --session ${resumed.session} --reason …`);
  const start = `${files.join("")}session ${resumed.session} started; end it with: ${end}\n`;
  return `${start}${resumedPlan(resumed, paint)}\n${resumed.briefing}\n`;
}

/** The protocol's three lines, then the plan: what it says about the task, and the pages to read. */
function resumedPlan(resumed: ResultOf<"resume">, paint: Paint): string {
  const { display, task, plan, summaries, implementations } = resumed;
  const built = implementations.map(
    ({ text, files }) => `${text}${files.map((each) => ` ${each}`).join("")}`,
  );
  const lines = [
    "",
    ...display,
    ...(built.length === 0 ? [] : [`Built: ${built.join("; ")}`]),
    ...summaries.flatMap(({ path, text }) => ["", paint.bold(path), text.trimEnd()]),
    ...(plan === null ? [] : ["", paint.bold(plan.path), plan.text.trimEnd()]),
    ...(task?.section ? ["", paint.bold(`Resume at ${task.id}`), task.section] : []),
  ];
  return `${lines.join("\n")}\n`;
}

export function questionLine(
  { id, text, answer }: Pick<ResultOf<"ask">, "id" | "text" | "answer">,
  { paint }: Screen,
): string {
  return `${paint.bold(id)}  ${text}${answer === null ? "" : `  ${paint.green(answer)}`}\n`;
}

export function assumptionLine(
  { id, text, status, evidence }: Pick<ResultOf<"assume">, "id" | "text" | "status" | "evidence">,
  { paint }: Screen,
): string {
  const verdict = status === "refuted" ? paint.red(status) : paint.green(status);
  return `${paint.bold(id)}  ${text}${status === "open" ? "" : `  ${verdict}: ${evidence}`}\n`;
}

export function eventsPage({ events }: ResultOf<"events">, screen: Screen): string {
  const rows = events.map(({ uid, type, by, role, at, origin }) => {
    return [uid.slice(0, 12), ago(at), type, by, role, origin ?? ""];
  });
  return table(screen, ["uid", "when", "event", "by", "role", "origin"], rows, ["by", "origin"]);
}

export function reviewPage({ waiting, accepted, signed }: ResultOf<"review">, screen: Screen): string {
  const lines = [
    ...accepted.map(({ what, by }) => `accepted  ${what}  by ${by}`),
    ...signed.map(({ what, by, at, origin }) => `counts  ${what}  by ${by} ${ago(at)}, ${origin ?? ""}`),
  ];
  const done = linesOf(lines);
  if (waiting.length === 0) return `${done}${accepted.length > 0 ? "" : "nothing waits to be confirmed\n"}`;
  const rows = waiting.map(({ uid, at, by, what, origin }) => {
    return [uid.slice(0, 12), ago(at), by, what, origin ?? ""];
  });
  const list = table(screen, ["uid", "when", "by", "what", "origin"], rows, ["what", "origin"]);
  const accept = commandToPaste(screen, "holdfast review --accept <uid>");
  const retract = commandToPaste(screen, "holdfast retract <uid> --why …");
  const about = "None of this has any effect here yet. Ask the people who are named, then:";
  return `${done}${list}${about}\n  it is theirs: ${accept}\n  it is not: ${retract}\n`;
}
