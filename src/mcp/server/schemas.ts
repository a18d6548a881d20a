/** Schemas as a client sees them: small, because every tool's schema is read by a model. */

import type { StandardSchemaWithJSON } from "@modelcontextprotocol/server";
import * as z from "zod";

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
