/** Commands on goals, tasks, blockers, decisions, facts and recorded files. */

import {
  alternative,
  type Command,
  command,
  duration,
  fraction,
  jsonOrText,
  list,
  phase,
  wholeNumber,
} from "./command.ts";
import { Misuse } from "./failure.ts";
import * as page from "./goal-pages.ts";
import { commandToPaste } from "./screen.ts";

export const noteCommands: readonly Command[] = [
  command({
    words: "decide",
    operation: "decide",
    about: "record a decision",
    args: [["<decision>", "what was decided"]],
    options: [
      ["--for <context>", "what it was needed for", "required"],
      ["--because <reason>", "why", "required"],
      ["--type <type>", "technology, architecture (default), trade-off, preference, constraint"],
      ["--not <option...>", 'alternatives, as "option: why not"'],
      ["--final", "it cannot be reversed"],
      ["--file <path...>", "files it is about"],
      ["--supersedes <decision>", "the decision that this one replaces"],
    ],
    input: ([decision], options) => ({
      decision,
      context: options["for"],
      reason: options["because"],
      type: options["type"],
      alternatives: list(options["not"])?.map(alternative),
      reversible: options["final"] !== true,
      files: list(options["file"]),
      supersedes: options["supersedes"],
    }),
    page: ({ id, decision, context }) => `${id}  ${decision} for ${context}\n`,
  }),
  command({
    words: "decisions",
    operation: "decisions",
    about: "list decisions",
    args: [["[words...]", "words that it must contain"]],
    options: [
      ["--type <type>", "only of this type"],
      ["--file <path>", "only about this file"],
      ["--superseded", "include replaced decisions"],
    ],
    input: (words, { type, file, superseded }) => ({
      text: words.length === 0 ? undefined : words.join(" "),
      type,
      file,
      superseded,
    }),
    page: ({ decisions }, screen) =>
      decisions.length === 0 ? "no matching decisions\n" : page.decisionTable(decisions, screen),
  }),
  command({
    words: "fact",
    operation: "fact",
    about: "record a fact",
    args: [
      ["<key>", "its name"],
      ["<value>", "JSON or text"],
    ],
    options: [["--source <text>", "its source", "required"]],
    input: ([key, value], { source }) => ({ key, value: jsonOrText(value), source }),
    page: ({ key, value }) => `${key} = ${page.valueText(value)}\n`,
  }),
  command({
    words: "facts",
    operation: "facts",
    about: "list facts",
    args: [["[key]", "only this fact"]],
    input: ([key]) => ({ key }),
    page: ({ facts }, screen) => page.factTable(facts, screen),
  }),
  command({
    words: "remember",
    operation: "remember files",
    about: "record files as they are now; the next briefing reports later changes",
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
  command({
    words: "forget",
    operation: "forget",
    about: "withdraw a fact",
    args: [["<key>", "its name"]],
    options: [["--why <text>", "why it is no longer true", "required"]],
    input: ([key], { why }) => ({ key, why }),
    page: ({ key }) => `withdrew ${key}\n`,
  }),
];

const TASK = [["<task>", "its id: T-014 or 14"]] as const;
const SESSION = ["--session <id>", "your session, if several have your name"] as const;

const goals: readonly Command[] = [
  command({
    words: "goal new",
    operation: "goal new",
    about: "create a goal",
    args: [
      ["<name>", "a short name: letters, digits, dots, dashes"],
      ["<statement>", "what to achieve"],
    ],
    options: [
      ["--phase <name...>", "its phases, in order"],
      ["--title <text>", "its title in lists"],
      ["--ttl <time>", "time without changes until it is stale (default 72h)"],
      [
        "--verification <how>",
        "separate: another agent accepts a task (default); self: submitting closes it",
      ],
      ["--max-attempts <n>", "attempts before a task fails for good"],
    ],
    input: ([id, statement], options) => ({
      id,
      statement,
      title: options["title"],
      phases: list(options["phase"]),
      ttlMs: duration("--ttl", options["ttl"]),
      verification: options["verification"],
      maxAttempts: wholeNumber("--max-attempts", options["maxAttempts"]),
    }),
    page: (goal, screen) =>
      `goal ${goal.goal} created\nplan the work: ${commandToPaste(
        screen,
        `holdfast task add "what to do" --goal ${goal.goal}`,
      )}\n`,
  }),
  command({
    words: "goal show",
    operation: "goal show",
    about: "show a goal",
    args: [["[goal]", "the goal"]],
    input: ([goal]) => ({ goal }),
    page: page.goalPage,
  }),
  command({
    words: "goal use",
    operation: "goal use",
    about: "choose the default goal of this worktree",
    args: [["[goal]", "the goal; without it, shows the chosen one"]],
    options: [["--none", "clear the choice"]],
    input: ([goal], { none }) => ({ goal, none }),
    page: ({ worktree, goal }) => `${worktree}: ${goal === null ? "no goal chosen" : `goal ${goal}`}\n`,
  }),
  command({ words: "goal list", operation: "goal list", about: "list all goals", page: page.goalListPage }),
  command({
    words: "brief",
    operation: "brief",
    about: "print the briefing for the next agent",
    options: [
      ["--tokens <n>", "its maximum length (default 2000)"],
      ["--task <id>", "the reader's task"],
      ["--session <id>", "the reader's session, which it leaves out"],
    ],
    input: (_, options) => ({
      tokens: wholeNumber("--tokens", options["tokens"]),
      task: options["task"],
      session: options["session"],
    }),
    page: ({ text }) => `${text}\n`,
  }),
  command({ words: "next", operation: "next", about: "show what to claim next", page: page.nextPage }),
  command({
    words: "move",
    operation: "move",
    about: "move to another phase",
    args: [["<phase>", "its number or name"]],
    input: ([to]) => ({ to: phase(to) }),
    page: page.movePage,
  }),
  command({
    words: "resume",
    operation: "resume",
    about: "resume the work: check files, start a session, read the briefing",
    options: [
      ["--session <id>", "the name of your session"],
      ["--tokens <n>", "the maximum length of the briefing"],
      ["--force", "continue although the goal is stale or files have changed"],
    ],
    input: (_, options) => ({
      session: options["session"],
      tokens: wholeNumber("--tokens", options["tokens"]),
      force: options["force"],
    }),
    page: page.resumePage,
    found: ({ begun }) => !begun,
  }),
  command({
    words: "handoff",
    operation: "handoff",
    about: "end your session and record the next step",
    options: [
      ["--reason <text>", "why you stop", "required"],
      ["--session <id>", "the session (default: yours)"],
      ["--next <task or words>", "what comes next"],
      ["--notes <text>", "notes for the next agent"],
      ["--issue <text...>", "what went wrong"],
      ["--context <share>", "how full your context is: 80%"],
    ],
    input: (_, options) => ({
      reason: options["reason"],
      session: options["session"],
      next: options["next"],
      notes: options["notes"],
      issues: list(options["issue"]),
      contextUsage: fraction("--context", options["context"]),
    }),
    page: ({ session, goal }, screen) =>
      `session ${session} of ${goal} handed off\nto continue: ${commandToPaste(
        screen,
        `holdfast resume --goal ${goal}`,
      )}\n`,
  }),
];

const tasks: readonly Command[] = [
  command({
    words: "task add",
    operation: "task add",
    about: "add a task",
    args: [["<title>", "what to do"]],
    options: [
      ["--about <text>", "a description"],
      ["--phase <phase>", "its number or name (default: the current phase)"],
      ["--plan <n>", "a plan of the phase"],
      ["--wave <n>", "tasks of one wave can run in parallel"],
      ["--after <task...>", "tasks that must be done first"],
      ["--file <path...>", "files it will touch"],
      ["--wanted <text...>", "acceptance criteria"],
      ["--reviews <task...>", "makes it a review of these"],
    ],
    input: ([title], options) => ({
      title,
      description: options["about"],
      phase: phase(options["phase"] as string | undefined),
      plan: wholeNumber("--plan", options["plan"]),
      wave: wholeNumber("--wave", options["wave"]),
      dependsOn: list(options["after"]),
      files: list(options["file"]),
      wanted: list(options["wanted"]),
      reviews: list(options["reviews"]),
    }),
    page: page.taskLine,
  }),
  command({
    words: "task list",
    operation: "task list",
    about: "list unfinished tasks",
    options: [
      ["--all", "include finished tasks"],
      ["--status <status>", "only these: open, in_progress, submitted, blocked, failed, done, dropped"],
    ],
    input: (_, options) => ({ all: options["all"], status: options["status"] }),
    page: page.taskListPage,
  }),
  command({
    words: "task show",
    operation: "task show",
    about: "show one task",
    args: TASK,
    input: ([task]) => ({ task }),
    page: page.taskPage,
  }),
  command({
    words: "task claim",
    operation: "task claim",
    about: "claim a task",
    args: TASK,
    options: [SESSION],
    input: ([task], { session }) => ({ task, session }),
    page: page.taskLine,
  }),
  command({
    words: "task start",
    operation: "task start",
    about: "claim a task unless it is yours, and note what you are doing",
    args: [...TASK, ["[note]", "what you are doing"]],
    options: [SESSION],
    input: ([task, note], { session }) => ({ task, note, session }),
    page: page.taskLine,
  }),
  command({
    words: "task submit",
    operation: "task submit",
    about: "submit a task",
    args: TASK,
    options: [
      ["--summary <text>", "what was done"],
      ["--file <path...>", "files as evidence; their hashes are recorded"],
      ["--ran <command...>", "commands that passed"],
      SESSION,
    ],
    input: ([task], options) => ({
      task,
      session: options["session"],
      summary: options["summary"],
      files: list(options["file"]),
      commands: list(options["ran"])?.map((each) => ({ command: each, exitCode: 0 })),
    }),
    page: page.taskLine,
  }),
  command({
    words: "task verify",
    operation: "task verify",
    about: "accept or reject a submitted task",
    args: TASK,
    options: [
      ["--reject", "reject it"],
      ["--why <text>", "why"],
    ],
    input: ([task], { reject, why }) => ({ task, accept: reject !== true, why }),
    page: page.taskLine,
  }),
  command({
    words: "task fail",
    operation: "task fail",
    about: "report that a task failed",
    args: [...TASK, ["<error>", "what went wrong"]],
    options: [["--final", "a retry cannot help"], SESSION],
    input: ([task, error], { final, session }) => ({ task, error, retryable: final !== true, session }),
    page: page.taskLine,
  }),
  command({
    words: "task block",
    operation: "task block",
    about: "record what blocks a task",
    args: [...TASK, ["<what>", "what blocks it"]],
    options: [SESSION],
    input: ([task, description], { session }) => ({ task, description, session }),
    page: page.taskLine,
  }),
  command({
    words: "task release",
    operation: "task release",
    about: "release a task",
    args: TASK,
    options: [["--why <text>", "why"], ["--force", "even if another agent holds it"], SESSION],
    input: ([task], { why, force, session }) => ({ task, why, force, session }),
    page: page.taskLine,
  }),
  command({
    words: "task retry",
    operation: "task retry",
    about: "retry a failed task",
    args: TASK,
    options: [["--why <text>", "why a retry can help now", "required"]],
    input: ([task], { why }) => ({ task, why }),
    page: page.taskLine,
  }),
  command({
    words: "task drop",
    operation: "task drop",
    about: "drop a task: it is no longer needed",
    args: TASK,
    options: [["--why <text>", "why", "required"]],
    input: ([task], { why }) => ({ task, why }),
    page: page.taskLine,
  }),
  command({
    words: "task reopen",
    operation: "task reopen",
    about: "reopen a done or dropped task",
    args: TASK,
    options: [["--why <text>", "why", "required"]],
    input: ([task], { why }) => ({ task, why }),
    page: page.taskLine,
  }),
];

const notes: readonly Command[] = [
  command({
    words: "block add",
    operation: "block add",
    about: "record what blocks work",
    args: [["<what>", "what blocks it"]],
    options: [
      ["--task <task...>", "tasks that it blocks"],
      ["--phase <phase...>", "phases that it blocks"],
      ["--everything", "it blocks the whole goal"],
      ["--report-only", "it blocks nothing until someone confirms it"],
    ],
    input: ([description], options) => ({
      description,
      tasks: list(options["task"]),
      phases: list(options["phase"])?.map(phase),
      everything: options["everything"],
      reportOnly: options["reportOnly"],
    }),
    page: ({ id, status, description }) => `${id}  ${status}  ${description}\n`,
  }),
  command({
    words: "block bypass",
    operation: "block bypass",
    about: "work around a blocker",
    args: [["<blocker>", "its id: B-002"]],
    options: [
      ["--workaround <text>", "how", "required"],
      ["--follow-up <title...>", "tasks for what is left to do"],
    ],
    input: ([blocker], options) => ({
      blocker,
      workaround: options["workaround"],
      followUps: list(options["followUp"]),
    }),
    page: ({ id, workaround, followUps }) => {
      const later = followUps.length === 0 ? "" : `; follow-up tasks: ${followUps.join(", ")}`;
      return `${id} bypassed: ${workaround}${later}\n`;
    },
  }),
  command({
    words: "block resolve",
    operation: "block resolve",
    about: "record how a blocker was resolved",
    args: [["<blocker>", "its id: B-002"]],
    options: [["--how <text>", "how it was resolved", "required"]],
    input: ([blocker], { how }) => ({ blocker, resolution: how }),
    page: ({ id, unblocked }) =>
      `${id} resolved${unblocked.length === 0 ? "" : `; unblocked: ${unblocked.join(", ")}`}\n`,
  }),
  command({
    words: "block list",
    operation: "block list",
    about: "list what blocks work",
    options: [["--all", "include resolved blockers"]],
    input: (_, { all }) => ({ all }),
    page: ({ blockers }, screen) =>
      blockers.length === 0 ? "no blockers\n" : page.blockerTable(blockers, screen),
  }),
  command({
    words: "blockers",
    operation: "block list",
    about: "same as block list",
    options: [["--all", "include resolved blockers"]],
    input: (_, { all }) => ({ all }),
    page: ({ blockers }, screen) =>
      blockers.length === 0 ? "no blockers\n" : page.blockerTable(blockers, screen),
  }),
];

export const goalCommands: readonly Command[] = [...goals, ...tasks, ...notes];
