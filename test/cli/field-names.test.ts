// One place for field names: an option of the command line is called like the field of the operation, which is
// also the field of the MCP tool. Commands that only people have may differ.

import { expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { loadOfferedTools } from "../../src/mcp/index.ts";

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
