// The proxy over HTTP, as a process: clients of both protocols, lost answers, kills. The server counts effects.

import { type ChildProcess, spawn } from "node:child_process";
import { Agent, request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { environment } from "../cli/command-line.ts";
import { Programs, Project, textOf } from "./mcp-project.ts";
import { soon } from "./raw-proxy.ts";

let programs: Programs;
let project: Project;
let running: ChildProcess[];
beforeAll(async () => {
  programs = await Programs.build();
});
afterAll(() => programs.remove());
beforeEach(() => {
  project = new Project();
  project.write("tools.yaml", "tools: { find: read }");
  running = [];
});
afterEach(async () => {
  await Promise.all(running.map((child) => stop(child, "SIGTERM")));
  project.remove();
});

const stop = (child: ChildProcess, signal: NodeJS.Signals): Promise<void> =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve();
    child.once("exit", () => resolve());
    child.kill(signal);
  });

async function serve(behind = programs.counting): Promise<{ url: string; child: ChildProcess }> {
  const config = join(project.folder, "tools.yaml");
  const args = [programs.cli, "mcp", "proxy", "--http", "0", "--config", config, "--", ...behind];
  const env = environment({ EFFECTS_LOG: project.effectsLog });
  const child = spawn(process.execPath, args, {
    cwd: project.folder,
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  running.push(child);
  const url = await new Promise<string>((resolve) => {
    createInterface({ input: child.stdout }).once("line", resolve);
  });
  return { url, child };
}

async function connect(url: string, version?: "2026-07-28"): Promise<Client> {
  const client = new Client(
    { name: "agent", version: "1.0.0" },
    version ? { versionNegotiation: { mode: { pin: version } } } : {},
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

const VERSION = "2026-07-28";
const META = {
  "io.modelcontextprotocol/protocolVersion": VERSION,
  "io.modelcontextprotocol/clientCapabilities": {},
};

/** One request of 2026-07-28. `read` is false for a client that goes away before the answer. */
function post(
  url: string,
  agent: Agent,
  id: number,
  name: string,
  given: object,
  read = true,
): Promise<string> {
  const params = { name, arguments: given, _meta: META };
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Mcp-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
    "Mcp-Name": name,
  };
  return new Promise((resolve, reject) => {
    const made = request(url, { method: "POST", agent, headers }, (response) => {
      if (!read) {
        made.destroy();
        return resolve("");
      }
      let text = "";
      response.on("data", (chunk) => {
        text += chunk;
      });
      // Also after a kill, which ends no response.
      response.on("close", () => resolve(text));
    });
    made.on("error", (error) => (read ? reject(error) : resolve("")));
    made.end(JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params }));
  });
}

test("clients of both protocols use one ledger at once", async () => {
  const { url } = await serve();
  const older = await connect(url);
  const newer = await connect(url, VERSION);
  for (const [client, id] of [
    [older, "o"],
    [newer, "n"],
  ] as const) {
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("add");
    expect(textOf(await client.callTool({ name: "add", arguments: { id } }))).toContain(`add ${id}`);
    expect(textOf(await client.callTool({ name: "find", arguments: { id } }))).toBe("found 1");
    await client.close();
  }
  const [session, ...others] = await project.sessions();
  expect(others).toEqual([]);
  expect(session?.calls.map(({ tool, status }) => `${tool} ${status}`)).toEqual([
    "add completed",
    "add completed",
  ]);
});

test("a call whose stream broke is not earned twice when the client sends it again", async () => {
  const { url } = await serve();
  const agent = new Agent({ keepAlive: true });
  await post(url, agent, 1, "add", { id: "lost" }, false);
  await soon(() => expect(project.effects()).toEqual(["add lost"]));
  // Another request, even of the same client, does not prove that the lost answer was read.
  await post(url, agent, 2, "add", { id: "other" });
  expect(await post(url, new Agent(), 3, "add", { id: "lost" })).toContain("Not run again");
  expect(project.effects()).toEqual(["add lost", "add other"]);
  agent.destroy();
});

test("an answer was read once its socket has the next request: then the same call is a new one", async () => {
  const { url } = await serve();
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  await post(url, agent, 1, "add", { id: "twice" });
  expect(await post(url, agent, 2, "add", { id: "twice" })).toContain("The same call ran");
  expect(project.effects()).toEqual(["add twice", "add twice"]);
  agent.destroy();
});

test("a killed proxy comes back at the same session, and the re-issued call gets its outcome: one effect", async () => {
  const first = await serve();
  const lost = post(first.url, new Agent(), 1, "slow", { id: "k" }).catch(() => "");
  await soon(() => expect(project.effects()).toEqual(["slow k"]));
  await stop(first.child, "SIGKILL");
  await lost;
  // Lets the orphaned server end.
  project.write("effects.log.k", "");
  const second = await serve();
  const again = await post(second.url, new Agent(), 2, "slow", { id: "k" });
  expect(again).toContain("unknown whether this call took effect");
  expect(project.effects()).toEqual(["slow k"]);
});

test("a page of the web, and headers that contradict the body, are refused", async () => {
  const { url } = await serve();
  const page = await fetch(url, { method: "POST", headers: { Origin: "https://evil.example" }, body: "{}" });
  expect(page.status).toBe(403);
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name: "add", _meta: META },
  });
  const headers = { "Mcp-Protocol-Version": VERSION, "Mcp-Method": "tools/list", "Mcp-Name": "add" };
  const wrong = await fetch(url, { method: "POST", headers, body });
  expect([wrong.status, await wrong.text()]).toEqual([400, expect.stringContaining("-32020")]);
  expect(project.effects()).toEqual([]);
});

/** Sends a message with the headers that it needs, and others. */
function send(
  url: string,
  id: number,
  method: string,
  params: object,
  others: object = {},
): Promise<Response> {
  const { name } = params as { name?: string };
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Mcp-Protocol-Version": VERSION,
    "Mcp-Method": method,
    ...(name && { "Mcp-Name": name }),
    ...others,
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id, method, params });
  return fetch(url, { method: "POST", headers, body });
}

/** The messages of a response: of a stream, or the only one. */
async function messagesOf(response: Response): Promise<Record<string, unknown>[]> {
  const text = await response.text();
  const isStream = response.headers.get("content-type") === "text/event-stream";
  const parts = isStream ? [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => data) : [text];
  return parts.map((each) => JSON.parse(each) as Record<string, unknown>);
}

/**
 * A server of either protocol. `work` and `subscriptions/listen` are answered by the next `go`, which first tells
 * each of them something. `go` logs, and `region` wants its argument as a header.
 */
const SERVER = `
  const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\\n");
  const effect = (text) => require("node:fs").appendFileSync(process.env.EFFECTS_LOG, text + "\\n");
  const SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId";
  const region = { type: "object", properties: { region: { type: "string", "x-mcp-header": "Region" } } };
  let waiting = [];
  const done = (text) => ({ resultType: "complete", content: [{ type: "text", text }] });
  require("node:readline").createInterface({ input: process.stdin }).on("line", (raw) => {
    const { id, method, params = {} } = JSON.parse(raw);
    if (id === undefined) return;
    const answer = (result) => say({ id, result });
    if (method === "initialize") return answer({ protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } });
    if (method === "server/discover") return answer({ resultType: "complete", supportedVersions: ["2026-07-28"], capabilities: { tools: {} } });
    if (method === "tools/list") return answer({ resultType: "complete", tools: [{ name: "region", inputSchema: region }] });
    if (method === "subscriptions/listen") effect("listen");
    if (method === "subscriptions/listen") return waiting.push({ id, listens: true });
    if (method !== "tools/call") return say({ id, error: { code: -32601, message: "Method not found" } });
    effect(params.name + " " + JSON.stringify(params.arguments ?? {}));
    if (params.name === "work") return waiting.push({ id, token: params._meta.progressToken });
    for (const { id, listens, token } of waiting) {
      const about = listens ? { _meta: { [SUBSCRIPTION]: id } } : { progressToken: token, progress: 1 };
      say({ method: "notifications/" + (listens ? "tools/list_changed" : "progress"), params: about });
    }
    for (const { id, listens } of waiting) {
      const answered = { resultType: "complete", _meta: { [SUBSCRIPTION]: id } };
      say({ id, result: listens ? answered : done("worked") });
    }
    waiting = [];
    say({ method: "notifications/message", params: { level: "info", data: "went" } });
    answer(done("went"));
  });
`;
const telling = (): string[] => [process.execPath, "-e", SERVER];

test("clients with the same ids get their own progress, and no log of another client", async () => {
  const { url } = await serve(telling());
  const _meta = { ...META, progressToken: "p" };
  const given = (of: string) => ({ name: "work", arguments: { of }, _meta });
  const first = send(url, 7, "tools/call", given("first"));
  await soon(() => expect(project.effects()).toHaveLength(1));
  const second = send(url, 7, "tools/call", { ...given("second"), _meta: { ...META, progressToken: 9 } });
  await soon(() => expect(project.effects()).toHaveLength(2));
  const third = send(url, 7, "tools/call", { name: "work", arguments: { of: "third" }, _meta: META });
  await soon(() => expect(project.effects()).toHaveLength(3));
  const goMeta = { ...META, "io.modelcontextprotocol/logLevel": "info" };
  const went = await messagesOf(await send(url, 7, "tools/call", { name: "go", _meta: goMeta }));

  const progress = (progressToken: unknown) => ({
    method: "notifications/progress",
    params: { progressToken, progress: 1 },
  });
  expect(await messagesOf(await first)).toMatchObject([progress("p"), { id: 7, result: {} }]);
  expect(await messagesOf(await second)).toMatchObject([progress(9), { id: 7, result: {} }]);
  expect(await messagesOf(await third)).toMatchObject([{ id: 7, result: {} }]);
  expect(went).toMatchObject([{ method: "notifications/message" }, { id: 7, result: {} }]);
});

test("calls of one session get their own progress", async () => {
  const { url } = await serve(telling());
  const older = { "Mcp-Protocol-Version": "2025-06-18" };
  const hello = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "c", version: "1" } };
  const greeted = await send(url, 1, "initialize", hello, older);
  await greeted.text();
  const session = { ...older, "Mcp-Session-Id": greeted.headers.get("mcp-session-id") ?? "" };
  const call = (id: number, name: string, given: object): Promise<Response> =>
    send(url, id, "tools/call", { name, ...given }, session);
  const work = [];
  for (const token of [2, 3]) {
    work.push(call(token, "work", { arguments: { token }, _meta: { progressToken: token } }));
    await soon(() => expect(project.effects()).toHaveLength(work.length));
  }
  await messagesOf(await call(4, "go", {}));
  for (const [index, id] of [2, 3].entries())
    expect(await messagesOf((await work[index]) as Response)).toMatchObject([
      { method: "notifications/progress", params: { progressToken: id } },
      { id, result: {} },
    ]);
});

test("subscriptions with the same id get their own changes under that id", async () => {
  const { url } = await serve(telling());
  const listen = (): Promise<Response> =>
    send(url, 5, "subscriptions/listen", { notifications: { toolsListChanged: true }, _meta: META });
  const streams = [listen(), listen()];
  await soon(() => expect(project.effects()).toEqual(["listen", "listen"]));
  await messagesOf(await send(url, 8, "tools/call", { name: "go", _meta: META }));
  const _meta = { "io.modelcontextprotocol/subscriptionId": 5 };
  for (const stream of streams)
    expect(await messagesOf(await stream)).toMatchObject([
      { method: "notifications/tools/list_changed", params: { _meta } },
      { id: 5, result: { _meta } },
    ]);
});

test.each([
  ["a request without _meta", "tools/list", {}, {}, 400, -32_602],
  [
    "one without the client's capabilities",
    "tools/list",
    { "io.modelcontextprotocol/protocolVersion": VERSION },
    {},
    400,
    -32_602,
  ],
  [
    "a version that the server does not know",
    "tools/list",
    { ...META, "io.modelcontextprotocol/protocolVersion": "2099-01-01" },
    { "Mcp-Protocol-Version": "2099-01-01" },
    400,
    -32_022,
  ],
  ["a removed method", "ping", META, {}, 404, -32_601],
  ["a task by a client that cannot take one", "tasks/get", META, {}, 400, -32_021],
  [
    "an unknown task",
    "tasks/get",
    {
      ...META,
      "io.modelcontextprotocol/clientCapabilities": { extensions: { "io.modelcontextprotocol/tasks": {} } },
    },
    {},
    200,
    -32_602,
  ],
  ["a list of tasks, which this version lacks", "tasks/list", META, {}, 404, -32_601],
] as const)(
  "%s gets the error of the specification under its id",
  async (_name, method, _meta, others, status, code) => {
    const { url } = await serve(telling());
    const params = Object.keys(_meta).length === 0 ? {} : { _meta };
    const about = method === "tasks/get" ? { taskId: "none" } : {};
    const headers = method === "tasks/get" ? { "Mcp-Name": "none", ...others } : others;
    const response = await send(url, 3, method, { ...about, ...params }, headers);
    const [message = {}] = await messagesOf(response);
    expect([response.status, message["id"], message["error"]]).toMatchObject([status, 3, { code }]);
    expect(message).not.toHaveProperty("result");
    if (code === -32_022)
      expect(message["error"]).toMatchObject({ data: { supported: [VERSION], requested: "2099-01-01" } });
  },
);

test("a header that contradicts an argument is refused without effect; an encoded one is read", async () => {
  const { url } = await serve(telling());
  const region = (value: string) => ({ name: "region", arguments: { region: value }, _meta: META });
  for (const header of [{}, { "Mcp-Param-Region": "us" }, { "Mcp-Param-Region": "=?base64?e%?=" }]) {
    const wrong = await send(url, 1, "tools/call", region("eu"), header);
    expect([wrong.status, await messagesOf(wrong)]).toMatchObject([
      400,
      [{ id: 1, error: { code: -32_020 } }],
    ]);
  }
  expect(project.effects()).toEqual([]);
  const encoded = `=?base64?${Buffer.from("eu").toString("base64")}?=`;
  for (const header of ["eu", encoded])
    expect((await send(url, 2, "tools/call", region("eu"), { "Mcp-Param-Region": header })).status).toBe(200);
  expect(project.effects()).toContain('region {"region":"eu"}');
});
