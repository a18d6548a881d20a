/**
 * Checks JSON against a schema: a bad write is refused, with the path and the rule that it breaks.
 *
 * Two evaluators, because ajv is too slow for commands that live for 200 ms:
 *
 * | | before the first answer | code |
 * |---|---|---|
 * | ajv, compiled at run time | 220 ms | a dependency, loaded when needed |
 * | ajv, compiled to a module at build time | 6.5 ms | 354 KB in the package |
 * | `fitOf` below | 2.1 ms | 110 lines |
 *
 * `fitOf` only answers yes or no, and throws on a keyword that our own schemas do not use. For a no, ajv
 * words the error. `test/state-files/schema-check.test.ts` compares the two. Schemas of users always go to
 * ajv.
 */

import type { Ajv2020, ErrorObject, ValidateFunction } from "ajv/dist/2020.js";
import { HoldfastError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";

/** A JSON Schema (2020-12) as a value. */
export type JsonSchema = Readonly<Record<string, unknown>>;

export interface SchemaProblem {
  /** `$.tasks[3].status` */
  readonly path: string;
  readonly rule: string;
}

export type SchemaCheck = (value: unknown) => SchemaProblem | null;

/** Checks a value against one of our own schemas. `part`: a pointer into it, such as `#/$defs/task`. */
export async function problemIn(
  value: unknown,
  schema: JsonSchema,
  part?: string,
): Promise<SchemaProblem | null> {
  return fitOf(schema, part)(value) ? null : (await checkOf(schema, part))(value);
}

let loaded: Promise<Ajv2020> | null = null;
const compiled = new Map<JsonSchema, SchemaCheck>();

function load(): Promise<Ajv2020> {
  loaded ??= import("ajv/dist/2020.js").then(
    ({ Ajv2020: Validator }) =>
      new Validator({ strict: true, strictRequired: false, allowUnionTypes: true, verbose: true }),
  );
  return loaded;
}

export async function checkOf(schema: JsonSchema, part = ""): Promise<SchemaCheck> {
  const ajv = await load();
  const id = String(schema["$id"] ?? "");
  if (part !== "" && id !== "") {
    if (!ajv.getSchema(id)) ajv.addSchema(schema);
    return wordedCheck(ajv.getSchema(id + part) as ValidateFunction, { ajv, schema });
  }
  const known = compiled.get(schema);
  if (known) return known;
  const validate = (id !== "" && (ajv.getSchema(id) as ValidateFunction)) || ajv.compile(schema);
  const check = wordedCheck(validate, { ajv, schema });
  compiled.set(schema, check);
  return check;
}

function wordedCheck(validate: ValidateFunction, root: SchemaRoot): SchemaCheck {
  return (value) => {
    if (validate(value)) return null;
    return problemOf(validate.errors ?? [], value, root);
  };
}

/** Picks the deepest error. A `oneOf` counts only by the branch whose constants the value has. */
function problemOf(errors: readonly ErrorObject[], value: unknown, root: SchemaRoot): SchemaProblem {
  for (const error of errors) {
    const problem = error.keyword === "oneOf" ? problemOfBranch(error, root) : null;
    if (problem) return problem;
  }
  const leaves = errors.filter(({ keyword }) => keyword !== "oneOf" && keyword !== "anyOf");
  const [best = errors[0]] = leaves.sort((a, b) => depth(b) - depth(a));
  if (!best) return { path: "$", rule: "does not fit the schema" };
  return { path: jsonPath(best.instancePath), rule: ruleOf(best, value) };
}

/**
 * A review task without its checklist lacks that, whatever a build task would need. Null: the branches have
 * no constant in common, such as `kind`, by which to tell which one is meant.
 */
function problemOfBranch(
  { schema, data, instancePath }: ErrorObject,
  root: SchemaRoot,
): SchemaProblem | null {
  const branches = (schema as JsonSchema[]).map((each) => resolved(each, root.schema));
  const [tag] = Object.keys(constantsOf(branches[0])).filter((name) =>
    branches.every((each) => name in constantsOf(each)),
  );
  if (tag === undefined || !isObject(data)) return null;
  const path = jsonPath(instancePath);
  const said = data[tag];
  if (said === undefined) return { path, rule: `lacks ${quoteValue(tag)}` };
  const allowed = branches.map((each) => constantsOf(each)[tag]);
  const branch = branches[allowed.indexOf(said)];
  if (!branch)
    return { path: `${path}.${tag}`, rule: `is ${quoteValue(said)}, must be one of ${allowed.join(", ")}` };
  const problem = wordedCheck(branchCheck(branch, root), root)(data);
  return problem && { path: path + problem.path.slice(1), rule: problem.rule };
}

interface SchemaRoot {
  readonly ajv: Ajv2020;
  readonly schema: JsonSchema;
}

const branchChecks = new WeakMap<JsonSchema, ValidateFunction>();

function branchCheck(branch: JsonSchema, { ajv, schema }: SchemaRoot): ValidateFunction {
  const check = branchChecks.get(branch) ?? ajv.compile({ $defs: schema["$defs"] ?? {}, ...branch });
  branchChecks.set(branch, check);
  return check;
}

function resolved(schema: JsonSchema, root: JsonSchema): JsonSchema {
  const { $ref: pointer } = schema;
  return typeof pointer === "string" && pointer.startsWith("#/$defs/") ? definition(root, pointer) : schema;
}

function constantsOf(schema: JsonSchema | undefined): Record<string, unknown> {
  const properties = Object.entries((schema?.["properties"] ?? {}) as Record<string, JsonSchema>);
  return Object.fromEntries(
    properties.flatMap(([name, each]) => ("const" in each ? [[name, each["const"]]] : [])),
  );
}

const depth = ({ instancePath }: ErrorObject): number => instancePath.split("/").length;

function ruleOf({ keyword, params, message, instancePath }: ErrorObject, root: unknown): string {
  const value = valueAt(root, instancePath);
  switch (keyword) {
    case "required":
      return `lacks ${quoteValue(params["missingProperty"])}`;
    case "additionalProperties":
      return `may not have ${quoteValue(params["additionalProperty"])}`;
    case "enum":
      return `is ${quoteValue(value)}, must be one of ${(params["allowedValues"] as unknown[]).join(", ")}`;
    case "const":
      return `is ${quoteValue(value)}, must be ${quoteValue(params["allowedValue"])}`;
    default:
      return `is ${quoteValue(value)}, ${message ?? keyword}`;
  }
}

function jsonPath(pointer: string): string {
  return pointer
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce((path, part) => path + (/^\d+$/.test(part) ? `[${part}]` : `.${part}`), "$");
}

function valueAt(root: unknown, pointer: string): unknown {
  let value = root;
  for (const part of pointer.split("/").slice(1)) {
    const key = part.replaceAll("~1", "/").replaceAll("~0", "~");
    value = (value as Record<string, unknown> | null)?.[key];
  }
  return value;
}

export function schemaRefused(what: string, { path, rule }: SchemaProblem): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${what}: ${path} ${rule}`, {
    hint: "Nothing was written. Correct the value at that path and try again; the schema is in schemas/.",
    data: { reason: "SCHEMA", what, path, rule },
  });
}

type Fit = (value: unknown) => boolean;

const made = new Map<JsonSchema, Map<string, Fit>>();

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

/** JSON Schema: a rule about strings accepts any number; only `type` asks for a type. */
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

/** Ignoring an unknown keyword would let a bad write through. */
function known<Found>(found: Found | undefined, what: string): Found {
  if (found === undefined) throw new Error(`fitOf does not know ${what}`);
  return found;
}

function scalar(value: unknown): unknown {
  if (typeof value === "object" && value !== null) throw new Error("fitOf compares no objects");
  return value;
}
