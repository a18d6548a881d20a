/**
 * The operations that an agent gets as MCP tools. Operations for people (`resolve`, `prune`) are not here,
 * and `perform` would reject them.
 */

import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import * as z from "zod";
import { OPERATIONS, type Operation } from "../../operations/index.ts";

export function outputSchema(schema: z.ZodType): StandardSchemaWithJSON {
  return withJson(schema, "output", (value) => schema["~standard"].validate(value) as never);
}

/** It only informs the client: the operation validates, and its errors have a code and a hint. */
export function inputSchema(schema: z.ZodType): StandardSchemaWithJSON {
  return withJson(schema, "input", (value) => ({ value }));
}

function withJson(
  schema: z.ZodType,
  io: "input" | "output",
  validate: StandardSchemaWithJSON["~standard"]["validate"],
): StandardSchemaWithJSON {
  // Cached: clients list the tools often, and all schemas together take a tenth of a second.
  let made: Record<string, unknown> | undefined;
  const json = (): Record<string, unknown> => {
    made ??= slim(z.toJSONSchema(schema, { io })) as Record<string, unknown>;
    return made;
  };
  return {
    "~standard": { version: 1, vendor: "holdfast", validate, jsonSchema: { input: json, output: json } },
  };
}

const NEEDLESS = ["$schema", "propertyNames"];

/** Drops noise that a model would have to read: the pattern behind a format, the bounds of every integer. */
function slim(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(slim);
  if (typeof value !== "object" || value === null) return value;
  const { format, type } = value as { format?: unknown; type?: unknown };
  const isNeedless = ([name, each]: [string, unknown]): boolean =>
    NEEDLESS.includes(name) ||
    (name === "pattern" && format !== undefined) ||
    (type === "integer" &&
      ["minimum", "maximum"].includes(name) &&
      Math.abs(Number(each)) === Number.MAX_SAFE_INTEGER);
  return Object.fromEntries(
    Object.entries(value)
      .filter((entry) => !isNeedless(entry))
      .map(([name, each]) => [name, slim(each)]),
  );
}

export interface OfferedTool {
  readonly name: string;
  readonly operation: Operation;
  readonly description: string;
  /** True if it removes something that others may rely on. */
  readonly destructive: boolean;
  /** True if repeating it changes nothing. */
  readonly idempotent: boolean;
  readonly result: z.ZodType;
  readonly shows: readonly string[] | undefined;
}

const TASK = ["goal", "id", "title", "status", "phase", "by", "blockedBy"];
const WORK = [...TASK, "description", "wanted", "files", "dependsOn", "attempts"];

/** Tools whose answer shows only the main fields; `task_show` shows the rest. */
const SHOWS: Readonly<Record<string, readonly string[]>> = {
  goal_new: ["goal", "statement", "seq", "position", "progress"],
  task_add: TASK,
  task_claim: WORK,
  task_progress: WORK,
  task_submit: TASK,
  task_fail: TASK,
  task_block: TASK,
  task_release: TASK,
  task_verify: TASK,
  task_reopen: TASK,
  task_edit: TASK,
  task_alias: TASK,
  task_retry: TASK,
  task_drop: TASK,
};

type Row = readonly [name: string, operation: string, more?: string, traits?: "destructive" | "idempotent"];

const ROWS: readonly Row[] = [
  ["brief", "brief", "Read it first: where the goal stands, what was decided, what must not be repeated."],
  [
    "resume",
    "resume",
    "Call it once when you start. If begun is false: read `why` and `files`, then pass force.",
  ],
  ["note", "note", "Deviations from the plan go into `issues`."],
  ["finish", "finish", "If you stop early, call handoff instead."],
  ["handoff", "handoff", "Before your context is full, or when you stop early."],
  ["status", "status"],
  ["next", "next"],
  ["goal_list", "goal list"],
  ["goal_show", "goal show"],
  ["goal_log", "goal log"],
  ["goal_new", "goal new"],
  ["goal_import", "goal import"],
  ["goal_move", "goal move", "", "idempotent"],
  ["goal_edit", "goal edit", "", "idempotent"],
  ["goal_next", "goal next", "", "idempotent"],
  ["phase_add", "phase add"],
  ["phase_complete", "phase complete", "", "idempotent"],
  ["plan_add", "plan add"],
  ["task_list", "task list"],
  ["task_show", "task show"],
  ["task_add", "task add"],
  ["task_edit", "task edit", "", "idempotent"],
  ["task_alias", "task alias", "", "idempotent"],
  ["task_claim", "task claim", "This server renews the claim while it runs.", "idempotent"],
  ["task_progress", "task start", "Also claims the task if you do not have it yet."],
  ["task_submit", "task submit", "Pass the commands you ran with their exit codes, and the files."],
  ["task_fail", "task fail"],
  ["task_block", "task block"],
  ["task_release", "task release", "", "destructive"],
  ["task_verify", "task verify", "Not for your own work."],
  ["task_retry", "task retry"],
  ["task_drop", "task drop", "", "destructive"],
  ["task_reopen", "task reopen", "", "destructive"],
  ["decide", "decide", "Later agents see it and do not decide it again."],
  ["decisions", "decisions"],
  ["fact", "fact", "The same key again replaces the value.", "idempotent"],
  ["facts", "facts"],
  ["forget", "forget", "", "destructive"],
  ["remember_files", "remember files", "The next agent is told if they changed.", "idempotent"],
  ["built", "built"],
  ["ask", "ask", "For a person or a planner."],
  ["answer", "answer"],
  ["questions", "questions"],
  ["assume", "assume", "What you rely on and have not checked."],
  ["assumption_confirm", "confirm"],
  ["assumption_refute", "refute", "Later agents are warned."],
  ["assumptions", "assumptions"],
  ["error", "error"],
  ["block", "block add"],
  ["blockers", "block list"],
  ["block_confirm", "block confirm", "", "idempotent"],
  ["block_bypass", "block bypass"],
  ["block_resolve", "block resolve"],
  ["session_list", "session list"],
  ["session_show", "session show"],
  ["session_log", "session log"],
  ["session_versions", "session versions"],
  ["session_at", "session at"],
  ["session_diff", "session diff"],
  ["ledger", "ledger", "Look up a call by its idempotency key before you repeat an action."],
  ["inbox", "inbox"],
  ["open_calls", "calls", "Only people can settle them. Do not repeat what such a call may have done."],
];

export function offeredTools(): readonly OfferedTool[] {
  const all = ROWS.map(([name, operation, more = "", traits]) => {
    const row = OPERATIONS.get(operation);
    if (!row) throw new Error(`tool ${name}: no such operation: ${operation}`);
    return offered(name, row, more, traits);
  });
  return all.filter(({ operation }) => operation.who !== "person");
}

/** Replaces CLI commands in a hint by the tools that do the same. Hints for people stay as they are. */
export function toolHint(hint: string): string {
  const looks = offeredTools().filter(({ operation }) => !operation.writes);
  return looks
    .reduce(
      (words, { name, operation }) =>
        words.replaceAll(new RegExp(`\\bholdfast ${operation.name}(?![\\w-])(?: (--all))?`, "g"), (_, all) =>
          all === undefined ? name : `${name} with all: true`,
        ),
      hint,
    )
    .replaceAll(/ \(--[a-z]+\)/g, "");
}

function offered(name: string, operation: Operation, more: string, traits: Row[3]): OfferedTool {
  const description = [`${operation.about}.`, more].filter(Boolean).join(" ");
  const idempotent = !operation.writes || traits === "idempotent";
  const shows = SHOWS[name];
  const result = shows === undefined ? operation.result : partOf(operation, shows);
  return { name, operation, description, destructive: traits === "destructive", idempotent, result, shows };
}

function partOf({ name, result }: Operation, fields: readonly string[]): z.ZodType {
  if (!(result instanceof z.ZodObject)) throw new Error(`operation ${name}: its result is not an object`);
  const mask = Object.fromEntries(fields.map((field) => [field, true as const]));
  return result.pick(mask as never);
}

export function shownFields(
  { shows }: OfferedTool,
  result: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const entries = Object.entries(result).filter(([field]) => shows === undefined || shows.includes(field));
  return Object.fromEntries(entries);
}
