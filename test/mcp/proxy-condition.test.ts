// Conditions for verifying, retrying and identifying calls: an invalid proof must not count, and a key must
// be sent.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readProxyConfig } from "../../src/mcp/index.ts";
import { RawProxy, said } from "./raw-proxy.ts";

const CONFIG = `
tools:
  read_*: read
  edit: { settle: 500ms, verify: { tool: read_text, landed: { contains: "{{args.edits.0.newText}}" } } }
  mark: { settle: 500ms, verify: { tool: read_text, landed: { contains: "mark: {{args.mark}}" } } }
  cut: { settle: 500ms, verify: { tool: read_text, landed: { not: { contains: "{{args.oldText}}" } } } }
  pay: { idempotent: true, keyArgument: idempotency_key }
  redo: { verify: { tool: read_text, landed: { equals: "{{args.text}}", at: /none }, never: { equals: "{{args.text}}", at: /structuredContent/text } } }
`;

/** A call with an unknown outcome that had no effect. */
const SERVER = `
  if (m.method !== "tools/call") return;
  if (m.params.name === "pay") effect("pay " + JSON.stringify(m.params));
  if (m.params.name === "read_text")
    say({ id: m.id, result: { content: [{ type: "text", text: fs.readFileSync(here("text"), "utf8") }], structuredContent: { text: "" } } });
  else { effect(m.params.name); say({ id: m.id, error: { code: -32000, message: "lost" } }); }
`;

let proxy: RawProxy;
beforeAll(async () => {
  proxy = await RawProxy.start(SERVER, CONFIG);
  writeFileSync(join(proxy.project.folder, "text"), "mark: of nobody\nPASSWORD=1234\n");
});
afterAll(() => proxy.close());

test.each([
  ["an edit inserts an empty text", "edit", { edits: [{ oldText: "PASSWORD=1234", newText: "" }] }],
  ["an edit inserts a newline", "edit", { edits: [{ oldText: "PASSWORD=1234", newText: "\n" }] }],
  ["an edit without its text", "edit", { edits: [] }],
  ["an empty placeholder inside a text", "mark", { mark: "" }],
  ["the text that must be gone is empty", "cut", { oldText: "" }],
  ["the text that must be gone is missing", "cut", {}],
])("%s: it proves nothing, and a person decides", async (what, name, args) => {
  const answer = await proxy.call(what, name, args);
  expect(answer.result).toMatchObject({ isError: true });
  expect(said(answer)).toMatch(/is empty in this call.*waits for a person/);
});

test("an empty text does not prove that a call may be retried either", async () => {
  await proxy.call("never", "redo", { text: "" });
  expect(proxy.effects().filter((each) => each === "redo")).toHaveLength(1);
});

test.each(["contains: ''", "matches: ''"])(
  "a condition that every text meets is rejected: %s",
  async (text) => {
    const config = `tools: { b: read, a: { verify: { tool: b, landed: { ${text} } } } }`;
    await expect(readProxyConfig(proxy.project.write("bad.yaml", config))).rejects.toThrow(
      /landed.*every text contains it/,
    );
  },
);

const paid = (what: string): { arguments: Record<string, unknown>; task?: unknown }[] =>
  proxy.effects().flatMap((each) => (each.includes(what) ? [JSON.parse(each.slice("pay ".length))] : []));

test.each([
  ["beside other parameters", { order: "task" }, { task: { ttl: 60_000 } }],
  ["in place of one that the agent left empty", { order: "empty", idempotency_key: "" }, {}],
])("a tool that takes the call's key gets it %s, in every attempt", async (_, args, more) => {
  await proxy.call(args.order, "pay", args, more);
  const seen = paid(args.order);
  expect(seen.length).toBeGreaterThan(1);
  expect(new Set(seen.map((each) => each.arguments["idempotency_key"])).size).toBe(1);
  expect(seen[0]?.arguments).toEqual({ order: args.order, idempotency_key: expect.stringMatching(/./) });
  expect(seen[0]?.task).toEqual((more as { task?: unknown }).task);
});

test("a call whose arguments cannot carry the key is not retried", async () => {
  const answer = await proxy.call("listed", "pay", ["no place for a key"]);
  expect(said(answer)).toContain("waits for a person");
  expect(paid("no place")).toHaveLength(1);
});
