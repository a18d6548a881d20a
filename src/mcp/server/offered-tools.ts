/**
 * Which operations an agent gets as tools, under which name, and what it should know beside the operation's own line. The
 * rules are the operations'; what is for people (`resolve`, `prune`, `session cancel`) is not here, and `perform` would
 * refuse it. Moving, copying and repairing stores is left to the command line.
 */

import * as z from "zod";
import { OPERATIONS, type Operation } from "../../operations/index.ts";
import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";

/** Schemas as a client sees them: small, because every tool's schema is read by a model. */



/** What is promised of an answer. */
export function advertised(schema: z.ZodType): StandardSchemaWithJSON {
  return withJson(schema, "output", (value) => schema["~standard"].validate(value) as never);
}

/**
 * What is wanted as input. It is only advertised here: the operation checks it, so that a wrong value is answered like
 * every other error, with a code and a hint.
 */
export function anyInput(schema: z.ZodType): StandardSchemaWithJSON {
  return withJson(schema, "input", (value) => ({ value }));
}

function withJson(
  schema: z.ZodType,
  io: "input" | "output",
  validate: StandardSchemaWithJSON["~standard"]["validate"],
): StandardSchemaWithJSON {
  // Clients list the tools whenever they please, and all schemas together take a tenth of a second.
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

/** Without what says nothing to a reader: the pattern behind a format, the bounds of every whole number. */
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
  /** Takes something away that others may rely on. */
  readonly destructive: boolean;
  /** Doing it twice is the same as doing it once. */
  readonly idempotent: boolean;
  /** What its answer promises: the operation's result, or the part of it that matters after an act. */
  readonly result: z.ZodType;
  /** The fields of that part; undefined for all. */
  readonly shows: readonly string[] | undefined;
}

const TASK = ["goal", "id", "title", "status", "phase", "by", "blockedBy"];
const WORK = [...TASK, "description", "wanted", "files", "dependsOn", "attempts"];

/** After these the agent needs to know what has become of the task, not everything about it; `task_show` tells the rest. */
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
};

type Row = readonly [name: string, operation: string, more?: string, traits?: "destructive" | "idempotent"];

const ROWS: readonly Row[] = [
  ["brief", "brief", "Read it first: where the goal stands, what was decided, what must not be done again."],
  [
    "resume",
    "resume",
    "Call it once at the beginning of your work. begun false: look at `why` and `files`, then say force.",
  ],
  ["handoff", "handoff", "Before your context is full, or when you stop early."],
  ["status", "status"],
  ["next", "next"],
  ["goal_list", "goal list"],
  ["goal_show", "goal show"],
  ["goal_new", "goal new"],
  ["goal_move", "move", "", "idempotent"],
  ["task_list", "task list"],
  ["task_show", "task show"],
  ["task_add", "task add"],
  ["task_claim", "task claim", "While this server runs, the claim is kept up for you.", "idempotent"],
  ["task_progress", "task start", "Also takes the task if you do not have it yet."],
  ["task_submit", "task submit", "Name the commands you ran with their exit codes, and the files."],
  ["task_fail", "task fail"],
  ["task_block", "task block"],
  ["task_release", "task release", "", "destructive"],
  ["task_verify", "task verify", "Not for your own work."],
  ["task_reopen", "task reopen", "", "destructive"],
  ["decide", "decide", "So that nobody decides it again, or otherwise without knowing why."],
  ["decisions", "decisions"],
  ["fact", "fact", "The same key again replaces the value.", "idempotent"],
  ["facts", "facts"],
  ["forget", "forget", "", "destructive"],
  [
    "remember_files",
    "remember files",
    "Whoever comes next is told if they have changed since.",
    "idempotent",
  ],
  ["block", "block add"],
  ["blockers", "block list"],
  ["block_bypass", "block bypass"],
  ["block_resolve", "block resolve"],
  ["open_calls", "calls", "Only people can answer for them. Do not do again what such a call may have done."],
];

export function offeredTools(): readonly OfferedTool[] {
  const all = ROWS.map(([name, operation, more = "", traits]) => {
    const row = OPERATIONS.get(operation);
    if (!row) throw new Error(`tool ${name} names the operation ${operation}, which is not there`);
    return offered(name, row, more, traits);
  });
  return all.filter(({ operation }) => operation.who !== "person");
}

/** Where a hint says what to type to look, an agent has a tool for it. What it says to a person stays as it is. */
export function followable(hint: string): string {
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
  if (!(result instanceof z.ZodObject)) throw new Error(`the result of ${name} has no fields to choose from`);
  const mask = Object.fromEntries(fields.map((field) => [field, true as const]));
  return result.pick(mask as never);
}

/** The answer as far as the tool shows it. */
export function shownPart(
  { shows }: OfferedTool,
  result: Readonly<Record<string, unknown>>,
): Record<string, unknown> {
  const entries = Object.entries(result).filter(([field]) => shows === undefined || shows.includes(field));
  return Object.fromEntries(entries);
}
