/**
 * JSON against a schema: a bad write is a refused write, and the message names the path and the rule.
 *
 * The validator is loaded when it is first needed: whoever never touches a file does not pay for it.
 */

import type { Ajv2020, ErrorObject, ValidateFunction } from "ajv/dist/2020.js";
import { HoldfastError } from "../model/errors.ts";
import { quoteValue } from "../model/names.ts";
import type { JsonSchema } from "./json-schemas.ts";
import { fitOf } from "./schema-fit.ts";

export interface SchemaProblem {
  /** `$.tasks[3].status` */
  readonly path: string;
  readonly rule: string;
}

export type SchemaCheck = (value: unknown) => SchemaProblem | null;

let loaded: Promise<Ajv2020> | null = null;
const compiled = new Map<JsonSchema, SchemaCheck>();

function load(): Promise<Ajv2020> {
  loaded ??= import("ajv/dist/2020.js").then(
    ({ Ajv2020: Validator }) => new Validator({ strict: true, strictRequired: false, allowUnionTypes: true }),
  );
  return loaded;
}

/** What is wrong with a value by a schema of ours. The compiler is asked only where something is: it words the error. */
export async function problemIn(
  value: unknown,
  schema: JsonSchema,
  part?: string,
): Promise<SchemaProblem | null> {
  return fitOf(schema, part)(value) ? null : (await checkOf(schema, part))(value);
}

/** `part`: a pointer to a part of the schema, such as `#/$defs/task`. */
export async function checkOf(schema: JsonSchema, part = ""): Promise<SchemaCheck> {
  const ajv = await load();
  const id = String(schema["$id"] ?? "");
  if (part !== "" && id !== "") {
    if (!ajv.getSchema(id)) ajv.addSchema(schema);
    return named(ajv.getSchema(id + part) as ValidateFunction);
  }
  const known = compiled.get(schema);
  if (known) return known;
  const check = named((id !== "" && (ajv.getSchema(id) as ValidateFunction)) || ajv.compile(schema));
  compiled.set(schema, check);
  return check;
}

function named(validate: ValidateFunction): SchemaCheck {
  return (value) => {
    if (validate(value)) return null;
    return problemOf(validate.errors ?? [], value);
  };
}

/** The deepest error says most. That a task is not of the other kind is no complaint as long as there is another. */
function problemOf(errors: readonly ErrorObject[], value: unknown): SchemaProblem {
  const isOtherKind = ({ keyword, instancePath }: ErrorObject): boolean =>
    keyword === "const" && instancePath.endsWith("/kind");
  const plain = errors.filter(({ keyword }) => keyword !== "oneOf" && keyword !== "anyOf");
  const meant = plain.filter((error) => !isOtherKind(error));
  const [best = errors[0]] = (meant.length > 0 ? meant : plain).sort((a, b) => depth(b) - depth(a));
  if (!best) return { path: "$", rule: "does not fit the schema" };
  return { path: jsonPath(best.instancePath), rule: ruleOf(best, value) };
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
