/** Commands on goals, tasks, blockers, decisions, facts and recorded files. */

import type { ResultOf } from "../operations/index.ts";
import { type ArgumentRow, type Command, command, list, type OptionRow } from "./command.ts";
import { Misuse } from "./failure.ts";
import * as page from "./goal-pages.ts";
import { commandToPaste, linesOf, type Screen } from "./screen.ts";
import { confirmed, needsYes } from "./store-commands.ts";

const TASK: ArgumentRow = ["<task>", "its id: T-014 or 14"];
const BLOCKER: ArgumentRow = ["<blocker>", "its id: B-002"];
const WHAT: ArgumentRow = ["<what>", "what blocks it", "description"];
const SESSION: OptionRow = ["--session <id>", "your session, if several have your name"];
const WHY: OptionRow = ["--why <text>", "why", "required"];
const WITH_RESOLVED: readonly OptionRow[] = [["--all", "include resolved blockers"]];

export const noteCommands: readonly Command[] = [
  command("decide", "record a decision", {
    args: [["<decision>", "what was decided"]],
    options: [
      ["--context <text>", "what it was needed for", "required"],
      ["--reason <text>", "why", "required"],
      ["--type <type>", "technology, architecture (default), trade-off, preference, constraint"],
      ["--alternative <option...>", 'as "option: why not"', "optional", "alternatives"],
      ["--final", "it cannot be reversed"],
      ["--file <path...>", "files it is about", "optional", "files"],
      ["--supersedes <decision>", "the decision that this one replaces"],
    ],
    adjust: ({ final, ...fields }) => ({ ...fields, reversible: final !== true }),
    page: ({ id, decision, context }) => `${id}  ${decision} for ${context}\n`,
  }),
  command("decisions", "list decisions", {
    args: [["[words...]", "words that it must contain"]],
    options: [
      ["--type <type>", "only of this type"],
      ["--file <path>", "only about this file"],
      ["--superseded", "include replaced decisions"],
    ],
    adjust: ({ words, ...fields }) => ({ ...fields, text: list(words)?.join(" ") }),
    page: ({ decisions }, screen) =>
      decisions.length === 0 ? "no matching decisions\n" : page.decisionTable(decisions, screen),
  }),
  command("fact", "record a fact", {
    args: [
      ["<key>", "its name"],
      ["<value>", "JSON or text"],
    ],
    options: [["--source <text>", "its source", "required"]],
    page: ({ key, value }) => `${key} = ${page.valueText(value)}\n`,
  }),
  command("facts", "list facts", {
    args: [["[key]", "only this fact"]],
    page: ({ facts }, screen) => page.factTable(facts, screen),
  }),
  command("remember files", "record files as they are now; the next briefing reports later changes", {
    words: "remember",
    args: [["<file...>", "below the project's root"]],
    options: [
      ["--read", "they were only read"],
      ["--deleted", "they were deleted on purpose"],
      ["--task <task>", "the task"],
      ["--session <session>", "the session"],
    ],
    input: (files, { read, deleted, task, session }) => {
      if (read && deleted)
        throw new Misuse("remember: --read and --deleted exclude each other", "Use one of them.");
      const act = deleted ? "deleted" : read ? "examined" : "modified";
      return { files: files.map((path) => ({ path, act })), task, session };
    },
    page: ({ files }) => `recorded ${files.join(", ")}\n`,
  }),
  command("built", "record what was built", {
    args: [["<what>", "what was built", "text"]],
    options: [["--file <path...>", "the files it is in", "optional", "files"]],
    page: ({ text, files }) => `${text}${files.length === 0 ? "" : ` (${files.join(", ")})`}\n`,
  }),
  command("ask", "ask a question", {
    args: [["<question>", "the question", "text"]],
    page: page.questionLine,
  }),
  command("answer", "answer a question", {
    args: [
      ["<question>", "its id: Q-001"],
      ["<answer>", "the answer"],
    ],
    page: page.questionLine,
  }),
  command("questions", "list open questions", {
    options: [["--all", "include answered questions"]],
    page: ({ questions }, screen) =>
      questions.length === 0
        ? "no open questions\n"
        : questions.map((each) => page.questionLine(each, screen)).join(""),
  }),
  command("assume", "record an assumption to be checked", {
    args: [["<text>", "what is assumed"]],
    page: page.assumptionLine,
  }),
  ...(["confirm", "refute"] as const).map((verb) =>
    command(verb, `${verb} an assumption`, {
      args: [
        ["<assumption>", "its id: A-001"],
        ["<evidence>", "how you know"],
      ],
      page: page.assumptionLine,
    }),
  ),
  command("assumptions", "list open assumptions", {
    options: [["--all", "include confirmed and refuted ones"]],
    page: ({ assumptions }, screen) =>
      assumptions.length === 0
        ? "no open assumptions\n"
        : assumptions.map((each) => page.assumptionLine(each, screen)).join(""),
  }),
  command("error", "record an error that is not a task's failure", {
    args: [["<message>", "what went wrong"]],
    options: [["--task <task>", "the task it happened in"]],
    page: ({ message, errors }) => `recorded error ${errors}: ${message}\n`,
  }),
  command("forget", "withdraw a fact", {
    args: [["<key>", "its name"]],
    options: [["--why <text>", "why it is no longer true", "required"]],
    page: ({ key }) => `withdrew ${key}\n`,
  }),
  command("events", "list the latest events of a goal, with their uids", {
    options: [["--limit <n>", "how many (default 20)"]],
    page: page.eventsPage,
  }),
  command("retract", "take back an event in every clone", {
    args: [["<event>", "its uid, the start of it, or the id of the item that it made"]],
    options: [["--why <text>", "why it should not count", "required"]],
    page: ({ uid, type }) => `retracted ${type} ${uid.slice(0, 12)}\n`,
  }),
  command("review", "list the acts of people that a pull brought, and let them count", {
    options: [["--accept <event...>", "let these count: uids, the starts of them, or all"]],
    page: page.reviewPage,
  }),
];

const REMOVAL: readonly OptionRow[] = [
  ["--dry-run", "only show what would be removed"],
  ["--yes", "do not ask"],
];

const goals: readonly Command[] = [
  command("goal new", "create a goal", {
    args: [
      ["<name>", "a short name: letters, digits, dots, dashes", "id"],
      ["<statement>", "what to achieve"],
    ],
    options: [
      ["--phase <name...>", "its phases, in order", "optional", "phases"],
      ["--title <text>", "its title in lists"],
      ["--ttl <time>", "time without changes until it is stale (default 72h)", "optional", "ttlMs"],
      [
        "--verification <how>",
        "separate: another agent accepts a task (default); self: submitting closes it",
      ],
      ["--max-attempts <n>", "attempts before a task fails for good"],
    ],
    page: ({ goal }, screen) => {
      const add = commandToPaste(screen, `holdfast task add "what to do" --goal ${goal}`);
      return `goal ${goal} created\nplan the work: ${add}\n`;
    },
  }),
  command("goal import", "make a goal from a STATE.md of another tool", {
    args: [
      ["<file>", "the STATE.md"],
      ["[name]", "the goal's name (default: its initiative or title)", "id"],
    ],
    page: page.importedPage,
  }),
  command("goal show", "show a goal, now or as it was", {
    args: [["[goal]", "the goal"]],
    options: [["--at <moment>", "an event's position, a day or a time: 12, 2024-01-15"]],
    adjust: ({ at, ...fields }) => ({ ...fields, at: /^\d+$/.test(String(at)) ? Number(at) : at }),
    page: page.goalPage,
  }),
  command("goal log", "show its events, one line each", {
    args: [["[goal]", "the goal"]],
    options: [
      ["--after <seq>", "only events after this position"],
      ["--before <seq>", "only events before this position"],
      ["--newest", "the newest first"],
      ["--limit <n>", "at most n lines"],
    ],
    page: page.goalLogPage,
  }),
  command("goal prune", "remove old goals", {
    options: [
      ["--older-than <time>", "not changed for so long: 90d", "optional", "olderThanMs"],
      ["--status <status>", "only these, such as done"],
      ["--keep <n>", "keep the latest n"],
      ...REMOVAL,
    ],
    ask: (options) => confirmed(options, "goal prune", "Matching goals are removed for good"),
    adjust: ({ yes, ...fields }) => {
      if (yes || fields["dryRun"]) return fields;
      throw needsYes("goal prune removes goals for good");
    },
    page: ({ dryRun, removed, spared }) =>
      linesOf([
        `${dryRun ? "would remove" : "removed"} goals: ${removed.join(", ") || "none"}`,
        ...spared.map(({ id, why }) => `kept ${id}: ${why === "needed" ? "an agent works on it" : why}`),
      ]),
  }),
  command("goal erase", "erase a goal for privacy: store and files", {
    args: [["<goal>", "its whole name"]],
    options: REMOVAL,
    ask: (options) => confirmed(options, "goal erase", "The goal is erased for good"),
    adjust: ({ yes, ...fields }) => {
      if (yes || fields["dryRun"]) return fields;
      throw needsYes("goal erase erases a goal for good");
    },
    page: ({ dryRun, erased }) =>
      dryRun ? `${erased} would be erased\n` : `${erased} erased; copies in git, clones and backups stay\n`,
  }),
  command("goal use", "choose the default goal of this worktree", {
    args: [["[goal]", "the goal; without it, shows the chosen one"]],
    options: [["--none", "clear the choice"]],
    page: ({ worktree, goal }) => `${worktree}: ${goal === null ? "no goal chosen" : `goal ${goal}`}\n`,
  }),
  command("goal list", "list all goals", { page: page.goalListPage }),
  command("goal edit", "change a goal's statement or settings", {
    options: [
      ["--statement <text>", "what to achieve"],
      ["--title <text>", "its title in lists"],
      ["--ttl <time>", "time without changes until it is stale", "optional", "ttlMs"],
      ["--verification <how>", "separate or self"],
      ["--max-attempts <n>", "attempts before a task fails for good"],
    ],
    page: ({ goal, statement }) => `${goal}  ${statement}\n`,
  }),
  command("goal next", "set the next action", {
    args: [["[next]", "a task or words; without it, shows the next action"]],
    options: [["--none", "clear it"]],
    page: ({ goal, task, text }) => `${goal}: ${[task, text].filter(Boolean).join(" ") || "nothing noted"}\n`,
  }),
  command("phase add", "add a phase", {
    args: [["<name>", "its name"]],
    options: [["--plan <name...>", "its plans, in order", "optional", "plans"]],
    page: ({ phase, name }) => `phase ${phase}  ${name}\n`,
  }),
  command("phase complete", "complete a phase without unfinished tasks", {
    args: [["<phase>", "its number or name"]],
    page: ({ phase, name }) => `phase ${phase} ${name} completed\n`,
  }),
  command("plan add", "add a plan to a phase", {
    args: [
      ["<phase>", "its number or name"],
      ["<name>", "the plan's name"],
    ],
    page: ({ phase, plan, name, file }) => `phase ${phase}, plan ${plan}  ${name}\nits text: ${file}\n`,
  }),
  command("brief", "print the briefing for the next agent", {
    options: [
      ["--tokens <n>", "its maximum length (default 2000)"],
      ["--task <id>", "the reader's task"],
      ["--session <id>", "the reader's session, which it leaves out"],
    ],
    page: ({ text }) => `${text}\n`,
  }),
  command("next", "show what to claim next", { page: page.nextPage }),
  command("goal move", "move to another phase", {
    args: [["<phase>", "its number or name", "to"]],
    page: page.movePage,
  }),
  command("resume", "resume the work: check files, read the plan, start a session, get briefed", {
    options: [
      ["--session <id>", "the name of your session"],
      ["--tokens <n>", "the maximum length of the briefing"],
      ["--force", "continue although the goal is stale or files have changed"],
    ],
    page: page.resumePage,
    found: ({ begun }) => !begun,
  }),
  command("handoff", "end your session and record the next step", {
    options: [
      ["--reason <text>", "why you stop", "required"],
      ["--session <id>", "the session (default: yours)"],
      ["--next <task or words>", "what comes next"],
      ["--notes <text>", "notes for the next agent"],
      ["--issue <text...>", "what went wrong", "optional", "issues"],
      ["--context-usage <share>", "how full your context is: 80%"],
    ],
    page: ({ session, goal }, screen) => {
      const resume = commandToPaste(screen, `holdfast resume --goal ${goal}`);
      return `session ${session} of ${goal} handed off\nto continue: ${resume}\n`;
    },
  }),
];

const SESSION_NOTES: readonly OptionRow[] = [
  ["--session <id>", "the session (default: yours)"],
  ["--issue <text...>", "what went wrong, or deviates from the plan", "optional", "issues"],
  ["--context-usage <share>", "how full your context is: 80%"],
];

const sessionNotes: readonly Command[] = [
  command("note", "add a note or an issue to your session", {
    args: [["[note]", "the note", "notes"]],
    options: SESSION_NOTES,
    page: ({ session, goal }) => `noted in session ${session} of ${goal}\n`,
  }),
  command("finish", "end your session: its work is done", {
    options: [
      ...SESSION_NOTES,
      ["--notes <text>", "a last note"],
      ["--completed <text...>", "work that it finished beside its tasks"],
    ],
    page: ({ session, goal }) => `session ${session} of ${goal} finished\n`,
  }),
];

const onTask = { args: [TASK], page: page.taskLine };

const TASK_FIELDS: readonly OptionRow[] = [
  ["--description <text>", "more about it"],
  ["--phase <phase>", "its number or name"],
  ["--plan <n>", "a plan of the phase"],
  ["--wave <n>", "tasks of one wave can run in parallel"],
  ["--depends-on <task...>", "tasks that must be done first"],
  ["--file <path...>", "files it will touch", "optional", "files"],
  ["--wanted <text...>", "acceptance criteria"],
  ["--reviews <task...>", "the tasks that it reviews; such a task is a review"],
];

const tasks: readonly Command[] = [
  command("task add", "add a task", {
    args: [["<title>", "what to do"]],
    options: TASK_FIELDS,
    page: page.taskLine,
  }),
  command("task edit", "change a task", {
    ...onTask,
    options: [["--title <text>", "what to do"], ...TASK_FIELDS],
  }),
  command("task alias", "give a task another id as well", {
    ...onTask,
    args: [TASK, ["<alias>", "the other id: T-142"]],
  }),
  command("task list", "list unfinished tasks", {
    options: [
      ["--all", "include finished tasks"],
      ["--status <status>", "only these: open, in_progress, submitted, blocked, failed, done, dropped"],
    ],
    page: page.taskListPage,
  }),
  command("task show", "show one task", { args: [TASK], page: page.taskPage }),
  command("task claim", "claim a task", { ...onTask, options: [SESSION] }),
  command("task start", "claim a task unless it is yours, and note what you are doing", {
    ...onTask,
    args: [TASK, ["[note]", "what you are doing"]],
    options: [SESSION],
  }),
  command("task submit", "submit a task", {
    ...onTask,
    options: [
      ["--summary <text>", "what was done"],
      ["--file <path...>", "files as evidence; their hashes are recorded", "optional", "files"],
      ["--command <text...>", "commands that passed", "optional", "commands"],
      SESSION,
    ],
    adjust: ({ commands, ...fields }) => ({
      ...fields,
      commands: list(commands)?.map((each) => ({ command: each, exitCode: 0 })),
    }),
  }),
  command("task verify", "accept or reject a submitted task", {
    ...onTask,
    options: [
      ["--reject", "reject it"],
      ["--why <text>", "why"],
    ],
    adjust: ({ reject, ...fields }) => ({ ...fields, accept: reject !== true }),
  }),
  command("task fail", "report that a task failed", {
    ...onTask,
    args: [TASK, ["<error>", "what went wrong"]],
    options: [["--final", "a retry cannot help"], SESSION],
    adjust: ({ final, ...fields }) => ({ ...fields, retryable: final !== true }),
  }),
  command("task block", "record what blocks a task", {
    ...onTask,
    args: [TASK, WHAT],
    options: [SESSION],
  }),
  command("task release", "release a task", {
    ...onTask,
    options: [["--why <text>", "why"], ["--force", "even if another agent holds it"], SESSION],
  }),
  command("task retry", "retry a failed task", {
    ...onTask,
    options: [["--why <text>", "why a retry can help now", "required"]],
  }),
  command("task drop", "drop a task: it is no longer needed", { ...onTask, options: [WHY] }),
  command("task reopen", "reopen a done or dropped task", { ...onTask, options: [WHY] }),
];

function blockerPage({ blockers }: ResultOf<"block list">, screen: Screen): string {
  return blockers.length === 0 ? "no blockers\n" : page.blockerTable(blockers, screen);
}

const blockers: readonly Command[] = [
  command("block add", "record what blocks work", {
    args: [WHAT],
    options: [
      ["--task <task...>", "tasks that it blocks", "optional", "tasks"],
      ["--phase <phase...>", "phases that it blocks", "optional", "phases"],
      ["--everything", "it blocks the whole goal"],
      ["--workaround <text>", "how work goes on meanwhile"],
      ["--report-only", "it blocks nothing until someone confirms it"],
    ],
    page: ({ id, status, description }) => `${id}  ${status}  ${description}\n`,
  }),
  command("block confirm", "confirm a reported blocker: it blocks from now on", {
    args: [BLOCKER],
    page: ({ id, status, description }) => `${id}  ${status}  ${description}\n`,
  }),
  command("block bypass", "work around a blocker", {
    args: [BLOCKER],
    options: [
      ["--workaround <text>", "how", "required"],
      ["--follow-up <title...>", "tasks for what is left to do", "optional", "followUps"],
    ],
    page: ({ id, workaround, followUps }) => {
      const later = followUps.length === 0 ? "" : `; follow-up tasks: ${followUps.join(", ")}`;
      return `${id} bypassed: ${workaround}${later}\n`;
    },
  }),
  command("block resolve", "record how a blocker was resolved", {
    args: [BLOCKER],
    options: [["--resolution <text>", "how it was resolved", "required"]],
    page: ({ id, unblocked }) =>
      `${id} resolved${unblocked.length === 0 ? "" : `; unblocked: ${unblocked.join(", ")}`}\n`,
  }),
  command("block list", "list what blocks work", { options: WITH_RESOLVED, page: blockerPage }),
  command("block list", "same as block list", {
    words: "blockers",
    options: WITH_RESOLVED,
    page: blockerPage,
  }),
];

export const goalCommands: readonly Command[] = [...goals, ...sessionNotes, ...tasks, ...blockers];
