// The fast evaluator of our own schemas agrees with ajv.

import { Ajv2020 } from "ajv/dist/2020.js";
import fc from "fast-check";
import { expect, test } from "vitest";
import { SCHEMAS } from "../../src/projections/index.ts";
import { fitOf, type JsonSchema, problemIn, StateManager } from "../../src/state-files/index.ts";

/** The pair only points at the other two, and nothing of ours is checked against it. */
const CHECKED = Object.values(SCHEMAS).filter(({ $id }) => !String($id).includes("state_pair"));
const PARTS = CHECKED.flatMap((schema) => {
  const names = Object.keys((schema["$defs"] ?? {}) as object);
  return [undefined, ...names.map((name) => `#/$defs/${name}`)].map((part) => ({ schema, part }));
});

/** Edge cases: characters of two code units, NaN, names of Object.prototype. */
const ODD: readonly unknown[] = [
  ...[null, true, false, 0, 1, 2, -1, 100, 101, 0.5, 1.5, -0, 1e300, Number.NaN, Number.POSITIVE_INFINITY],
  ...[
    "",
    "x",
    "😀",
    "😀".repeat(1024),
    "a".repeat(1024),
    "a".repeat(1025),
    "\u2028",
    "\ud800",
    "../x",
    "a/b",
    "a\\b",
  ],
  ...[
    "T-001",
    "T-1",
    "T-001\n",
    "D-001",
    "B-001",
    "Q-001",
    "T-001~a",
    "build",
    "review",
    "open",
    "2026-01-01",
  ],
  ...["2026-01-01T00:00:00.000Z", `sha256:${"0".repeat(64)}`, "0".repeat(64), "█░ 50%", "constructor"],
  ...[[], {}, [null], ["T-001"], [[]], { constructor: "x" }, { "T-001": "T-002" }],
];
const odd = fc.constantFrom(...ODD);

/** Values that mostly fit, with an odd one here and there. */
function near(schema: JsonSchema | boolean, root: JsonSchema): fc.Arbitrary<unknown> {
  if (typeof schema === "boolean") return odd;
  const among = (schemas: unknown) => fc.oneof(...(schemas as JsonSchema[]).map((each) => near(each, root)));
  const plain = (): fc.Arbitrary<unknown> => {
    const { type, properties, items, pattern, additionalProperties } = schema;
    if (schema["$ref"]) return near(definition(root, String(schema["$ref"])), root);
    if (schema["anyOf"] ?? schema["oneOf"]) return among(schema["anyOf"] ?? schema["oneOf"]);
    if (schema["enum"]) return fc.constantFrom(...(schema["enum"] as unknown[]));
    if ("const" in schema) return fc.constant(schema["const"]);
    if (type === "array") return fc.array(near(items as JsonSchema, root), { maxLength: 2 });
    if (type === "object" && properties) {
      const members = Object.entries(properties as Record<string, JsonSchema>);
      const made = Object.fromEntries(members.map(([name, each]) => [name, near(each, root)]));
      return fc.record(made, { requiredKeys: schema["required"] as string[] });
    }
    if (type === "object") {
      const names = fc.constantFrom("T-001", "B-001~a", "constructor", "x");
      return fc.dictionary(names, near(additionalProperties as JsonSchema, root), { maxKeys: 2 });
    }
    const matching = ODD.filter(
      (value) => typeof value === "string" && new RegExp(String(pattern), "u").test(value),
    );
    if (matching.length > 0) return fc.constantFrom(...matching);
    return fc.constantFrom({ string: "x", integer: 1, number: 0.5, boolean: true, null: null }[String(type)]);
  };
  return fc.oneof({ weight: 60, arbitrary: plain() }, { weight: 1, arbitrary: odd });
}

const definition = (root: JsonSchema, pointer: string): JsonSchema =>
  (root["$defs"] as Record<string, JsonSchema>)[pointer.replace("#/$defs/", "")] as JsonSchema;

/** One member too many, or one too few. */
function bent(value: unknown, cut: number | null): unknown {
  if (cut === null || typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const entries = Object.entries(value);
  const at = cut % (entries.length + 1);
  return Object.fromEntries(
    at === entries.length ? [...entries, ["more", 1]] : entries.filter((_, n) => n !== at),
  );
}

/** Values for each part. */
const RUNS = process.env["HOLDFAST_FULL"] ? 200 : 80;

test("fitOf and ajv accept the same values", () => {
  const ajv = new Ajv2020({ strict: true, strictRequired: false, allowUnionTypes: true });
  for (const schema of CHECKED) ajv.addSchema(schema);
  const seen = { fits: 0, not: 0 };
  for (const { schema, part } of PARTS) {
    const compiled = ajv.getSchema(String(schema["$id"]) + (part ?? ""));
    const fits = fitOf(schema, part);
    for (const value of ODD) expect(fits(value), JSON.stringify(value)).toBe(compiled?.(value));
    fc.assert(
      fc.property(
        near(part ? definition(schema, part) : schema, schema),
        fc.option(fc.nat({ max: 40 }), { freq: 3 }),
        (made, cut) => {
          const value = bent(made, cut);
          const verdict = compiled?.(value);
          seen[verdict ? "fits" : "not"] += 1;
          expect(fits(value)).toBe(verdict);
        },
      ),
      { numRuns: RUNS },
    );
  }
  // Neither answer is rare, or the rest would prove little.
  expect(Math.min(seen.fits, seen.not)).toBeGreaterThan((PARTS.length * RUNS) / 10);
});

test("an error names the path and the rule", async () => {
  const board = SCHEMAS["task_board.schema.json"] as JsonSchema;
  const time = await problemIn("yesterday", board, "#/$defs/time");
  expect(time).toMatchObject({ path: "$", rule: expect.stringContaining("must match pattern") });
  const by = await problemIn({ name: "me", role: "cook" }, board, "#/$defs/by");
  expect(by?.path).toBe("$.role");
  expect(by?.rule).toContain('is "cook", must be one of');
  expect(await problemIn({ name: "me", role: "human" }, board, "#/$defs/by")).toBeNull();
});

test("an unknown keyword throws", () => {
  expect(() => fitOf({ type: "array", uniqueItems: true })).toThrow("uniqueItems");
  expect(() => fitOf({ not: { format: "date" } })).toThrow("format");
  expect(() => fitOf({ $ref: "#/$defs/missing" })).toThrow("missing");
  expect(() => fitOf({ enum: [{}] })).toThrow("objects");
});

const BOARD = SCHEMAS["task_board.schema.json"] as JsonSchema;
const OWN: JsonSchema = {
  type: "object",
  properties: {
    tasks: {
      type: "array",
      items: {
        oneOf: [
          { type: "object", required: ["kind", "files"], properties: { kind: { const: "build" } } },
          { type: "object", required: ["kind", "reviewer"], properties: { kind: { const: "review" } } },
        ],
      },
    },
  },
};

test.each<[string, object, string, string]>([
  ["a review without its reviewer", { kind: "review" }, "$.tasks[0]", 'lacks "reviewer"'],
  ["a build without its files", { kind: "build" }, "$.tasks[0]", 'lacks "files"'],
  ["an unknown kind", { kind: "deploy" }, "$.tasks[0].kind", 'is "deploy", must be one of build, review'],
  ["no kind", {}, "$.tasks[0]", 'lacks "kind"'],
])("the error of a oneOf names the branch whose kind matched: %s", async (_, task, path, rule) => {
  const manager = StateManager.onFile("board.json", {
    schema: OWN,
    initial: { schema_version: 1, tasks: [] as object[] },
  });
  await expect(manager.update((state) => ({ ...state, tasks: [task] }))).rejects.toMatchObject({
    data: { path, rule },
  });
});

test("a review task of the board lacks its own fields, not those of a build task", async () => {
  const review = (BOARD["$defs"] as Record<string, JsonSchema>)["reviewTask"] as JsonSchema;
  const task = { kind: "review", acceptance: [], id: "T-001" };
  expect(await problemIn(task, BOARD, "#/$defs/task")).toEqual({
    path: "$",
    rule: expect.stringMatching(/^(?:lacks "(?!acceptance)|may not have "acceptance")/),
  });
  const full = Object.fromEntries((review["required"] as string[]).map((name) => [name, []]));
  const { checklist: _left, ...rest } = { ...full, kind: "review", checklist: [] };
  const problem = await problemIn(rest, BOARD, "#/$defs/task");
  expect(problem).toEqual({ path: "$", rule: 'lacks "checklist"' });
});
