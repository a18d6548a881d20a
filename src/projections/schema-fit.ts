/**
 * Whether a value fits one of our own schemas, by as much of JSON Schema as they use.
 *
 * To compile these schemas takes longer than everything else that a command does. This says yes or no and means what the
 * compiler means, which a test holds it to; the wording of an error stays with the compiler (`schema-check.ts`).
 */

import type { JsonSchema } from "./json-schemas.ts";

type Fit = (value: unknown) => boolean;

const made = new Map<JsonSchema, Map<string, Fit>>();

/** `part`: a pointer to a definition of the schema, such as `#/$defs/task`; all of it by default. */
export function fitOf(schema: JsonSchema, part = "#"): Fit {
  const parts = made.get(schema) ?? new Map<string, Fit>();
  made.set(schema, parts);
  const fits = parts.get(part) ?? rulesOf(part === "#" ? schema : definition(schema, part), schema);
  parts.set(part, fits);
  return fits;
}

type Rule = (operand: never, root: JsonSchema, schema: JsonSchema) => Fit;

const always: Fit = () => true;
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const TYPES: Readonly<Record<string, Fit>> = {
  string: (value) => typeof value === "string",
  boolean: (value) => typeof value === "boolean",
  number: Number.isFinite,
  integer: Number.isInteger,
  null: (value) => value === null,
  array: Array.isArray,
  object: isObject,
};

/** A rule speaks of one kind of value and lets the others pass; `type` is the one that asks for a kind. */
const RULES: Readonly<Record<string, Rule>> = {
  $schema: () => always,
  $id: () => always,
  $defs: () => always,
  title: () => always,
  $ref: (pointer: string, root) => fitOf(root, pointer),
  type: (name: string) => known(TYPES[name], `type ${name}`),
  const: (only: unknown) => {
    const allowed = scalar(only);
    return (value) => value === allowed;
  },
  enum: (values: readonly unknown[]) => {
    const allowed = new Set(values.map(scalar));
    return (value) => allowed.has(value);
  },
  minimum: (least: number) => (value) => typeof value !== "number" || value >= least,
  maximum: (most: number) => (value) => typeof value !== "number" || value <= most,
  minLength: (least: number) => (value) => typeof value !== "string" || [...value].length >= least,
  maxLength: (most: number) => (value) => typeof value !== "string" || [...value].length <= most,
  pattern: (source: string) => {
    const pattern = new RegExp(source, "u");
    return (value) => typeof value !== "string" || pattern.test(value);
  },
  minItems: (least: number) => (value) => !Array.isArray(value) || value.length >= least,
  items: (schema: JsonSchema, root) => {
    const fits = rulesOf(schema, root);
    return (value) => !Array.isArray(value) || value.every(fits);
  },
  required: (names: readonly string[]) => (value) =>
    !isObject(value) || names.every((name) => value[name] !== undefined),
  properties: (schemas: Readonly<Record<string, JsonSchema>>, root) => {
    const rules = Object.entries(schemas).map(([name, schema]) => [name, rulesOf(schema, root)] as const);
    return (value) =>
      !isObject(value) || rules.every(([name, fits]) => value[name] === undefined || fits(value[name]));
  },
  additionalProperties: (schema: JsonSchema | boolean, root, { properties = {} }) => {
    const [fits, named] = [rulesOf(schema, root), new Set(Object.keys(properties as object))];
    return (value) =>
      !isObject(value) || Object.keys(value).every((name) => named.has(name) || fits(value[name]));
  },
  propertyNames: (schema: JsonSchema, root) => {
    const fits = rulesOf(schema, root);
    return (value) => !isObject(value) || Object.keys(value).every(fits);
  },
  not: (schema: JsonSchema, root) => {
    const fits = rulesOf(schema, root);
    return (value) => !fits(value);
  },
  anyOf: (schemas: readonly JsonSchema[], root) => {
    const rules = schemas.map((schema) => rulesOf(schema, root));
    return (value) => rules.some((fits) => fits(value));
  },
  oneOf: (schemas: readonly JsonSchema[], root) => {
    const rules = schemas.map((schema) => rulesOf(schema, root));
    return (value) => rules.filter((fits) => fits(value)).length === 1;
  },
};

function rulesOf(schema: JsonSchema | boolean, root: JsonSchema): Fit {
  if (typeof schema === "boolean") return () => schema;
  const rules = Object.entries(schema)
    .map(([name, operand]) => known(RULES[name], name)(operand as never, root, schema))
    .filter((rule) => rule !== always);
  return (value) => rules.every((fits) => fits(value));
}

function definition(schema: JsonSchema, pointer: string): JsonSchema {
  const [start, name = ""] = pointer.split("#/$defs/");
  const found =
    start === "" ? (schema["$defs"] as Record<string, JsonSchema> | undefined)?.[name] : undefined;
  return known(found, pointer);
}

/** To pass over what is not known here would let a bad write through. */
function known<Found>(found: Found | undefined, what: string): Found {
  if (found === undefined) throw new Error(`schema-fit.ts does not know ${what}`);
  return found;
}

function scalar(value: unknown): unknown {
  if (typeof value === "object" && value !== null) throw new Error("schema-fit.ts compares no objects");
  return value;
}
