// One place for field names: an option of the command line is called like the field of the operation, which is
// also the field of the MCP tool. Commands that only people have may differ.

import { expect, test } from "vitest";
import { z } from "zod";
import { COMMANDS } from "../../src/cli/commands.ts";
import { loadOfferedTools } from "../../src/mcp/index.ts";
import { OPERATIONS } from "../../src/operations/index.ts";

/** `--file a --file b` is `files`, and `--ttl 3d` is `ttlMs`. */
function isFieldOf(option: string, field: string): boolean {
  const many = [`${option}s`, option.replace(/y$/, "ies")];
  return field === option || field === `${option}Ms` || many.includes(field);
}

test("an option is called like its field", async () => {
  const offered = new Set((await loadOfferedTools()).map(({ operation }) => operation.name));
  const forAgents = COMMANDS.filter(({ operation }) => offered.has(operation));
  expect(forAgents.length).toBeGreaterThan(20);
  const renamed = forAgents.flatMap(({ words, options = [] }) =>
    options.flatMap(([flags, , , field]) => {
      const [, name = ""] = /^--([\w-]+)/.exec(flags) ?? [];
      const option = name.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
      return field === undefined || isFieldOf(option, field) ? [] : [`${words} --${name}: ${field}`];
    }),
  );
  expect(renamed).toEqual([]);
});

/** Names of all fields in a schema, however deep. */
function fieldsIn(schema: unknown): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const { properties } = schema as { properties?: object };
  return [...Object.keys(properties ?? {}), ...Object.values(schema).flatMap(fieldsIn)];
}

test("the id of a tool call is called callId by every operation, and approvals are not retried", () => {
  const fields = [...OPERATIONS.values()].flatMap(({ name, input, result }) =>
    [input, result].flatMap((schema, side) =>
      fieldsIn(z.toJSONSchema(schema, { io: side === 0 ? "input" : "output", unrepresentable: "any" })).map(
        (field) => ({ name, field }),
      ),
    ),
  );
  const ofCalls = fields.filter(({ field }) => /^(tool)?_?calls?_?ids?$/i.test(field));
  expect(ofCalls.length).toBeGreaterThan(5);
  expect(ofCalls.filter(({ field }) => field !== "callId" && field !== "callIds")).toEqual([]);
  const names = [...OPERATIONS.values()].map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(["approve", "deny"]));
});
