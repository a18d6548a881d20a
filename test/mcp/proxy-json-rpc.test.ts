// The proxy parses and serialises messages only if it must, and never changes their content.

import { afterAll, beforeAll, expect, test } from "vitest";
import { RawProxy, said } from "./raw-proxy.ts";

const CONFIG = `
tools:
  look: read
  rest: { dedupe: session }
  doubtful: { settle: 1ms, verify: { tool: look, landed: { at: /structuredContent/id, equals: "{{args.id}}" } } }
  pay: { dedupe: { scope: global, key: "pay:{{args.order}}" } }
`;

const SERVER = `
  if (m.method !== "tools/call") return;
  const { name } = m.params;
  effect(name + " " + raw);
  if (name === "doubtful" && (globalThis.times = (globalThis.times ?? 0) + 1) === 1) say({ id: m.id, error: { code: -32000, message: "lost" } });
  else write('{"jsonrpc":"2.0","id":' + /"id": ?("[^"]*"|[0-9]+)/.exec(raw)[1] + ',"result":{"content":[],"structuredContent":{"id":9007199254740993,"far":[1e400,0.5]}}}');
`;

let proxy: RawProxy;
beforeAll(async () => {
  proxy = await RawProxy.start(SERVER, CONFIG);
});
afterAll(() => proxy.close());

const seen = (name: string): string[] => proxy.effects().filter((each) => each.startsWith(`${name} `));
const request = (id: string, name: string, args: string): string =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;

test.each([
  ["9007199254740993", "9007199254740992"],
  ["-1234567890123456789", "-1234567890123456800"],
  ["1e400", "Infinity"],
  ["1234567890123456.789", "1234567890123456.8"],
])("a call with a number that would be rounded is rejected without effect: %s", async (text, other) => {
  proxy.write(request(`"n ${text}"`, "delete", `{"a":"\\\\\\"1","list":[{"of":1},{"message_id":${text}}]}`));
  const { error } = await proxy.heard(({ id }) => id === `n ${text}`);
  expect(error?.code).toBe(-32_602);
  expect(error?.message).toContain(`$.params.arguments.list[1].message_id is ${text}`);
  expect(error?.message).toContain(`rounded to ${other}. Send it as a string: "${text}"`);
  expect(seen("delete")).toEqual([]);
});

test("numbers that are not rounded pass, however they are written", async () => {
  const args = "[9007199254740992,1e3,1.50,-0,1E+22,0.1,0.79999999999999993,100000000000000000000]";
  proxy.write(request('"fine"', "keep", `{"n":${args},"text":"9007199254740993"}`));
  expect(await proxy.heard(({ id }) => id === "fine")).not.toHaveProperty("error");
  expect(seen("keep")).toHaveLength(1);
});

test("a read is forwarded with every digit, and so is its answer", async () => {
  proxy.write(request("11", "look", '{"id": 9007199254740993}'));
  expect(await proxy.line(({ id }) => id === 11)).toContain('"id":9007199254740993');
  expect(seen("look")[0]).toContain('"id": 9007199254740993');
});

test("a request is answered under its exact id", async () => {
  proxy.write(request("9007199254740995", "keep", '{"for":"its id"}'));
  proxy.write(request("9007199254740997", "look", "{}"));
  await proxy.line((_, raw) => raw.startsWith('{"jsonrpc":"2.0","id":9007199254740995,"result"'));
  await proxy.line((_, raw) => raw.startsWith('{"jsonrpc":"2.0","id":9007199254740997,"result"'));
});

test("numbers of an answer are exact, live and from the record", async () => {
  for (const id of [21, 22]) {
    proxy.write(request(String(id), "rest", "{}"));
    const raw = await proxy.line((heard) => heard.id === id);
    expect(raw).toContain('"structuredContent":{"id":9007199254740993,"far":[1e400,0.5]');
    expect(raw).not.toContain("holdfast/numbers");
    expect(raw.includes("Not run again")).toBe(id === 22);
  }
  expect(seen("rest")).toHaveLength(1);
});

test("a number that equals another one only after rounding proves nothing", async () => {
  await proxy.call(31, "doubtful", { id: 9007199254740992 });
  expect(seen("doubtful"), "found as not done, and done").toHaveLength(2);
});

test("a key made of an object does not depend on the order of its members", async () => {
  await proxy.call(41, "pay", { order: { shop: "a", no: 7 } });
  expect(said(await proxy.call(42, "pay", { order: { no: 7, shop: "a" } }))).toContain("Not run again");
  expect(seen("pay")).toHaveLength(1);
});

test.each([
  ["a batch", '[{"jsonrpc":"2.0","id":51,"method":"tools/list"}]', -32_600],
  ["a number", "5", -32_600],
  ["an object that is not a message", "{}", -32_600],
  ["a request whose id is null", '{"jsonrpc":"2.0","id":null,"method":"tools/list"}', -32_600],
  ["a line that is not JSON", "{ hello", -32_700],
])("%s gets an error, so that no client waits forever", async (_, text, code) => {
  const before = proxy.lines.length;
  proxy.write(text);
  await proxy.ask(`after ${text}`, "tools/list", {});
  const answers = proxy.lines.slice(before).map((raw) => JSON.parse(raw));
  expect(answers[0]).toMatchObject({ id: null, error: { code } });
});

test("a call without an id is dropped, and an error without an id is not answered", async () => {
  const before = proxy.lines.length;
  proxy.say({ method: "tools/call", params: { name: "unasked", arguments: {} } });
  proxy.say({ method: "tools/call", params: { name: "look", arguments: { unasked: 1 } } });
  proxy.say({ id: null, error: { code: -32_700, message: "what?" } });
  await proxy.call(61, "look", { last: 1 });
  expect(proxy.effects().filter((each) => each.includes("unasked"))).toEqual([]);
  expect(proxy.lines).toHaveLength(before + 1);
});
