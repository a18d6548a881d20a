/** The schemas of the JSON files, as they are published in `schemas/`. A test keeps the two the same. */

import {
  BLOCKER_STATUSES,
  DECISION_TYPES,
  ROLES,
  TASK_STATUSES,
  VERIFICATIONS,
} from "../model/goal/index.ts";
import { AGENT_STATE_VERSION } from "./agent-state.ts";
import { TASK_BOARD_VERSION } from "./task-board.ts";

export type JsonSchema = Readonly<Record<string, unknown>>;

const DRAFT = "https://json-schema.org/draft/2020-12/schema";
const BASE = "https://holdfast.dev/schemas";

const text = { type: "string", minLength: 1 };
const maybe = (schema: JsonSchema): JsonSchema => ({ anyOf: [schema, { type: "null" }] });
const list = (items: JsonSchema): JsonSchema => ({ type: "array", items });
const whole = { type: "integer", minimum: 0 };
const ordinal = { type: "integer", minimum: 1 };
/** ISO text; a number only where no calendar reaches. */
const time = {
  anyOf: [{ type: "string", pattern: "^[+-]?\\d{4,6}-\\d{2}-\\d{2}T[\\d:.]+Z$" }, { type: "integer" }],
};
const taskId = { type: "string", pattern: "^T-\\d{3,}$" };
const decisionId = { type: "string", pattern: "^D-\\d{3,}$" };
const blockerId = { type: "string", pattern: "^B-\\d{3,}$" };
const questionId = { type: "string", pattern: "^Q-\\d{3,}$" };
const hash = { type: "string", pattern: "^[0-9a-f]{64}$" };
const path = { type: "string", minLength: 1, maxLength: 1024, not: { pattern: "(^|/)\\.{0,2}(/|$)|\\\\" } };

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

const by = record({ name: text, role: { enum: [...ROLES] } });
const sealOf = (version: number): Readonly<Record<string, JsonSchema>> => ({
  schema_version: { const: version },
  run_id: { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$" },
  revision: whole,
  digest: { type: "string", pattern: "^sha256:[0-9a-f]{64}$" },
});

const evidenceFiles = list(record({ path, hash: maybe(hash) }));
const claim = {
  by: { $ref: "#/$defs/by" },
  session: maybe(text),
  at: { $ref: "#/$defs/time" },
  progress_at: { $ref: "#/$defs/time" },
  note: maybe(text),
};

const anyTask: { required: Record<string, JsonSchema>; optional: Record<string, JsonSchema> } = {
  required: {
    id: { $ref: "#/$defs/taskId" },
    title: text,
    phase: ordinal,
    wave: ordinal,
    status: { enum: [...TASK_STATUSES, "blocked"] },
    depends_on: list({ $ref: "#/$defs/taskId" }),
    files: list({ $ref: "#/$defs/path" }),
  },
  optional: {
    description: text,
    plan: ordinal,
    own_status: { enum: [...TASK_STATUSES] },
    blocked_by: list(blockerId),
    assigned_to: record(claim),
    previous: record({
      ...claim,
      ended: { enum: ["lost", "released", "reset", "failed", "rejected"] },
      ended_at: { $ref: "#/$defs/time" },
      why: maybe({ type: "string" }),
    }),
    attempts: ordinal,
    failures: ordinal,
    rejections: ordinal,
    failure: record({ error: text, retryable: { type: "boolean" }, at: { $ref: "#/$defs/time" } }),
    submission: record({
      summary: maybe(text),
      commands: list(record({ command: text, exit_code: { type: "integer" } })),
      files: evidenceFiles,
      by: { $ref: "#/$defs/by" },
      session: maybe(text),
      at: { $ref: "#/$defs/time" },
    }),
    verdict: record({
      accepted: { type: "boolean" },
      why: maybe(text),
      by: { $ref: "#/$defs/by" },
      at: { $ref: "#/$defs/time" },
    }),
    created_at: { $ref: "#/$defs/time" },
    updated_at: { $ref: "#/$defs/time" },
    done_at: { $ref: "#/$defs/time" },
  },
};

const buildTask = record(
  { ...anyTask.required, kind: { const: "build" }, acceptance: list(text) },
  anyTask.optional,
);
const reviewTask = record(
  {
    ...anyTask.required,
    kind: { const: "review" },
    reviews: { ...list(taskId), minItems: 1 },
    checklist: { ...list(text), minItems: 1 },
  },
  anyTask.optional,
);

const taskBoardBody = {
  phases: list(
    record(
      { number: ordinal, name: text, plans: list(record({ number: ordinal, name: text })) },
      { closed_at: { $ref: "#/$defs/time" } },
    ),
  ),
  aliases: {
    type: "object",
    propertyNames: { pattern: "^[TDBQ]-[0-9]{3,}(~[0-9a-z]{1,12})?$" },
    additionalProperties: { type: "string", pattern: "^[TDBQ]-[0-9]{3,}$" },
  },
  tasks: list({ $ref: "#/$defs/task" }),
};

export const TASK_BOARD_SCHEMA: JsonSchema = {
  $schema: DRAFT,
  $id: `${BASE}/task_board.schema.json`,
  title: "The task board of a goal",
  ...record({ ...sealOf(TASK_BOARD_VERSION), ...taskBoardBody }),
  $defs: {
    by,
    time,
    path,
    taskId,
    buildTask,
    reviewTask,
    task: { oneOf: [{ $ref: "#/$defs/buildTask" }, { $ref: "#/$defs/reviewTask" }] },
  },
};

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
    next_action: maybe(record({ text: maybe(text), task: maybe(taskId), by, at: time })),
    completed_tasks: list(taskId),
    failed_tasks: list(record({ task: taskId, error: { type: "string" }, retryable: { type: "boolean" } })),
    remaining_tasks: list(taskId),
    confirmed_facts: {
      type: "object",
      additionalProperties: record(
        { source: text },
        { value: true as unknown as JsonSchema, expires_at: time, by, at: time },
      ),
    },
    decisions_made: list(text),
    [risks]: list(blockerId),
    questions: list(record({ text }, { id: questionId, answer: text, by, at: time, answered_at: time })),
    key_implementations: list(record({ text, files: list(path), by, at: time })),
    files_examined: list(path),
    files: list(
      record({ path, by }, { hash, examined_at: time, modified_at: time, task: taskId, session: text }),
    ),
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
    numbers_given: record({ T: whole, D: whole, B: whole, Q: whole }),
  };
}

export const AGENT_STATE_SCHEMA: JsonSchema = {
  $schema: DRAFT,
  $id: `${BASE}/agent_state.schema.json`,
  title: "The state of a goal, for the next agent",
  ...record({ ...sealOf(AGENT_STATE_VERSION), ...agentStateBody("risks") }),
};

const AGENT_STATE_V1_SCHEMA: JsonSchema = {
  $schema: DRAFT,
  $id: `${BASE}/agent_state.v1.schema.json`,
  title: "The state of a goal, for the next agent, as version 1 wrote it",
  ...record({ ...sealOf(1), ...agentStateBody("blockers") }),
};

/** The frontmatter of the record files, for whoever reads them with a program of their own. */
export const RECORDS_SCHEMA: JsonSchema = {
  $schema: DRAFT,
  $id: `${BASE}/records.schema.json`,
  title: "The frontmatter of decisions, blockers and sessions",
  oneOf: [{ $ref: "#/$defs/decision" }, { $ref: "#/$defs/blocker" }, { $ref: "#/$defs/session" }],
  $defs: {
    decision: record({
      ...sealFields(),
      id: decisionId,
      date: { type: "string", pattern: "^\\d{4}-\\d{2}-\\d{2}$" },
      type: { enum: [...DECISION_TYPES] },
      reversible: { type: "boolean" },
      files: list(path),
      supersedes: maybe(decisionId),
      superseded_by: maybe(decisionId),
      alternatives: list(record({ option: text, why_not: text })),
      by,
      made_at: time,
    }),
    blocker: record({
      ...sealFields(),
      id: blockerId,
      status: { enum: [...BLOCKER_STATUSES] },
      affects: record({
        tasks: list(taskId),
        phases: list(ordinal),
        goal: { type: "boolean" },
        other: list(text),
      }),
      follow_ups: list(taskId),
      by,
      reported_at: time,
      identified_at: maybe(time),
      bypassed_at: maybe(time),
      resolved_at: maybe(time),
    }),
    session: record({
      ...sealFields(),
      id: { type: "string", minLength: 1, maxLength: 128 },
      agent: text,
      status: { enum: ["active", "ended", "crashed"] },
      started: time,
      ended: maybe(time),
      context_usage: maybe({ type: "number", minimum: 0, maximum: 1 }),
      restarts: whole,
      resumes: maybe(text),
      working_on: maybe(text),
      completed: list(text),
    }),
  },
};

function sealFields(): Readonly<Record<string, JsonSchema>> {
  const { run_id: goal, revision, digest } = sealOf(0);
  return { goal, revision, digest } as Readonly<Record<string, JsonSchema>>;
}

/** Both files of a goal together, for whoever hands them around as one. */
const STATE_PAIR_SCHEMA: JsonSchema = {
  $schema: DRAFT,
  $id: `${BASE}/state_pair.schema.json`,
  title: "The state and the board of a goal",
  ...record({
    agent_state: { $ref: "agent_state.schema.json" },
    task_board: { $ref: "task_board.schema.json" },
  }),
};

/** The files of `schemas/`. */
export const SCHEMAS: Readonly<Record<string, JsonSchema>> = {
  "agent_state.schema.json": AGENT_STATE_SCHEMA,
  "agent_state.v1.schema.json": AGENT_STATE_V1_SCHEMA,
  "task_board.schema.json": TASK_BOARD_SCHEMA,
  "state_pair.schema.json": STATE_PAIR_SCHEMA,
  "records.schema.json": RECORDS_SCHEMA,
};
