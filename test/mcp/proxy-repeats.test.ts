// Notes on repeated calls reach the model, rounds of one request are one call, and hints count only if trusted.

import { afterEach, expect, test } from "vitest";
import { RawProxy, said, soon } from "./raw-proxy.ts";

let proxy: RawProxy | undefined;
afterEach(async () => {
  await proxy?.close();
  proxy = undefined;
});

const STRUCTURED = `
  if (m.method !== "tools/call") return;
  effect(JSON.stringify(m.params.arguments));
  say({ id: m.id, result: { content: [{ type: "text", text: "done" }], structuredContent: { paid: 7 } } });
`;

/** The proxy pings once it counts an answer as sent. */
const delivered = (made: RawProxy): Promise<string> => made.line(({ method }) => method === "ping");

test("a repeat of a delivered call runs, and its answer says when the same call ran", async () => {
  proxy = await RawProxy.start(STRUCTURED);
  const first = await proxy.call(1, "pay", { order: 17 });
  expect(first.result?.["structuredContent"]).toEqual({ paid: 7 });
  await delivered(proxy);
  const again = await proxy.call(2, "pay", { order: 17 });
  const [call] = await proxy.calls("pay");
  const note = new RegExp(`The same call ran \\d+ s ago as ${call?.callId}`);
  expect(said(again)).toMatch(note);
  // Some clients show the model nothing else.
  expect(again.result?.["structuredContent"]).toEqual({
    paid: 7,
    "holdfast/note": expect.stringMatching(note),
  });
  expect(said(await proxy.call(3, "pay", { order: 18 }))).toBe("done");
  expect(proxy.effects()).toHaveLength(3);
});

test("outside the window a repeat gets no note", async () => {
  proxy = await RawProxy.start(STRUCTURED, "repeatWindow: 0ms\ntools: {}");
  await proxy.call(1, "pay", { order: 17 });
  await delivered(proxy);
  expect(said(await proxy.call(2, "pay", { order: 17 }))).toBe("done");
});

test("dedupe: session replays a delivered call, and says so in the structured answer", async () => {
  proxy = await RawProxy.start(STRUCTURED, "tools: { pay: { dedupe: session } }");
  await proxy.call(1, "pay", { order: 17 });
  const again = await proxy.call(2, "pay", { order: 17 });
  expect(proxy.effects()).toHaveLength(1);
  const note = expect.stringContaining("[holdfast] Not run again.");
  expect(again.result?.["structuredContent"]).toEqual({ paid: 7, "holdfast/note": note });
});

test("a schema that allows no further fields is listed with room for the note", async () => {
  const closed = { type: "object", properties: { paid: { type: "number" } }, additionalProperties: false };
  const tools = [{ name: "pay", inputSchema: { type: "object" }, outputSchema: closed }];
  const list = `if (m.method === "resources/list") say({ id: m.id, result: {} });`;
  const first = `const tell = say; say = (each) =>
    tell(each.result?.tools ? { ...each, result: { tools: ${JSON.stringify(tools)} } } : each);`;
  proxy = await RawProxy.start(list, "tools: {}", first);
  const { result } = await proxy.ask(1, "tools/list", {});
  const [tool] = Object(result)["tools"] as [{ outputSchema: typeof closed }];
  expect(Object.keys(tool.outputSchema.properties)).toEqual(["paid", "holdfast/note"]);
  expect(tool.outputSchema.additionalProperties).toBe(false);
});

const ROUNDS = `
  if (m.method !== "tools/call") return;
  if (!m.params.inputResponses)
    return say({ id: m.id, result: { resultType: "input_required", requestState: "s1", inputRequests: {} } });
  effect(m.params.requestState);
  ok(m.id, "paid");
`;

test("a question of the server and the answer to it are one call, also if its answer is lost", async () => {
  proxy = await RawProxy.start(ROUNDS);
  const asked = await proxy.call(1, "pay", { order: 17 });
  expect(asked.result).toMatchObject({ resultType: "input_required", requestState: "s1" });
  expect(await proxy.calls("pay")).toMatchObject([{ status: "unknown", doubt: null }]);
  const more = { inputResponses: { ok: { action: "accept" } }, requestState: "s1" };
  // The client gives the request up while it runs, and sends it again under another id.
  proxy.say({ id: 2, method: "tools/call", params: { name: "pay", arguments: { order: 17 }, ...more } });
  const again = await proxy.call(3, "pay", { order: 17 }, more);
  expect(said(again)).toContain("paid");
  expect(proxy.effects()).toEqual(["s1"]);
  expect(await proxy.calls("pay")).toMatchObject([{ status: "completed", attempt: 2 }]);
});

test("a call that waits for input is not sent again without it", async () => {
  const question = { resultType: "input_required", requestState: "s1", inputRequests: {} };
  proxy = await RawProxy.start(`
    if (m.method !== "tools/call") return;
    effect(m.params.name);
    if (m.params.name === "pay") say({ id: m.id, result: ${JSON.stringify(question)} });
    else say({ id: m.id, error: { code: -32000, message: "broken" } });
  `);
  await proxy.call(1, "pay", {});
  await proxy.call(2, "other", {});
  // The proxy looks at all open calls, and sends the one again that a person has released.
  await proxy.resolve("other", "retry");
  await soon(() => expect(proxy?.effects().filter((each) => each === "other")).toHaveLength(2));
  expect(proxy.effects().filter((each) => each === "pay")).toHaveLength(1);
});

const HINTED = `
  if (m.method !== "tools/call") return;
  effect(m.params.name);
  ok(m.id, m.params.name);
`;
const LISTED = `const tell = say; say = (each) => tell(each.result?.tools ? { ...each, result: { tools: [
  { name: "look", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } },
  { name: "named", inputSchema: { type: "object" }, annotations: { readOnlyHint: true } }] } } : each);`;

test("hints of a server count only if the configuration trusts them, and never against a rule", async () => {
  proxy = await RawProxy.start(HINTED, "annotations: trust\ntools: { named: mutate }", LISTED);
  await proxy.ask("list", "tools/list", {});
  for (const name of ["look", "named", "other"]) await proxy.call(name, name, {});
  expect(await proxy.calls("look")).toHaveLength(0);
  expect(await proxy.calls("named")).toHaveLength(1);
  expect(await proxy.calls("other")).toHaveLength(1);
  await proxy.close();
  proxy = await RawProxy.start(HINTED, "tools: {}", LISTED);
  await proxy.ask("list", "tools/list", {});
  await proxy.call("look", "look", {});
  expect(await proxy.calls("look")).toHaveLength(1);
});
