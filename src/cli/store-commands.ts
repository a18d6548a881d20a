/** Commands on sessions, calls and the store. */

import {
  type Command,
  command,
  duration,
  goalOption,
  json,
  list,
  type Options,
  wholeNumber,
} from "./command.ts";
import { Misuse } from "./failure.ts";
import * as history from "./history-pages.ts";
import { commandToPaste, EXIT, linesOf } from "./screen.ts";
import * as page from "./session-pages.ts";
import { statusData, statusPage } from "./status.ts";

const SESSION = ["<session>", "its id, or the start of it"] as const;

export const storeCommands: readonly Command[] = [
  command("status", "show what needs you, the state of everything, what to type next", {
    options: [
      ["--url", "print links into the page of holdfast ui"],
      ["--line", "print one line: goal, task, what needs you"],
    ],
    input: (_, { goal }) => ({ goal: goalOption(goal) }),
    page: statusPage,
    data: statusData,
  }),
  command("session list", "list sessions, the last changed first", {
    options: [
      ["--status <status>", "only these: running, crashed, idle, active, completed, failed, cancelled"],
      ["--text <words>", "part of the id, the title or the goal"],
      ["--tool <tool>", "only sessions that called this tool"],
      ["--metadata <name=value>", "only sessions with this metadata"],
      ["--limit <n>", "how many (default 50)"],
      ["--cursor <cursor>", "continue a longer list"],
    ],
    input: (_, { status, goal, limit, text, tool, metadata, cursor }) => {
      return { status, goal, text, tool, metadata, cursor, limit: wholeNumber("--limit", limit) };
    },
    page: page.sessionListPage,
  }),
  command("session erase", "erase sessions for privacy: events, artifacts, forks", {
    args: [["[session]", "its whole id"]],
    options: [
      ["--metadata <name=value...>", "all sessions with these values: user=42"],
      ["--dry-run", "only show what would be erased"],
      ["--yes", "do not ask"],
    ],
    ask: (options) => confirmed(options, "erase", "The sessions are erased for good"),
    input: ([session], options) => {
      if (!options["yes"] && !options["dryRun"]) throw needsYes("session erase erases sessions for good");
      return { session, metadata: metadataOf(options["metadata"]), dryRun: options["dryRun"] };
    },
    page: page.erasePage,
    found: ({ spared }) => spared.length > 0,
  }),
  command("session show", "show one session", {
    args: [SESSION],
    page: page.sessionPage,
  }),
  command("session log", "show its events, one line each", {
    args: [SESSION],
    options: [
      ["--after <seq>", "only events after this position"],
      ["--before <seq>", "only events before this position"],
      ["--newest", "the newest first"],
      ["--only <preset>", "effects, failures or people"],
      ["--limit <n>", "at most n lines"],
    ],
    page: page.logPage,
  }),
  command("session event", "show one event as it is recorded", {
    args: [SESSION, ["<seq>", "its position"]],
    page: history.eventPage,
  }),
  command("session timeline", "show who held it and when, and what they did", {
    args: [SESSION],
    options: [
      ["--before <seq>", "only events before this position"],
      ["--limit <n>", "at most n events (default 2000)"],
    ],
    page: history.timelinePage,
  }),
  command("session at", "show its transcript at a version", {
    args: [SESSION, ["<version>", "a version"]],
    options: [
      ["--before <n>", "only messages before this index"],
      ["--limit <n>", "at most n messages (default 50)"],
    ],
    page: history.transcriptPage,
  }),
  command("session versions", "list its numbered versions", {
    args: [SESSION],
    page: page.versionsPage,
  }),
  command("session diff", "compare two versions", {
    args: [SESSION, ["<before>", "a version"], ["<after>", "a later version"]],
    page: page.diffPage,
  }),
  command("session fork", "create a session that shares another's past", {
    args: [SESSION, ["<new>", "the name of the new session", "id"]],
    options: [
      ["--at <version>", "share the past up to this version (default: all of it)", "optional", "version"],
      ["--live", "the fork may have effects at once"],
    ],
    page: page.forkPage,
  }),
  command("session effects", "allow or forbid a fork's own effects", {
    args: [SESSION, ["<on|off>", "on: its tools run; off: they are refused", "effects"]],
    answersFor: true,
    page: ({ session, effects }) => `${session}: effects are ${effects}\n`,
  }),
  command("session retry", "retry a session that supervisors gave up on", {
    args: [SESSION],
    options: [["--why <text>", "what has changed"]],
    page: ({ session }) => `${session} may continue: run its agent, or let supervise start it\n`,
  }),
  command("session prompt", "queue a message for a session", {
    args: [SESSION, ["<text>", "the message"]],
    options: [["--id <id>", "a repeated id is queued once"]],
    page: ({ session, prompt }) => `queued ${prompt} for ${session}\n`,
  }),
  command("session budget", "raise the limits of a session", {
    args: [SESSION],
    options: [
      ["--usd <amount>", "the new limit in dollars"],
      ["--tokens <amount>", "the new limit in tokens"],
      ["--turns <amount>", "the new limit in turns"],
      ["--why <text>", "why it may spend more"],
    ],
    page: ({ session, limit }) => `${session}: limit ${JSON.stringify(limit)}\n`,
  }),
  command("session drop", "delete a version of a session", {
    args: [SESSION, ["<version>", "its number"]],
    page: ({ session, version }) => `version ${version} of ${session} deleted\n`,
  }),
  command("session cancel", "stop a session, even a running one", {
    args: [SESSION],
    answersFor: true,
    page: ({ session, status }) => `${session} is ${status}\n`,
  }),
  command(
    "inbox",
    "list everything undecided: calls, approvals, blockers, claims, budgets, pulled acts, crashes",
    {
      options: [["--limit <n>", "at most n calls (default 200)"]],
      page: history.inboxPage,
    },
  ),
  command("ledger", "find calls of all sessions by key, argument, tool or id", {
    args: [["[text]", "part of a key, of the arguments, of the tool or of an id"]],
    options: [
      ["--tool <tool>", "only this tool"],
      ["--status <status>", "only these: issued, unknown, waiting, completed, failed, repeated"],
      ["--limit <n>", "how many (default 50)"],
      ["--cursor <cursor>", "continue a longer search"],
    ],
    page: history.ledgerPage,
  }),
  command("fleet", "show who runs where, spending, latencies, unknown outcomes", {
    options: [["--hours <n>", "spending of the last hours (default 24)"]],
    page: history.fleetPage,
  }),
  command("calls", "list calls without an outcome", {
    options: [
      ["--open", "only open calls (the default without --session)"],
      ["--session <session>", "every call of this session"],
      ["--url", "print links into the page of holdfast ui"],
    ],
    input: (_, { open, session }) => ({ open, session }),
    page: page.callsPage,
    found: ({ unreadable }) => unreadable.length > 0,
  }),
  command("resolve", "resolve a call that waits for a person, or that no process runs", {
    args: [
      ["<call>", "its id, or the start of it", "callId"],
      ["<outcome>", "landed: it happened; retry: it did not, try again; failed: it did not, tell the agent"],
    ],
    options: [
      ["--result <json>", "what the tool would have returned, if it landed"],
      ["--as-agent", "answer as an agent, for tools that allow it"],
      ["--session <session>", "the session, if several have a call of that id"],
    ],
    answersFor: true,
    ask: askResult,
    page: page.resolvedPage,
  }),
  command("approve", "let a call run that waits for approval", {
    args: [["<call>", "its id, or the start of it", "callId"]],
    options: [
      ["--args <json>", "run it with these arguments instead"],
      ["--as-agent", "answer as an agent, for tools that allow it"],
      ["--expires <time>", "if it has not started by then, ask again: 1h", "optional", "expiresInMs"],
      ["--session <session>", "the session, if several have a call of that id"],
    ],
    answersFor: true,
    page: page.approvedPage,
  }),
  command("deny", "refuse a call that waits for approval", {
    args: [["<call>", "its id, or the start of it", "callId"]],
    options: [
      ["--as-agent", "answer as an agent, for tools that allow it"],
      ["--session <session>", "the session, if several have a call of that id"],
    ],
    answersFor: true,
    page: page.deniedPage,
  }),
  command("check", "verify the store and the recorded files", {
    options: [
      ["--against <program>", "instead: list the live sessions that this program could not continue"],
    ],
    input: (_, { goal, against }) => ({ goal, against }),
    page: page.checkPage,
    found: ({ ok }) => !ok,
  }),
  command("verify", "prove that no record was changed, against signed heads if there are any", {
    args: [["[file]", "an exported file (default: the store)"]],
    options: [
      ["--save <file>", "save the heads of all streams into a new file"],
      ["--sign <key>", "with --save: sign it by this ssh key, as <file>.sig"],
      ["--against <file>", "compare with heads that were saved earlier"],
      ["--signers <file>", "with --against: check its signature by this file of allowed signers"],
    ],
    page: page.verifyPage,
    found: ({ ok }) => !ok,
  }),
  command("doctor", "find out why something does not work", {
    page: page.doctorPage,
    data: page.doctorData,
    found: ({ ok }) => !ok,
  }),
  command("migrate", "migrate the store and the goals' files to this release", {
    options: [["--dry-run", "only show what would change"]],
    page: page.migratePage,
  }),
  command("prune", "remove old sessions", {
    options: [
      ["--older-than <time>", "not changed for so long: 30d", "optional", "olderThanMs"],
      ["--status <status>", "only these: completed, failed, cancelled, active"],
      ["--keep <n>", "keep the latest n"],
      ["--dry-run", "only show what would be removed"],
      ["--yes", "do not ask"],
    ],
    ask: (options) => confirmed(options, "prune", "Matching sessions are removed for good"),
    adjust: ({ yes, ...fields }) => {
      if (yes || fields["dryRun"]) return fields;
      throw needsYes("prune removes sessions for good");
    },
    page: page.prunePage,
  }),
  command("supervise", "clean up after crashed agents, until Ctrl-C", {
    args: [["[command...]", "after --: starts a worker for ready sessions and tasks"]],
    options: [
      ["--once", "clean up once and exit"],
      ["--stale-after <time>", "release a task without progress for so long (default 30m)"],
      ["--notify <command>", "runs for events that concern a person, with JSON on its input"],
      ["--parallel <n>", "workers at once (default 2)"],
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
      linesOf([
        ...crashed.map((session) => `crashed: session ${session}`),
        ...reset.map(({ goal, task }) => `released: ${task} of ${goal}`),
        ...open.map(({ session, callId, tool }) => `open: ${tool} ${callId} of ${session}`),
        open.length === 0
          ? ""
          : `run their agents again, or resolve them: ${commandToPaste(screen, "holdfast calls")}`,
        ...errors.map(({ doing, error }) => `! ${doing}: ${error}`),
        ...removed.map((session) => `removed: session ${session}`),
        crashed.length + reset.length + open.length + errors.length + removed.length === 0
          ? "nothing to clean up"
          : "",
      ]),
  }),
  command("move", "move everything into another store; for a copy, use backup", {
    args: [
      ["<from>", "a store"],
      ["[to]", "where to"],
    ],
    options: [
      ["--yes", "do not ask"],
      ["--undo", "take a finished move back, while <to> has no new writes"],
      ["--abandon", "give up an interrupted move: <from> takes writes again"],
    ],
    ask: askBeforeMoving,
    input: moveInput,
    page: page.movedPage,
  }),
  command("postgres rls", "let a database role see one namespace and no other (row-level security)", {
    args: [
      ["<role>", "the role that the tenant's programs log in with"],
      ["<namespace>", "the namespace that it may use"],
    ],
    options: [["--dry-run", "only print the SQL"]],
    page: ({ role, namespace, applied, sql, others }) =>
      linesOf([
        ...(applied
          ? [`${role} sees the namespace ${namespace} and no other`]
          : sql.map((each) => `${each};`)),
        others.length === 0 ? "" : `-- these roles see no rows any more: ${others.join(", ")}`,
      ]),
  }),
  command("vacuum", "give the space of erased and removed sessions back to the disk", {
    page: page.vacuumPage,
  }),
  command("backup", "write a checked copy of the store to a new file", {
    args: [["<file>", "a new file, or a new folder for a store in files"]],
    page: ({ from, file, bytes, keyRing }) =>
      linesOf([
        `${file}: a checked copy of ${from} (${bytes} bytes)`,
        ...(keyRing === null ? [] : [`! without its keys, which no copy is readable without: ${keyRing}`]),
      ]),
  }),
  command("rekey", "wrap the keys of an encrypted store by its current master key", {
    page: ({ keyRing, keys, rewrapped }) =>
      rewrapped === 0
        ? `${keyRing}: all ${keys} keys are wrapped by the current master key\n`
        : `${keyRing}: ${rewrapped} of ${keys} keys are now wrapped by the current master key\n`,
  }),
  command("restore", "show what may have happened since a restored copy; accept it", {
    options: [["--accept", "use the older copy from now on"]],
    page: page.restorePage,
    found: ({ rewound, accepted }) => rewound && !accepted,
  }),
  command("export", "write everything into one portable file", {
    args: [["<file>", "a new file"]],
    page: page.exportPage,
    found: ({ damaged }) => damaged.length > 0,
  }),
  command("import", "import an exported file", {
    args: [["<file>", "a file of export"]],
    page: page.importPage,
  }),
  command("rebuild", "write a goal's files from its log", {
    options: [["--folder <path>", "their folder (default .planning)"]],
    page: ({ goal, folder, edits, ahead, merged }) =>
      linesOf([
        `${folder} shows ${goal}`,
        ...merged.map((each) => `! ${each}`),
        ...edits.flatMap(({ file, taken, left, beside }) => [
          ...taken.map((each) => `applied from ${file}: ${each}`),
          ...left.map((each) => `! not applied from ${file}: ${each}; the text is kept in ${beside}`),
        ]),
        ...ahead.map((file) => `! ${file} is newer than this store and was not changed`),
      ]),
  }),
];

/** `--once` starts no workers and sends no notifications. */
function refuseWithOnce(options: Options): void {
  const [name] = Object.keys(options).filter((each) => options[each] !== undefined);
  if (name === undefined) return;
  throw new Misuse(
    `supervise: --once cannot be combined with ${name}`,
    `Nothing was changed. Leave out --once to run until Ctrl-C, or leave out ${name}.`,
  );
}

/** On a terminal, asks for the result of a call that landed: it cannot be added later. */
async function askResult(options: Options, [, outcome]: readonly (string | undefined)[]): Promise<Options> {
  if (outcome !== "landed" || options["result"] !== undefined) return options;
  const { isCancel, text } = await import("@clack/prompts");
  const asked = await text({
    message: "What did the tool return? Enter JSON, or nothing for null.",
    validate: (typed) => {
      try {
        if (typed?.trim()) json("the result", typed);
        return undefined;
      } catch (error) {
        return error instanceof Misuse ? `${error.message}. ${error.hint}` : String(error);
      }
    },
  });
  if (isCancel(asked)) throw new Misuse("resolve was cancelled", "Nothing was changed.", EXIT.interrupted);
  return String(asked ?? "").trim() === "" ? options : { ...options, result: String(asked) };
}

/** A move seals a store for good: typed for a backup, it would stop a service. */
async function askBeforeMoving(
  options: Options,
  [from, to]: readonly (string | undefined)[],
): Promise<Options> {
  if (options["yes"] || options["undo"] || options["abandon"] || to === undefined) return options;
  const { confirm } = await import("@clack/prompts");
  const what = `${from} will take no more writes; everything moves to ${to}.`;
  const message = `${what} (For a copy: holdfast backup.) Continue?`;
  if ((await confirm({ message, initialValue: false })) === true) return { ...options, yes: true };
  throw new Misuse("move was cancelled", "Nothing was changed.", EXIT.interrupted);
}

function moveInput(
  [from, to]: readonly (string | undefined)[],
  { yes, undo, abandon }: Options,
): Readonly<Record<string, unknown>> {
  if (undo && abandon) throw new Misuse("move: --undo and --abandon exclude each other", "Use one of them.");
  if (abandon && to !== undefined) {
    throw new Misuse("move --abandon: only the store to move from is allowed", "Leave out the other store.");
  }
  if (!abandon && to === undefined) {
    throw new Misuse("move: missing required argument 'to'", "See: holdfast move --help");
  }
  if (!abandon && !undo && !yes) {
    throw new Misuse(
      "move closes a store for writes: without a terminal it needs --yes",
      "For a copy that leaves the store open: holdfast backup <file>. To move it: add --yes.",
    );
  }
  return { from, to, undo: undo === true ? true : undefined };
}

/** Asks on a terminal, unless the command changes nothing or was confirmed by `--yes`. */
export async function confirmed(options: Options, word: string, what: string): Promise<Options> {
  if (options["yes"] || options["dryRun"]) return options;
  const { confirm } = await import("@clack/prompts");
  const message = `${what} (--dry-run lists them). Continue?`;
  if ((await confirm({ message, initialValue: false })) === true) return { ...options, yes: true };
  throw new Misuse(`${word} was cancelled`, "Nothing was changed.", EXIT.interrupted);
}

export function needsYes(what: string): Misuse {
  return new Misuse(
    `${what}: without a terminal it needs --yes`,
    "Run it with --dry-run first, then with --yes.",
  );
}

/** Parses `user=42`. A value may hold further equals signs. */
function metadataOf(typed: Options[string]): Record<string, string> | undefined {
  const pairs = list(typed);
  if (pairs === undefined) return undefined;
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf("=");
      if (at > 0) return [pair.slice(0, at), pair.slice(at + 1)];
      throw new Misuse(`--metadata: ${pair} has no value`, "For example: --metadata user=42");
    }),
  );
}
