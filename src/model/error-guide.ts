/**
 * Cause and cure of every error code. `holdfast explain <code>` and the page
 * `docs/reference/errors.md` show this table. It is apart from `errors.ts`, because hooks load that at every
 * start.
 */

import type { ErrorCode } from "./errors.ts";

export interface ErrorGuide {
  /** A sentence that says what happened. */
  readonly cause: string;
  /** An imperative that says what to do. */
  readonly cure: string;
}

/** The headings under which the codes are listed, in this order. */
export const ERROR_GROUPS = {
  input: "Input that was refused",
  call: "Sessions and calls",
  goal: "Goals and repo memory",
  store: "The store",
  data: "Records that cannot be read",
} as const;

type Group = keyof typeof ERROR_GROUPS;

/** A code without a row here does not compile. */
export const ERROR_GUIDE: Readonly<Record<ErrorCode, ErrorGuide & { readonly group: Group }>> = {
  NAME_INVALID: {
    group: "input",
    cause: "A name or id has characters that are not allowed, or is too long.",
    cure:
      "Use 1 to 128 letters, digits, dots, dashes or underscores. Ids of sessions also take what ids of " +
      "users contain: `auth0|7c`, `ann@example.com`, `user:42`. Slashes, quotes and spaces are not allowed.",
  },
  ARGS_NOT_JSON: {
    group: "input",
    cause:
      "The arguments of a call hold a value that JSON cannot express: NaN, a bigint, undefined, a " +
      "Date, a function or a lone surrogate.",
    cure: "Convert the value at the path that the message names, such as `date.toISOString()`.",
  },
  VALUE_NOT_JSON: {
    group: "input",
    cause:
      "A message, a plan, metadata or another value to be saved holds something that JSON cannot " +
      "express.",
    cure: "Convert the value at the path that the message names. Nothing was saved.",
  },
  INPUT_INVALID: {
    group: "input",
    cause: "An option, a field of a file or an argument has the wrong type, is misspelt, or is missing.",
    cure: "Correct the value at the path that the message names. Nothing was changed.",
  },
  CONFIG_UNTRUSTED: {
    group: "input",
    cause:
      "The project has a configuration file with code, and nobody on this machine has trusted this " +
      "version of it.",
    cure: "Read the file, then run `holdfast trust`. In a program, call `open(await loadConfig())`.",
  },
  ROLE_REFUSED: {
    group: "input",
    cause:
      "The caller's role may not do this: an agent tried an act of a person, or a worker an act of " +
      "an orchestrator.",
    cure: "Let a caller with one of the roles in the message do it. People act in a terminal of their own.",
  },
  CALL_TRANSITION: {
    group: "call",
    cause:
      "The call is in a state from which this act is impossible, such as an answer to a call that " +
      "has completed.",
    cure: "Read the call's state with `holdfast calls` and decide again.",
  },
  CALL_NOT_FOUND: {
    group: "call",
    cause: "No open call has this id, or the id belongs to calls of several sessions.",
    cure:
      "List the calls with `holdfast calls`. Name the session with `--session` if the id is not " + "unique.",
  },
  CALL_NOT_WAITING: {
    group: "call",
    cause: "The call waits for nobody: it runs, or it already has an outcome.",
    cure: "Leave it alone, or cancel the session with `holdfast session cancel <session>`.",
  },
  CALL_CHANGED: {
    group: "call",
    cause: "The call changed after the person had read it.",
    cure: "Read it again, then answer what you see now.",
  },
  KEY_TAKEN: {
    group: "call",
    cause: "Another call holds this once-ever key.",
    cure: "Look up that call with `holdfast ledger <key>`. A finished call is not run again.",
  },
  STATE_STALE: {
    group: "call",
    cause: "The session or goal has not changed for longer than its time to live (72 hours unless set).",
    cure:
      'Check that it still holds, then pass `stale: "use"` or type `holdfast session retry ' +
      "<session>`. A longer limit is `ttlMs`.",
  },
  SESSION_HELD: {
    group: "call",
    cause: "Another process, or another handle of this one, holds the session's lease.",
    cure: 'Wait until it is released or expires, close the other handle, or pass `ifHeld: "wait"`.',
  },
  SESSION_ENDED: {
    group: "call",
    cause: "The session is completed, failed or cancelled, so it takes no new turn.",
    cure: "Continue it with `session.reopen()`, or start another session.",
  },
  SESSION_CLOSED: {
    group: "call",
    cause: "This program closed the session and then used it.",
    cure: "Close it after its last use. In routes that stream, use `withSession`.",
  },
  SESSION_HAS_OPEN_CALLS: {
    group: "call",
    cause: "A call of the session has no outcome yet, and the act needs one.",
    cure: "Run the session with its tools, which settles the calls, or answer them: `holdfast calls`.",
  },
  MESSAGE_UNFINISHED: {
    group: "call",
    cause: "The last message has tool calls without results, so no other message may follow it.",
    cure: "Call `session.calls(session.unfinished, tools)` first.",
  },
  PROMPT_DIVERGED: {
    group: "call",
    cause: "A prompt id, or a recorded turn of a wrapper, was used again with other words.",
    cure: "Use the same words to resume, or another id for a new prompt.",
  },
  BUDGET_EXCEEDED: {
    group: "call",
    cause: "The next model call could exceed the limit of the session's budget.",
    cure: "Raise the limit: `holdfast session budget <session>`, or `sessions.raiseBudget`.",
  },
  BUDGET_UNIT_UNKNOWN: {
    group: "call",
    cause: "The budget limits a unit, such as `usd`, that the model does not report.",
    cure:
      "Return the unit as `usage` of the model function, pass `prices` to the integration, or " +
      "limit another unit.",
  },
  LEASE_LOST: {
    group: "call",
    cause: "Another process took over the lease while this one was paused or slow.",
    cure: "Stop: the other process continues. Nothing was written after the take-over.",
  },
  VERSION_NOT_FOUND: {
    group: "call",
    cause: "The session has no version with this number, or the version was deleted.",
    cure: "List the versions with `holdfast session versions <session>`.",
  },
  STREAM_NOT_FOUND: {
    group: "call",
    cause: "No session or goal has this id in this store and namespace.",
    cure: "List what is there with `holdfast session list`. Check `--store` and `--namespace`.",
  },
  STREAM_EXISTS: {
    group: "call",
    cause: "A fork, an import or a move would create something whose name is taken.",
    cure: "Choose a free name, or remove the old one first.",
  },
  STREAM_BUSY: {
    group: "call",
    cause:
      "Other writers changed the same session or goal several times in a row, or a process still " +
      "works on it.",
    cure: "Try again. If it stays, find the other writer with `holdfast fleet`.",
  },
  GOAL_NOT_FOUND: {
    group: "goal",
    cause: "No goal has this name, or there are several and none was named.",
    cure:
      "Name it with `--goal`, choose one with `holdfast goal use <goal>`, or create it with a " +
      "statement.",
  },
  GOAL_ITEM_NOT_FOUND: {
    group: "goal",
    cause: "The goal has no task, phase, plan, decision or blocker with this id.",
    cure: "List them: `holdfast task list --all`, `holdfast decisions`, `holdfast block list --all`.",
  },
  TASK_TRANSITION: {
    group: "goal",
    cause:
      "The task is in a state from which this act is impossible, such as submitting a task that " +
      "nobody claimed.",
    cure: "Read it with `holdfast task show <task>` and follow the hint.",
  },
  TASK_NOT_READY: {
    group: "goal",
    cause: "The task waits for another task, a blocker or its phase.",
    cure: "Ask for one that is ready: `holdfast next`.",
  },
  TASK_HELD: {
    group: "goal",
    cause: "Another agent holds the task.",
    cure: "Claim another task, or wait until the claim expires.",
  },
  BLOCKER_TRANSITION: {
    group: "goal",
    cause: "The blocker is in a state from which this act is impossible, such as bypassing a resolved one.",
    cure: "Read it with `holdfast block list --all`.",
  },
  PHASE_UNFINISHED: {
    group: "goal",
    cause: "The phase has tasks that are neither done nor dropped.",
    cure: "Finish or drop the tasks that the message names.",
  },
  HUMAN_EDITING: {
    group: "goal",
    cause: "A person edited the file less than five seconds ago, or during the write.",
    cure: "Try again after a few seconds. The person's text stays.",
  },
  FOLDER_BUSY: {
    group: "goal",
    cause: "Another process renders the folder right now.",
    cure: "Try again.",
  },
  FOLDER_TAKEN: {
    group: "goal",
    cause: "The folder belongs to another goal or another program.",
    cure: "Choose another folder, or move the files away.",
  },
  FOLDER_UNSAFE: {
    group: "goal",
    cause: "A link leads out of the project, or the folder is not one that Holdfast may write.",
    cure: "Remove the link. If it is your own, pass `--follow-links`.",
  },
  FILE_LOCKED: {
    group: "goal",
    cause: "Another process writes the state file.",
    cure: "Try again.",
  },
  EDIT_APPLIED: {
    group: "goal",
    cause: "A person's edit was applied as events. The message says which. This is a notice.",
    cure: "Nothing to do.",
  },
  EDIT_LEFT: {
    group: "goal",
    cause: "A part of a person's edit could not be applied. The edited file was kept beside the new one.",
    cure: "Read what the message names, then make that change with a command.",
  },
  EVENT_FILE_REFUSED: {
    group: "goal",
    cause:
      "An event file that a pull brought is damaged, forged or does not fit. The rest of the goal " +
      "works.",
    cure: "Run `holdfast doctor`. Ask the author of the commit, or delete the file.",
  },
  STORE_CLOSED: {
    group: "store",
    cause: "The program closed the store and then used it.",
    cure: "Close it when nothing is in flight, or open it again.",
  },
  STORE_BUSY: {
    group: "store",
    cause: "The store is locked by another process, or too slow to renew a lease.",
    cure: "Try again. If it stays, stop the other program that has the file open.",
  },
  STORE_IO: {
    group: "store",
    cause: "The disk or the connection failed. If `error.unknown` is true, the write may have happened.",
    cure: "Check the disk or the server, then run the program again. It settles what is open.",
  },
  STORE_FULL: {
    group: "store",
    cause: "The disk is full. Nothing of the write was acknowledged.",
    cure: "Free some space, then run the program again.",
  },
  STORE_READONLY: {
    group: "store",
    cause: "The store cannot be written: permissions, a read-only disk, or a move that has not finished.",
    cure: "Follow the hint: it names the permission, or the command that finishes the move.",
  },
  STORE_CORRUPT: {
    group: "store",
    cause: "The file is damaged, or records that must be there are missing.",
    cure: "Stop all writers, run `holdfast check`, then restore a backup: docs/guides/backup.md.",
  },
  STORE_FOREIGN: {
    group: "store",
    cause: "The file, folder or database belongs to another program, or cannot hold a store.",
    cure: "Choose another path or schema. Nothing was changed.",
  },
  STORE_UNTRUSTED: {
    group: "store",
    cause: "Another user owns the store, everybody can write it, or git tracks it.",
    cure: "Follow the hint: `chmod`, `git rm --cached`, or `HOLDFAST_TRUST`.",
  },
  STORE_TOO_NEW: {
    group: "store",
    cause: "A later version of Holdfast wrote the store.",
    cure: "Update the package.",
  },
  STORE_REPLACED: {
    group: "store",
    cause: "The file or server changed under a running program: it was replaced or went back in time.",
    cure: "Stop all writers, find out which copy is the right one, put it in place and start again.",
  },
  STORE_REWOUND: {
    group: "store",
    cause: "The store is older than what this machine wrote to it: somebody restored a backup.",
    cure: "Run `holdfast restore`. It lists the calls that may have happened since; `--accept` continues.",
  },
  STORE_MOVED: {
    group: "store",
    cause: "The store was moved to another address and can only be read here.",
    cure: "Use the address in the message.",
  },
  STORE_NOT_FOUND: {
    group: "store",
    cause: "No store is at this address.",
    cure: "Check the address. To create one: `holdfast init`, or `open()` without `mustExist`.",
  },
  STORE_DRIVER_MISSING: {
    group: "store",
    cause: "The driver of the store is not installed, or a bundler left it out.",
    cure: "Install the package that the message names, or mark it as external in the bundler.",
  },
  STORE_ON_NETWORK_DISK: {
    group: "store",
    cause: "SQLite and the files store need locks that network disks do not keep.",
    cure: "Use a local disk, or Postgres.",
  },
  STORE_NOT_DURABLE: {
    group: "store",
    cause:
      "The platform does not keep its disk, or the Postgres server has `fsync` or " +
      "`synchronous_commit` off.",
    cure: "Use a durable store, or switch the setting on.",
  },
  SIGNING_FAILED: {
    group: "input",
    cause: "`ssh-keygen` is missing, or the key did not sign.",
    cure: "Install OpenSSH, load the key with `ssh-add`, then run `holdfast sign`. The act was recorded.",
  },
  APPROVER_REQUIRED: {
    group: "call",
    cause: "The tool requires an approver, and the answer has no signature by a key that counts here.",
    cure: "Set your key with `holdfast sign --key`, and allow it with `holdfast approver add`.",
  },
  SIGNERS_IGNORED: {
    group: "input",
    cause: "The list of allowed signers is inside the project, or others can write it.",
    cure: "Keep it in `~/.config/holdfast/`, writable by you alone. Until then no signature counts.",
  },
  BLOCK_UNKNOWN: {
    group: "data",
    cause: "A message has a block of a kind that this version does not know.",
    cure: "Use `text`, `reasoning`, `tool_call`, `tool_result` or `file`, or update the package.",
  },
  EVENT_UNKNOWN: {
    group: "data",
    cause: "The log has an event of a type that this version does not know.",
    cure: "Update the package: a later version wrote the event.",
  },
  EVENT_TOO_NEW: {
    group: "data",
    cause: "The log has an event in a newer format.",
    cure: "Update the package.",
  },
  EVENT_CORRUPT: {
    group: "data",
    cause: "A record is no valid event, or the log has a gap.",
    cure: "Run `holdfast check`, then restore a backup: docs/guides/backup.md.",
  },
  CODEC_UNKNOWN: {
    group: "data",
    cause: "The record is encrypted or encoded, and no codec for it is configured.",
    cure: "Name the codec or `encryption` in the configuration file.",
  },
  CODEC_FAILED: {
    group: "data",
    cause: "A record could not be decrypted or encoded: a wrong key, or a damaged record or key file.",
    cure: "Check the keys and the key ring. An erased session cannot be decrypted by design.",
  },
  BATCH_INVALID: {
    group: "data",
    cause:
      "A store got a batch that breaks the rules of the port. Your own store or a defect of ours " +
      "caused it.",
    cure: "If you wrote a store, run `storeSuite`. Otherwise please report it.",
  },
  ARTIFACT_MISSING: {
    group: "data",
    cause: "A record refers to an artifact that is not in the store.",
    cure: "Restore it from a backup, or put it again.",
  },
  ARTIFACT_CORRUPT: {
    group: "data",
    cause: "The bytes of an artifact do not match its hash, or its file is gone.",
    cure: "Restore it from a backup, or put it again.",
  },
};
