// The server behind the proxy exits, or the client cancels a call, at a bad moment.

import { rmSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Heard, RawProxy, said, soon } from "./raw-proxy.ts";

/**
 * Each process of the server numbers its questions from 0, like the official SDK. It does not start while a
 * file `down` exists, and it exits on request.
 */
const SERVER = `
  if (m.method === "notifications/cancelled") effect("heard that " + m.params.requestId + " is cancelled");
  if (m.method === "stop reading") {
    process.stdin.pause();
    say({ method: "reads no more" });
    setInterval(() => fs.existsSync(here("end")) && process.exit(1), 10);
  }
  if (m.method === "withdraw") say({ method: "notifications/cancelled", params: { requestId: 0 } });
  globalThis.open ??= [];
  if (m.result && open[m.id]) {
    effect("DONE: " + open[m.id].params.arguments.what);
    ok(open[m.id].id, "done");
  }
  if (m.method !== "tools/call") return;
  const { name, arguments: args } = m.params;
  if (name === "end") process.exit(1);
  if (name === "ask") write('{"id":' + (open.push(m) - 1) + ',"method":"elicitation/create","params":{"n":9007199254740993,"message":' + JSON.stringify(args.what) + '}}');
  else if (name === "flood") {
    effect("pid " + process.pid);
    for (let line = 0; line < 55; line++) say({ method: "notifications/message", params: { data: "x".repeat(4000) } });
    ok(m.id, "receipt 4711");
    process.kill(process.pid, "SIGKILL");
  } else if (name === "leave a child") {
    const child = require("node:child_process").spawn("sleep", ["600"], { stdio: ["ignore", "inherit", "ignore"], detached: true });
    effect("child " + child.pid);
    process.exit(1);
  } else { effect("ran " + name); ok(m.id, "ok"); }
`;

const UP = 'if (fs.existsSync(here("down"))) process.exit(1);';

let proxy: RawProxy;
beforeAll(async () => {
  proxy = await RawProxy.start(SERVER, "tools: { end: read }", UP);
});
afterAll(() => proxy.close());

const question = (what: string): Promise<Heard> =>
  proxy.heard(({ method, params }) => method === "elicitation/create" && params?.["message"] === what);
const withdrawal = (id: unknown): Promise<Heard> =>
  proxy.heard(({ method, params }) => method === "notifications/cancelled" && params?.["requestId"] === id);
const asks = (id: number, what: string): void =>
  proxy.say({ id, method: "tools/call", params: { name: "ask", arguments: { what } } });

test("a restarted server does not get the answer to its predecessor's question", async () => {
  asks(1, "send a greeting?");
  const first = await question("send a greeting?");
  await proxy.call(2, "end", {});
  expect((await withdrawal(first.id)).params?.["reason"]).toContain("no longer waits for the answer");
  asks(3, "drop the database?");
  const second = await question("drop the database?");
  expect(second.id).not.toBe(first.id);
  proxy.say({ id: first.id, result: { action: "accept" } });
  proxy.say({ id: 0, result: { action: "accept" } });
  await proxy.ask(4, "tools/list", {});
  expect(proxy.effects()).toEqual([]);
  proxy.say({ id: second.id, result: { action: "accept" } });
  expect(said(await proxy.heard(({ id, result }) => id === 3 && result !== undefined))).toBe("done");
  expect(proxy.effects()).toEqual(["DONE: drop the database?"]);
});

test("a server's question reaches the client under a new id and is cancelled under it", async () => {
  await proxy.call(11, "end", {});
  asks(12, "well?");
  const { id } = await question("well?");
  expect(await proxy.line((heard) => heard.id === id)).toContain('"n":9007199254740993');
  proxy.say({ method: "withdraw" });
  await withdrawal(id);
});

test("a server that exits with a full pipe does not block the proxy", async () => {
  proxy.say({ method: "stop reading" });
  await proxy.heard(({ method }) => method === "reads no more");
  proxy.say({
    id: 21,
    method: "tools/call",
    params: { name: "upload", arguments: { data: "x".repeat(1_000_000) } },
  });
  await soon(() => expect(proxy.input.isPaused()).toBe(true));
  proxy.project.write("end", "");
  expect(said(await proxy.heard(({ id }) => id === 21))).toContain("It is unknown");
  expect(await proxy.ask(22, "tools/list", {})).toHaveProperty("result");
});

test("a call that is cancelled before it is sent is never sent and counts as not run", async () => {
  const call = { method: "tools/call", params: { name: "pay", arguments: {} } };
  const cancel = { method: "notifications/cancelled", params: { requestId: 31 } };
  proxy.write([{ id: 31, ...call }, cancel].map((each) => JSON.stringify(each)).join("\n"));
  // The same call again, on purpose: it is a new call.
  proxy.say({ id: 32, ...call });
  expect(said(await proxy.heard(({ id }) => id === 32))).toBe("ok");
  expect(proxy.effects().filter((each) => !each.startsWith("DONE"))).toEqual(["ran pay"]);
  expect((await proxy.calls("pay")).map(({ status }) => status).sort()).toEqual(["completed", "failed"]);
});

test("a cancelled call that waits for a server that is down is never sent", async () => {
  const down = proxy.project.write("down", "");
  await proxy.call(41, "end", {});
  proxy.say({ id: 42, method: "tools/call", params: { name: "book", arguments: {} } });
  await soon(async () => expect(await proxy.calls("book")).toMatchObject([{ status: "issued" }]));
  proxy.say({ method: "notifications/cancelled", params: { requestId: 42 } });
  await soon(async () => expect(await proxy.calls("book")).toMatchObject([{ status: "failed" }]));
  rmSync(down);
  await soon(async () =>
    expect(await proxy.ask(`up ${Math.random()}`, "tools/list", {})).toHaveProperty("result"),
  );
  expect(proxy.effects()).not.toContain("ran book");
});

test("an answer in the pipe of an exited server is delivered, however slowly the client reads", async () => {
  proxy.output.pause();
  proxy.say({ id: 51, method: "tools/call", params: { name: "flood", arguments: {} } });
  let pid = 0;
  await soon(() => {
    pid = Number(/pid (\d+)/.exec(proxy.effects().join("\n"))?.[1]);
    expect(pid).toBeGreaterThan(0);
  });
  await soon(() => expect(() => process.kill(pid, 0)).toThrow());
  proxy.output.resume();
  expect(said(await proxy.heard(({ id }) => id === 51))).toBe("receipt 4711");
});

test("a child process that the server leaves behind does not hide its exit", async () => {
  const answer = await proxy.call(61, "leave a child", {});
  expect(said(answer)).toContain("It is unknown");
  process.kill(Number(/child (\d+)/.exec(proxy.effects().join("\n"))?.[1]), "SIGKILL");
  expect(await proxy.ask(62, "tools/list", {})).toHaveProperty("result");
});

test("a proxy that has ended removes its signal handlers", async () => {
  const count = (): number => process.listenerCount("SIGTERM");
  const before = count();
  const other = await RawProxy.start(SERVER);
  expect(count()).toBe(before + 1);
  await other.close();
  expect(count()).toBe(before);
});
