/** Commands about goals, their tasks and what they remember. */

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

/** Commands for what a goal remembers: decisions, facts, files. */

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
      ["--not <option...>", '"option: why not"'],
      ["--final", "it cannot be taken back"],
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
    about: "what was decided",
    args: [["[words...]", "all of which occur in it"]],
    options: [
      ["--type <type>", "only of this type"],
      ["--file <path>", "only about this file"],
      ["--superseded", "replaced ones too"],
    ],
    input: (words, { type, file, superseded }) => ({
      text: words.length === 0 ? undefined : words.join(" "),
      type,
      file,
      superseded,
    }),
    page: ({ decisions }, screen) =>
      decisions.length === 0 ? "no such decisions\n" : page.decisionTable(decisions, screen),
  }),
  command({
    words: "fact",
    operation: "fact",
    about: "remember something that was found out",
    args: [
      ["<key>", "what it is called"],
      ["<value>", "JSON, or words"],
    ],
    options: [["--source <text>", "where it is known from", "required"]],
    input: ([key, value], { source }) => ({ key, value: jsonOrText(value), source }),
    page: ({ key, value }) => `${key} = ${page.valueText(value)}\n`,
  }),
  command({
    words: "facts",
    operation: "facts",
    about: "what is known",
    args: [["[key]", "only this one"]],
    input: ([key]) => ({ key }),
    page: ({ facts }, screen) => page.factTable(facts, screen),
  }),
  command({
    words: "remember",
    operation: "remember files",
    about: "remember files as they are now; whoever comes next is told if they have changed since",
    args: [["<file...>", "below the project's root"]],
    options: [
      ["--read", "they were only read"],
      ["--deleted", "they are gone, and meant to be"],
      ["--task <task>", "for which task"],
      ["--session <session>", "in which session"],
    ],
    input: (files, { read, deleted, task, session }) => {
      if (read && deleted) throw new Misuse("--read and --deleted at once", "Say one of them.");
      const act = deleted ? "deleted" : read ? "examined" : "modified";
      return { files: files.map((path) => ({ path, act })), task, session };
    },
    page: ({ files }) => `remembered ${files.join(", ")}\n`,
  }),
  command({
    words: "forget",
    operation: "forget",
    about: "take back a fact",
    args: [["<key>", "which one"]],
    options: [["--why <text>", "why it is not true any more", "required"]],
    input: ([key], { why }) => ({ key, why }),
    page: ({ key }) => `forgot ${key}\n`,
  }),
];

const TASK = [["<task>", "its id: T-014, or just 14"]] as const;
const SESSION = ["--session <id>", "your session, where several work under one name"] as const;

const goals: readonly Command[] = [
  command({
    words: "goal new",
    operation: "goal new",
    about: "begin a goal",
    args: [
      ["<name>", "a short name: letters, digits, dots, dashes"],
      ["<statement>", "what is to be reached"],
    ],
    options: [
      ["--phase <name...>", "its phases, in order"],
      ["--title <text>", "how lists call it"],
      ["--ttl <time>", "when it counts as stale: 72h unless set"],
      ["--verification <how>", "separate: somebody else closes a task (default); self: handing in closes it"],
      ["--max-attempts <n>", "failures after which a task counts as failed for good"],
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
      `goal ${goal.goal} begun\nplan the work: ${commandToPaste(screen, `holdfast task add "what is to be done" --goal ${goal.goal}`)}\n`,
  }),
  command({
    words: "goal show",
    operation: "goal show",
    about: "everything that matters about a goal",
    args: [["[goal]", "which one"]],
    input: ([goal]) => ({ goal }),
    page: page.goalPage,
  }),
  command({
    words: "goal use",
    operation: "goal use",
    about: "choose the goal of this worktree",
    args: [["[goal]", "which one; without it, says which it is"]],
    options: [["--none", "choose none"]],
    input: ([goal], { none }) => ({ goal, none }),
    page: ({ worktree, goal }) => `${worktree} works on ${goal ?? "no goal in particular"}\n`,
  }),
  command({ words: "goal list", operation: "goal list", about: "all goals", page: page.goalListPage }),
  command({
    words: "brief",
    operation: "brief",
    about: "the text with which the next agent continues",
    options: [
      ["--tokens <n>", "how long it may be: 2000 unless set"],
      ["--task <id>", "the task at hand"],
      ["--session <id>", "yours, of which it says nothing while it is active"],
    ],
    input: (_, options) => ({
      tokens: wholeNumber("--tokens", options["tokens"]),
      task: options["task"],
      session: options["session"],
    }),
    page: ({ text }) => `${text}\n`,
  }),
  command({ words: "next", operation: "next", about: "what to claim next", page: page.nextPage }),
  command({
    words: "move",
    operation: "move",
    about: "go to another phase",
    args: [["<phase>", "its number or name"]],
    input: ([to]) => ({ to: phase(to) }),
    page: page.movePage,
  }),
  command({
    words: "resume",
    operation: "resume",
    about: "take up the work: check files, begin a session, read the briefing",
    options: [
      ["--session <id>", "how your session is to be called"],
      ["--tokens <n>", "how long the briefing may be"],
      ["--force", "go on although the goal is stale or files have changed"],
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
    about: "end your session and say what comes next",
    options: [
      ["--reason <text>", "why you stop", "required"],
      ["--session <id>", "which session; yours unless set"],
      ["--next <task or words>", "what comes next"],
      ["--notes <text>", "what the next one should know"],
      ["--issue <text...>", "what went wrong"],
      ["--context <share>", "how full your context was: 80%"],
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
      `session ${session} of ${goal} handed off\nthe next one begins with: ${commandToPaste(screen, `holdfast resume --goal ${goal}`)}\n`,
  }),
];

const tasks: readonly Command[] = [
  command({
    words: "task add",
    operation: "task add",
    about: "add a task",
    args: [["<title>", "what is to be done"]],
    options: [
      ["--about <text>", "what one has to know"],
      ["--phase <phase>", "number or name; the current one unless set"],
      ["--plan <n>", "a plan of the phase"],
      ["--wave <n>", "tasks of one wave can be done at once"],
      ["--after <task...>", "tasks that have to be done before"],
      ["--file <path...>", "files it will touch"],
      ["--wanted <text...>", "how one will know that it is done"],
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
    about: "tasks that are not finished",
    options: [
      ["--all", "finished ones too"],
      ["--status <status>", "only these: open, in_progress, submitted, blocked, failed, done, dropped"],
    ],
    input: (_, options) => ({ all: options["all"], status: options["status"] }),
    page: page.taskListPage,
  }),
  command({
    words: "task show",
    operation: "task show",
    about: "one task, whole",
    args: TASK,
    input: ([task]) => ({ task }),
    page: page.taskPage,
  }),
  command({
    words: "task claim",
    operation: "task claim",
    about: "take a task",
    args: TASK,
    options: [SESSION],
    input: ([task], { session }) => ({ task, session }),
    page: page.taskLine,
  }),
  command({
    words: "task start",
    operation: "task start",
    about: "take a task if need be, and note what you are at",
    args: [...TASK, ["[note]", "what you are doing"]],
    options: [SESSION],
    input: ([task, note], { session }) => ({ task, note, session }),
    page: page.taskLine,
  }),
  command({
    words: "task submit",
    operation: "task submit",
    about: "hand in a task",
    args: TASK,
    options: [
      ["--summary <text>", "what was done"],
      ["--file <path...>", "files that show it; their content is remembered"],
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
    about: "accept what was handed in, or reject it",
    args: TASK,
    options: [
      ["--reject", "it is not done"],
      ["--why <text>", "why"],
    ],
    input: ([task], { reject, why }) => ({ task, accept: reject !== true, why }),
    page: page.taskLine,
  }),
  command({
    words: "task fail",
    operation: "task fail",
    about: "say that a task failed",
    args: [...TASK, ["<error>", "what went wrong"]],
    options: [["--final", "trying again cannot help"], SESSION],
    input: ([task, error], { final, session }) => ({ task, error, retryable: final !== true, session }),
    page: page.taskLine,
  }),
  command({
    words: "task block",
    operation: "task block",
    about: "record what keeps a task from going on",
    args: [...TASK, ["<what>", "what is in the way"]],
    options: [SESSION],
    input: ([task, description], { session }) => ({ task, description, session }),
    page: page.taskLine,
  }),
  command({
    words: "task release",
    operation: "task release",
    about: "put a task back",
    args: TASK,
    options: [["--why <text>", "why"], ["--force", "also when another holds it"], SESSION],
    input: ([task], { why, force, session }) => ({ task, why, force, session }),
    page: page.taskLine,
  }),
  command({
    words: "task retry",
    operation: "task retry",
    about: "let a task that failed be tried again",
    args: TASK,
    options: [["--why <text>", "why that can help now", "required"]],
    input: ([task], { why }) => ({ task, why }),
    page: page.taskLine,
  }),
  command({
    words: "task drop",
    operation: "task drop",
    about: "nobody is to do a task any more",
    args: TASK,
    options: [["--why <text>", "why", "required"]],
    input: ([task], { why }) => ({ task, why }),
    page: page.taskLine,
  }),
  command({
    words: "task reopen",
    operation: "task reopen",
    about: "a task that was done or dropped has to be done again",
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
    about: "record what keeps work from going on",
    args: [["<what>", "what is in the way"]],
    options: [
      ["--task <task...>", "tasks it holds"],
      ["--phase <phase...>", "phases it holds"],
      ["--everything", "nothing at all can go on"],
      ["--report-only", "it blocks nothing before somebody looks"],
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
    about: "go around a blocker",
    args: [["<blocker>", "its id: B-002"]],
    options: [
      ["--workaround <text>", "how", "required"],
      ["--follow-up <title...>", "tasks that remember to come back"],
    ],
    input: ([blocker], options) => ({
      blocker,
      workaround: options["workaround"],
      followUps: list(options["followUp"]),
    }),
    page: ({ id, workaround, followUps }) =>
      `${id} bypassed: ${workaround}${followUps.length === 0 ? "" : `; later ${followUps.join(", ")}`}\n`,
  }),
  command({
    words: "block resolve",
    operation: "block resolve",
    about: "say how a blocker went away",
    args: [["<blocker>", "its id: B-002"]],
    options: [["--how <text>", "how it went away", "required"]],
    input: ([blocker], { how }) => ({ blocker, resolution: how }),
    page: ({ id, unblocked }) =>
      `${id} resolved${unblocked.length === 0 ? "" : `; can go on: ${unblocked.join(", ")}`}\n`,
  }),
  command({
    words: "block list",
    operation: "block list",
    about: "what keeps work from going on",
    options: [["--all", "resolved ones too"]],
    input: (_, { all }) => ({ all }),
    page: ({ blockers }, screen) =>
      blockers.length === 0 ? "nothing is in the way\n" : page.blockerTable(blockers, screen),
  }),
  command({
    words: "blockers",
    operation: "block list",
    about: "the same as block list",
    options: [["--all", "resolved ones too"]],
    input: (_, { all }) => ({ all }),
    page: ({ blockers }, screen) =>
      blockers.length === 0 ? "nothing is in the way\n" : page.blockerTable(blockers, screen),
  }),
];

export const goalCommands: readonly Command[] = [...goals, ...tasks, ...notes];
