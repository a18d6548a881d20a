/**
 * Generates the code of a project's own repo memory: schemas of a state and a board, a typed manager for
 * each, and a file for migrations. The texts then belong to the project.
 */

import { HoldfastError } from "../model/errors.ts";
import type { JsonSchema } from "./schema-check.ts";

type FieldType = "string" | "integer" | "number" | "boolean" | "string[]";
export type FieldSpec = FieldType | { readonly enum: readonly [string, ...string[]] };
export type FieldSpecs = Readonly<Record<string, FieldSpec>>;

/** The fields of a project's own state and task board. */
export interface StateTemplate {
  /** `billing` gives `billing_state.json` and `billing_board.json`. */
  readonly name: string;
  /** More members of the state: `{ invoices: "string[]" }`. */
  readonly state?: FieldSpecs;
  readonly build?: FieldSpecs;
  readonly review?: FieldSpecs;
}

const NAME = /^[a-z][a-z0-9_]{0,40}$/;
const STATE: FieldSpecs = {
  active_task_id: "string",
  touched_files: "string[]",
  assumptions: "string[]",
  risks: "string[]",
  next_action: "string",
};
const TASK: FieldSpecs = {
  title: "string",
  status: { enum: ["open", "in_progress", "blocked", "submitted", "done", "failed", "dropped"] },
};
const BUILD: FieldSpecs = { acceptance: "string[]" };
const REVIEW: FieldSpecs = { reviews: "string[]", checklist: "string[]" };

/**
 * Generates schemas, typed managers and a migration scaffold: file texts by their paths. It writes nothing.
 *
 * @example
 * const files = generateState({ name: "billing", state: { invoices: "string[]" } });
 */
export function generateState(template: StateTemplate): Readonly<Record<string, string>> {
  const { name } = template;
  const fields = { ...template.state, ...template.build, ...template.review };
  for (const word of [name, ...Object.keys(fields)]) if (!NAME.test(word)) throw badName(word);
  const state = { ...STATE, ...template.state };
  const build = { ...TASK, ...BUILD, ...template.build };
  const review = { ...TASK, ...REVIEW, ...template.review };
  return {
    [`schemas/${name}_state.schema.json`]: json(stateSchema(name, state)),
    [`schemas/${name}_board.schema.json`]: json(boardSchema(name, build, review)),
    [`${name}-migrations.ts`]: migrationsText(name),
    [`${name}-state.ts`]: managerText(name, state, build, review),
  };
}

function schemaOf(spec: FieldSpec): JsonSchema {
  if (typeof spec !== "string") return { enum: spec.enum };
  if (spec === "string[]") return { type: "array", items: { type: "string" } };
  return { type: spec };
}

function record(fields: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return { type: "object", required: Object.keys(fields), properties: fields, additionalProperties: false };
}

function schemasOf(fields: FieldSpecs): Record<string, JsonSchema> {
  return Object.fromEntries(Object.entries(fields).map(([name, spec]) => [name, schemaOf(spec)]));
}

function stateSchema(name: string, fields: FieldSpecs): JsonSchema {
  const touch = { last_human_touch: { anyOf: [{ type: "string" }, { type: "null" }] } };
  const body = record({ schema_version: { const: 1 }, ...touch, ...schemasOf(fields) });
  return { ...head(name, "state"), ...body };
}

function boardSchema(name: string, build: FieldSpecs, review: FieldSpecs): JsonSchema {
  const id = { type: "string", pattern: "^T-\\d{3,}$" };
  const task = (kind: string, fields: FieldSpecs): JsonSchema =>
    record({ id, kind: { const: kind }, ...schemasOf(fields) });
  const tasks = { type: "array", items: { oneOf: [task("build", build), task("review", review)] } };
  return { ...head(name, "board"), ...record({ schema_version: { const: 1 }, tasks }) };
}

function head(name: string, what: string): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    $id: `${name}_${what}.schema.json`,
    title: `The ${what} of ${name}`,
  };
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function pascal(name: string): string {
  return name.replace(/(?:^|_)([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());
}

function typeOf(spec: FieldSpec): string {
  if (typeof spec !== "string") return spec.enum.map((word) => JSON.stringify(word)).join(" | ");
  return spec === "integer" ? "number" : spec;
}

function members(fields: FieldSpecs): string {
  return Object.entries(fields)
    .map(([name, spec]) => `  ${name}: ${typeOf(spec)};\n`)
    .join("");
}

function emptyOf(spec: FieldSpec): string {
  if (typeof spec !== "string") return JSON.stringify(spec.enum[0]);
  return { string: '""', integer: "0", number: "0", boolean: "false", "string[]": "[]" }[spec];
}

function migrationsText(name: string): string {
  return `/**
 * How older files of ${name} become current ones. To change the shape of a file:
 *
 * 1. change its schema and raise its \`schema_version\`,
 * 2. raise \`current\` here,
 * 3. add the step that leads there: \`steps[1]\` turns version 1 into version 2,
 * 4. test that the step does nothing to a file that went through it.
 *
 * A step gets a copy without \`schema_version\` and returns it. As an example, version 2 renames a member:
 *
 *     steps: { 1: ({ blockers, ...rest }) => ({ ...rest, risks: blockers }) }
 */

type Step = (old: Record<string, unknown>) => Record<string, unknown>;
interface Migrations {
  current: number;
  steps: Record<number, Step>;
}

export const stateMigrations: Migrations = { current: 1, steps: {} };
export const boardMigrations: Migrations = { current: 1, steps: {} };
`;
}

function managerText(name: string, state: FieldSpecs, build: FieldSpecs, review: FieldSpecs): string {
  const type = pascal(name);
  return `import { readFileSync } from "node:fs";
import { type Holdfast, StateManager } from "holdfast";
import { boardMigrations, stateMigrations } from "./${name}-migrations.ts";

${typesText(type, state, build, review)}
const schema = (what: string): Record<string, unknown> =>
  JSON.parse(readFileSync(new URL(\`./schemas/${name}_\${what}.schema.json\`, import.meta.url), "utf8"));

${specsText(type, state)}
${memoryText(name, type)}`;
}

function typesText(type: string, state: FieldSpecs, build: FieldSpecs, review: FieldSpecs): string {
  return `export interface ${type}State {
  schema_version: 1;
  /** When a person last edited the file; the manager keeps it. */
  last_human_touch: string | null;
${members(state)}}

export interface ${type}BuildTask {
  id: string;
  kind: "build";
${members(build)}}

export interface ${type}ReviewTask {
  id: string;
  kind: "review";
${members(review)}}

export interface ${type}Board {
  schema_version: 1;
  tasks: (${type}BuildTask | ${type}ReviewTask)[];
}
`;
}

function specsText(type: string, state: FieldSpecs): string {
  const initial = Object.entries(state).map(([field, spec]) => `  ${field}: ${emptyOf(spec)},\n`);
  return `const stateSpec = {
  schema: schema("state"),
  migrations: stateMigrations,
  initial: {
    schema_version: 1,
    last_human_touch: null,
  ${initial.join("  ").trimEnd()}
  } satisfies ${type}State as ${type}State,
};

const boardSpec = {
  schema: schema("board"),
  migrations: boardMigrations,
  initial: { schema_version: 1, tasks: [] } satisfies ${type}Board as ${type}Board,
};
`;
}

function memoryText(name: string, type: string): string {
  const made = name.replace(/_([a-z0-9])/g, (_match, letter: string) => letter.toUpperCase());
  return `/** Without a store, in files beside each other; with one, under the same names in it. */
export function ${made}Memory(place: { folder: string } | { store: Holdfast }): {
  state: StateManager<${type}State>;
  board: StateManager<${type}Board>;
} {
  if ("folder" in place) {
    return {
      state: StateManager.onFile(\`\${place.folder}/${name}_state.json\`, stateSpec),
      board: StateManager.onFile(\`\${place.folder}/${name}_board.json\`, boardSpec),
    };
  }
  return {
    state: StateManager.onStore(place.store, "${name}_state", stateSpec),
    board: StateManager.onStore(place.store, "${name}_board", boardSpec),
  };
}
`;
}

function badName(word: string): HoldfastError {
  const message = `${JSON.stringify(word.slice(0, 60))} cannot name a file or a member`;
  const hint =
    "Use lower-case letters, digits and underscores, beginning with a letter; 41 characters at most.";
  return new HoldfastError("NAME_INVALID", message, { hint, data: { reason: "TEMPLATE_NAME", word } });
}
