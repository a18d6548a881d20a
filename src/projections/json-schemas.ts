/** The JSON Schemas that are published in `schemas/`; a test compares them, `npm run schemas` writes them. */

import type { Field, RecordTable, ValueKind } from "../model/goal/index.ts";
import {
  ASSUMPTION,
  BLOCKER,
  BUILD_TASK,
  DECISION,
  FACT,
  FILE,
  fileName,
  HISTORY_ENTRY,
  KEY_IMPLEMENTATION,
  NEXT_ACTION,
  QUESTION,
  REVIEW_TASK,
  ROLES,
  TASK_PLAN,
  TASK_STATUSES,
  TASK_WORK,
  VERIFICATIONS,
} from "../model/goal/index.ts";
import type { JsonSchema } from "../state-files/index.ts";
import { AGENT_STATE_VERSION, TASK_BOARD_VERSION } from "./json-files.ts";

const DRAFT = "https://json-schema.org/draft/2020-12/schema";
const BASE = "https://holdfast.dev/schemas";

function published(name: string, title: string, body: JsonSchema): JsonSchema {
  return { $schema: DRAFT, $id: `${BASE}/${name}.schema.json`, title, ...body };
}

const text = { type: "string", minLength: 1 };
const maybe = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: "null" }] });
const list = (items: JsonSchema): JsonSchema => ({ type: "array", items });
const whole = { type: "integer", minimum: 0 };
const ordinal = { type: "integer", minimum: 1 };
const time = {
  anyOf: [{ type: "string", pattern: "^[+-]?\\d{4,6}-\\d{2}-\\d{2}T[\\d:.]+Z$" }, { type: "integer" }],
};
const taskId = { type: "string", pattern: "^T-\\d{3,}$" };
const decisionId = { type: "string", pattern: "^D-\\d{3,}$" };
const blockerId = { type: "string", pattern: "^B-\\d{3,}$" };
const assumptionId = { type: "string", pattern: "^A-\\d{3,}$" };
const questionId = { type: "string", pattern: "^Q-\\d{3,}$" };
const hash = { type: "string", pattern: "^[0-9a-f]{64}$" };
const path = { type: "string", minLength: 1, maxLength: 1024, not: { pattern: "(^|/)\\.{0,2}(/|$)|\\\\" } };

const by = record({ name: text, role: { enum: [...ROLES] } });

const KINDS: Readonly<Record<ValueKind, JsonSchema>> = {
  line: text,
  text,
  output: { type: "string" },
  day: { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}$" },
  ordinal,
  // A count of 0 is left out.
  count: ordinal,
  whole,
  integer: { type: "integer" },
  share: { type: "number", minimum: 0, maximum: 1 },
  flag: { type: "boolean" },
  time,
  path,
  hash,
  taskId,
  decisionId,
  blockerId,
  questionId,
  assumptionId,
  sessionId: { type: "string", minLength: 1, maxLength: 128 },
  session: text,
  eventUid: text,
  actor: by,
  json: true as unknown as JsonSchema,
};

function record(
  required: Readonly<Record<string, JsonSchema>>,
  optional: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return {
    type: "object",
    required: Object.keys(required),
    properties: { ...required, ...optional },
    additionalProperties: false,
  };
}

const sealOf = (version: number): Readonly<Record<string, JsonSchema>> => ({
  schema_version: { const: version },
  run_id: { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" },
  revision: whole,
  digest: { type: "string", pattern: "^sha256:[0-9a-f]{64}$" },
});

type Definitions = Readonly<Partial<Record<ValueKind, string>>>;

interface MemberOptions {
  readonly sparse?: boolean;
  readonly defined?: Definitions;
}

type Members = Record<"required" | "optional", Record<string, JsonSchema>>;

function membersOf(table: RecordTable, { sparse = false, defined = {} }: MemberOptions = {}): Members {
  const members: Members = { required: {}, optional: {} };
  for (const [name, field] of Object.entries(table)) {
    const { type, nullable, optional } = field;
    if (field.file === false || field.section) continue;
    const schema = valueSchema(field, defined);
    const column = fileName(name, field);
    if (field.flat) Object.assign(members.required, schema["properties"]);
    else if (sparse && (nullable || optional || type === "count")) members.optional[column] = schema;
    else members.required[column] = nullable ? maybe(schema) : schema;
  }
  return members;
}

function valueSchema({ type, many, atLeast }: Field, defined: Definitions): JsonSchema {
  if (typeof type === "string") {
    const schema = defined[type] ? { $ref: `#/$defs/${defined[type]}` } : KINDS[type];
    return many ? { ...list(schema), ...(atLeast && { minItems: atLeast }) } : schema;
  }
  if (Array.isArray(type)) return type.length === 1 ? { const: type[0] } : { enum: [...type] };
  // A definition is only used in the record itself, not in lists of records inside it.
  const { required } = membersOf(type as RecordTable, { defined: many ? {} : defined });
  return many ? list(record(required)) : record(required);
}

function rowSchema(table: RecordTable, options?: MemberOptions): JsonSchema {
  const { required, optional } = membersOf(table, options);
  return record(required, optional);
}

const BOARD_DEFINITIONS: Definitions = { actor: "by", time: "time", path: "path", taskId: "taskId" };

function taskSchema(own: RecordTable): JsonSchema {
  const options = { sparse: true, defined: BOARD_DEFINITIONS };
  const [plan, work] = [membersOf(TASK_PLAN, options), membersOf(TASK_WORK, options)];
  const required = { ...plan.required, ...membersOf(own).required, ...work.required };
  return record(required, { ...plan.optional, ...work.optional });
}

const taskBoardBody = {
  phases: list(
    record(
      { number: ordinal, name: text, plans: list(record({ number: ordinal, name: text })) },
      { closed_at: { $ref: "#/$defs/time" } },
    ),
  ),
  aliases: {
    type: "object",
    propertyNames: { pattern: "^[TDBQA]-[0-9]{3,}(~[0-9a-z]{1,12})?$" },
    additionalProperties: { type: "string", pattern: "^[TDBQA]-[0-9]{3,}$" },
  },
  tasks: list({ $ref: "#/$defs/task" }),
};

export const TASK_BOARD_SCHEMA = published("task_board", "The task board of a goal", {
  ...record({ ...sealOf(TASK_BOARD_VERSION), ...taskBoardBody }),
  $defs: {
    by,
    time,
    path,
    taskId,
    buildTask: taskSchema(BUILD_TASK),
    reviewTask: taskSchema(REVIEW_TASK),
    task: { oneOf: [{ $ref: "#/$defs/buildTask" }, { $ref: "#/$defs/reviewTask" }] },
  },
});

const position = record({
  phase: maybe(ordinal),
  phase_name: maybe(text),
  plan: maybe(ordinal),
  plan_name: maybe(text),
  task: maybe(taskId),
  task_title: maybe(text),
  wave: maybe(ordinal),
  status: { enum: [...TASK_STATUSES, "blocked", "unplanned"] },
});

const progress = record({
  phases_total: whole,
  phases_completed: whole,
  current_phase_tasks: whole,
  current_phase_completed: whole,
  tasks_total: whole,
  tasks_completed: whole,
  percent: { type: "integer", minimum: 0, maximum: 100 },
  bar: { type: "string", pattern: "^█*░* \\d{1,3}%$" },
});

/** `risks`, which version 1 called `blockers`, is where the two versions differ. */
function agentStateBody(risks: "risks" | "blockers"): Readonly<Record<string, JsonSchema>> {
  return {
    title: maybe(text),
    original_goal: text,
    status: { enum: ["active", "blocked", "done"] },
    created_at: time,
    updated_at: time,
    last_human_touch: maybe(time),
    settings: record({
      ttl_ms: maybe(ordinal),
      verification: { enum: [...VERIFICATIONS] },
      max_attempts: ordinal,
    }),
    current_phase: maybe(text),
    focus: maybe(ordinal),
    position,
    progress,
    active_task_id: maybe(taskId),
    next_action: maybe(rowSchema(NEXT_ACTION)),
    completed_tasks: list(taskId),
    failed_tasks: list(record({ task: taskId, error: { type: "string" }, retryable: { type: "boolean" } })),
    remaining_tasks: list(taskId),
    confirmed_facts: {
      type: "object",
      additionalProperties: rowSchema(FACT, { sparse: true }),
    },
    decisions_made: list(text),
    [risks]: list(blockerId),
    questions: list(rowSchema(QUESTION, { sparse: true })),
    assumptions: list(rowSchema(ASSUMPTION, { sparse: true })),
    key_implementations: list(rowSchema(KEY_IMPLEMENTATION)),
    files_examined: list(path),
    files: list(rowSchema(FILE, { sparse: true })),
    iteration_count: whole,
    error_count: whole,
    last_successful_op: maybe(text),
    last_success: maybe(record({ operation: text, task: taskId, at: time })),
    checkpoint: maybe(
      record({
        kind: { enum: ["task_completed", "phase_changed", "significant_finding", "error_occurred"] },
        about: { type: "string" },
        seq: whole,
        at: time,
      }),
    ),
    numbers_given: record({ T: whole, D: whole, B: whole, Q: whole, A: whole }),
  };
}

export const AGENT_STATE_SCHEMA = published(
  "agent_state",
  "The state of a goal, for the next agent",
  record({ ...sealOf(AGENT_STATE_VERSION), ...agentStateBody("risks") }),
);

const AGENT_STATE_V1_SCHEMA = published(
  "agent_state.v1",
  "The state of a goal, for the next agent, as version 1 wrote it",
  record({ ...sealOf(1), ...agentStateBody("blockers") }),
);

export const RECORDS_SCHEMA = published("records", "The frontmatter of decisions, blockers and sessions", {
  oneOf: [{ $ref: "#/$defs/decision" }, { $ref: "#/$defs/blocker" }, { $ref: "#/$defs/session" }],
  $defs: {
    decision: record({ ...sealFields(), ...membersOf(DECISION).required }),
    blocker: record({ ...sealFields(), ...membersOf(BLOCKER).required }),
    session: record({ ...sealFields(), ...membersOf(HISTORY_ENTRY).required }),
  },
});

function sealFields(): Readonly<Record<string, JsonSchema>> {
  const { run_id: goal, revision, digest } = sealOf(0);
  return { goal, revision, digest } as Readonly<Record<string, JsonSchema>>;
}

const STATE_PAIR_SCHEMA = published(
  "state_pair",
  "The state and the board of a goal",
  record({
    agent_state: { $ref: "agent_state.schema.json" },
    task_board: { $ref: "task_board.schema.json" },
  }),
);

export const SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  "agent_state.schema.json": AGENT_STATE_SCHEMA,
  "agent_state.v1.schema.json": AGENT_STATE_V1_SCHEMA,
  "task_board.schema.json": TASK_BOARD_SCHEMA,
  "state_pair.schema.json": STATE_PAIR_SCHEMA,
  "records.schema.json": RECORDS_SCHEMA,
};
