/** Commands about sessions, calls and the store. */

import { type Command, command, duration, goalOption, json, type Options, wholeNumber } from "./command.ts";
import { Misuse } from "./failure.ts";
import { commandToPaste, EXIT } from "./screen.ts";
import * as page from "./session-pages.ts";
import { statusData, statusPage } from "./status.ts";

const SESSION = ["<session>", "its id, or the beginning of it"] as const;

export const storeCommands: readonly Command[] = [
  command({
    words: "status",
    operation: "status",
    about: "what needs you, how things stand, what to type next",
    input: (_, { goal }) => ({ goal: goalOption(goal) }),
    page: statusPage,
    data: statusData,
  }),
  command({
    words: "session list",
    operation: "session list",
    about: "sessions, the latest change first",
    options: [
      ["--status <status>", "only these: running, crashed, idle, active, completed, failed, cancelled"],
      ["--limit <n>", "how many: 50 unless set"],
    ],
    input: (_, { status, goal, limit }) => ({ status, goal, limit: wholeNumber("--limit", limit) }),
    page: page.sessionListPage,
  }),
  command({
    words: "session show",
    operation: "session show",
    about: "one session, whole",
    args: [SESSION],
    input: ([session]) => ({ session }),
    page: page.sessionPage,
  }),
  command({
    words: "session log",
    operation: "session log",
    about: "what happened, line by line",
    args: [SESSION],
    options: [
      ["--after <seq>", "only what came after this position"],
      ["--limit <n>", "at most so many lines"],
    ],
    input: ([session], { after, limit }) => ({
      session,
      after: wholeNumber("--after", after),
      limit: wholeNumber("--limit", limit),
    }),
    page: page.logPage,
  }),
  command({
    words: "session versions",
    operation: "session versions",
    about: "its numbered versions",
    args: [SESSION],
    input: ([session]) => ({ session }),
    page: page.versionsPage,
  }),
  command({
    words: "session diff",
    operation: "session diff",
    about: "what changed between two versions",
    args: [SESSION, ["<before>", "a version"], ["<after>", "a later version"]],
    input: ([session, before, after]) => ({
      session,
      before: wholeNumber("before", before),
      after: wholeNumber("after", after),
    }),
    page: page.diffPage,
  }),
  command({
    words: "session fork",
    operation: "session fork",
    about: "a new session that shares the past of another",
    args: [SESSION, ["<new>", "the name of the new one"]],
    options: [
      ["--at <version>", "share the past up to this version; all of it unless set"],
      ["--live", "the fork may have effects at once"],
    ],
    input: ([session, id], { at, live }) => ({ session, id, version: wholeNumber("--at", at), live }),
    page: page.forkPage,
  }),
  command({
    words: "session effects",
    operation: "session effects",
    about: "let a fork have effects of its own, or not any more",
    args: [SESSION, ["<on|off>", "on: its tools run; off: they are refused"]],
    answersFor: true,
    input: ([session, effects]) => {
      if (effects !== "on" && effects !== "off") {
        throw new Misuse(`session effects: ${effects} is neither on nor off`, "Say on or off.");
      }
      return { session, effects };
    },
    page: ({ session, effects }) => `${session}: effects are ${effects}\n`,
  }),
  command({
    words: "session retry",
    operation: "session retry",
    about: "let a session go on that was left alone",
    args: [SESSION],
    options: [["--why <text>", "what has changed"]],
    input: ([session], { why }) => ({ session, why }),
    page: ({ session }) => `${session} may go on: run its agent, or leave it to supervise with a command\n`,
  }),
  command({
    words: "session cancel",
    operation: "session cancel",
    about: "stop a session, also one that runs right now",
    args: [SESSION],
    answersFor: true,
    input: ([session]) => ({ session }),
    page: ({ session, status }) => `${session} is ${status}\n`,
  }),
  command({
    words: "calls",
    operation: "calls",
    about: "calls without an outcome",
    options: [
      ["--open", "only open ones; without --session there are no others"],
      ["--session <session>", "every call of this session"],
    ],
    input: (_, { session, open }) => ({ session, open }),
    page: page.callsPage,
  }),
  command({
    words: "resolve",
    operation: "resolve",
    about: "answer for a call that waits for a person, or that nobody is at any more",
    args: [
      ["<call>", "its id, or the beginning of it"],
      [
        "<outcome>",
        "landed: it happened; retry: it did not, try once more; failed: it did not, tell the agent",
      ],
    ],
    options: [
      ["--result <json>", "what the tool would have returned, if it landed"],
      ["--session <session>", "whose call, if several have that id"],
    ],
    answersFor: true,
    ask: askResult,
    input: ([call, outcome], { result, session }) => {
      if (!["landed", "retry", "failed"].includes(outcome ?? "")) {
        throw new Misuse(
          `resolve: ${outcome} is no outcome`,
          "Say landed (it happened), retry (it did not: try once more) or failed (it did not: tell the agent).",
        );
      }
      return { call, outcome, result: json("--result", result), session };
    },
    page: page.resolvedPage,
  }),
  command({
    words: "check",
    operation: "check",
    about: "verify the store and the recorded files",
    input: (_, { goal }) => ({ goal }),
    page: page.checkPage,
    found: ({ ok }) => !ok,
  }),
  command({
    words: "doctor",
    operation: "doctor",
    about: "why it does not work",
    page: page.doctorPage,
    data: page.doctorData,
    found: ({ ok }) => !ok,
  }),
  command({
    words: "migrate",
    operation: "migrate",
    about: "bring the store and the files of goals to the format of this release",
    options: [["--dry-run", "only say what would change"]],
    input: (_, { dryRun }) => ({ dryRun }),
    page: page.migratePage,
  }),
  command({
    words: "prune",
    operation: "prune",
    about: "remove old sessions",
    options: [
      ["--older-than <time>", "not touched for so long: 30d"],
      ["--status <status>", "only these: completed, failed, cancelled, active"],
      ["--keep <n>", "keep so many of the latest"],
      ["--dry-run", "only say what would go"],
      ["--yes", "do not ask"],
    ],
    ask: askBeforePruning,
    input: (_, options) => {
      const { dryRun, status } = options;
      const what = {
        olderThanMs: duration("--older-than", options["olderThan"]),
        status,
        keep: wholeNumber("--keep", options["keep"]),
        dryRun,
      };
      if (options["yes"] || dryRun) return what;
      throw new Misuse(
        "prune removes for good: without a terminal it needs --yes",
        "Look first, with the same options and --dry-run; then say --yes.",
      );
    },
    page: page.prunePage,
  }),
  command({
    words: "supervise",
    operation: "supervise",
    about: "look after what crashed agents left, until Ctrl-C",
    args: [["[command...]", "after --: starts a worker for what is ready"]],
    options: [
      ["--once", "look once and end"],
      ["--stale-after <time>", "a task without progress for so long is put back: 30m unless set"],
      ["--notify <command>", "is told what a person would want to hear, as JSON on its input"],
      ["--parallel <n>", "workers at once: 2 unless set"],
      ["--retain <time>", "remove sessions that ended longer ago: 30d"],
    ],
    input: ([worker], { staleAfter, retain, notify, parallel }) => {
      refuseWithOnce({ "-- command": worker, "--notify": notify, "--parallel": parallel });
      return {
        staleAfterMs: duration("--stale-after", staleAfter),
        retainMs: duration("--retain", retain),
      };
    },
    loop: async (args, options) => {
      const { superviseUntilStopped } = await import("./supervise.ts");
      await superviseUntilStopped(options, args as readonly string[]);
    },
    page: ({ crashed, reset, open, errors, removed }, screen) =>
      [
        ...crashed.map((session) => `crashed: session ${session}`),
        ...reset.map(({ goal, task }) => `put back: ${task} of ${goal}`),
        ...open.map(({ session, call, tool }) => `open: ${tool} ${call} of ${session}`),
        open.length === 0
          ? ""
          : `run their agents again, or answer for them: ${commandToPaste(screen, "holdfast calls")}`,
        ...errors.map(({ doing, error }) => `! ${doing}: ${error}`),
        ...removed.map((session) => `removed: session ${session}`),
        crashed.length + reset.length + open.length + errors.length + removed.length === 0
          ? "nothing to see to"
          : "",
      ]
        .filter(Boolean)
        .map((each) => `${each}\n`)
        .join(""),
  }),
  command({
    words: "copy",
    operation: "copy",
    about: "move everything into another store",
    args: [
      ["<from>", "a store"],
      ["[to]", "where to"],
    ],
    options: [["--abandon", "give up a copy that was broken off: <from> takes writes again"]],
    input: ([from, to], { abandon }) => {
      if ((to === undefined) === (abandon === true)) return { from, to };
      throw abandon
        ? new Misuse("copy --abandon names only the store to copy from", "Leave out the other store.")
        : new Misuse("copy: missing required argument 'to'", "See: holdfast copy --help");
    },
    page: ({ from, to, rows, afterwards, abandoned }) =>
      abandoned
        ? `${from} takes writes\n${afterwards}\n`
        : `${from} is now ${to} (${rows["stream"] ?? 0} goals and sessions); the old one takes no more writes\n${afterwards}\n`,
  }),
  command({
    words: "export",
    operation: "export",
    about: "write everything into one portable file",
    args: [["<file>", "a file that is not there yet"]],
    input: ([file]) => ({ file }),
    page: page.exportPage,
    found: ({ damaged }) => damaged.length > 0,
  }),
  command({
    words: "import",
    operation: "import",
    about: "take in an exported file",
    args: [["<file>", "what export wrote"]],
    input: ([file]) => ({ file }),
    page: ({ file, streams, writes, added }) => {
      const all = `${file}: ${streams} goals and sessions, ${writes} writes`;
      if (added === 0 && writes > 0) return `${all}, nothing new: all of it was taken in before\n`;
      return `${all}${added < writes ? `, ${added} of them new and` : ""} taken in\n`;
    },
  }),
  command({
    words: "rebuild",
    operation: "rebuild",
    about: "write the files of a goal from its log",
    options: [["--folder <path>", "where they are: .planning unless set"]],
    input: (_, { folder }) => ({ folder }),
    page: ({ goal, folder, edits, ahead, merged }) =>
      [
        `${folder} shows ${goal}`,
        ...merged.map((each) => `! ${each}`),
        ...edits.flatMap(({ file, taken, left, beside }) => [
          ...taken.map((each) => `applied from ${file}: ${each}`),
          ...left.map((each) => `! not applied from ${file}: ${each}; it is kept in ${beside}`),
        ]),
        ...ahead.map((file) => `! ${file} is newer than this store and was left alone`),
      ]
        .map((line) => `${line}\n`)
        .join(""),
  }),
];

/** One look starts no workers and tells nobody but whoever asked for it. */
function refuseWithOnce(said: Options): void {
  const [name] = Object.keys(said).filter((each) => said[each] !== undefined);
  if (name === undefined) return;
  throw new Misuse(
    `supervise --once looks once: it has no use for ${name}`,
    `Nothing was done. Leave out --once to go on until Ctrl-C, or leave out ${name}.`,
  );
}

/** On a terminal, for a call that landed: what the tool returned, which cannot be said later. */
async function askResult(options: Options, [, outcome]: readonly (string | undefined)[]): Promise<Options> {
  if (outcome !== "landed" || options["result"] !== undefined) return options;
  const { isCancel, text } = await import("@clack/prompts");
  const asked = await text({
    message: "What did the tool return? As JSON; nothing for null.",
    validate: (typed) => {
      try {
        if (typed?.trim()) json("the result", typed);
        return undefined;
      } catch (error) {
        return error instanceof Misuse ? `${error.message}. ${error.hint}` : String(error);
      }
    },
  });
  if (isCancel(asked)) throw new Misuse("resolve was not done", "Nothing was changed.", EXIT.interrupted);
  return String(asked ?? "").trim() === "" ? options : { ...options, result: String(asked) };
}

async function askBeforePruning(options: Options): Promise<Options> {
  if (options["yes"] || options["dryRun"]) return options;
  const { confirm } = await import("@clack/prompts");
  const message = "What matches is removed for good (--dry-run shows what that is). Go on?";
  if ((await confirm({ message, initialValue: false })) === true) return { ...options, yes: true };
  throw new Misuse("prune was not done", "Nothing was changed.", EXIT.interrupted);
}
