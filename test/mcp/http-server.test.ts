// `holdfast mcp --http` behind the official client, in both protocols: agents share one server, each under its
// own name.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { Client, StreamableHTTPClientTransport, type Tool } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { environment } from "../cli/command-line.ts";
import { runInside } from "../cli/inside.ts";
import { Programs, Project, textOf } from "./mcp-project.ts";

let programs: Programs;
let project: Project;
let server: Served;
beforeAll(async () => {
  programs = await Programs.build();
  project = new Project();
  await runInside(project.folder, ["init"]);
  const begin = ["goal", "new", "checkout", "Ship the checkout", "--phase", "Schema"];
  expect(await runInside(project.folder, begin)).toMatchObject({ code: 0 });
  for (const title of ["first", "second", "third", "fourth"])
    expect(await runInside(project.folder, ["task", "add", title, "--wanted", "it works"])).toMatchObject({
      code: 0,
    });
  server = await serve(["--http", "0"]);
});
afterAll(async () => {
  await server.stop();
  project.remove();
  programs.remove();
});

interface Served {
  readonly url: URL;
  readonly child: ChildProcess;
  stop(): Promise<void>;
}

async function serve(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Served> {
  const child = spawn(process.execPath, [programs.cli, "mcp", ...args], {
    cwd: project.folder,
    env: environment(env),
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  const stop = async (): Promise<void> => {
    child.kill("SIGINT");
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  };
  return { url: new URL(String(line).trim()), child, stop };
}

const ERAS = { "a session": "legacy", "2026-07-28": { pin: "2026-07-28" } } as const;

async function connect(by: string, era: keyof typeof ERAS, url = server.url): Promise<Client> {
  const client = new Client(
    { name: "test-agent", version: "1" },
    { versionNegotiation: { mode: ERAS[era] } },
  );
  const requestInit = { headers: { "Holdfast-By": by } };
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  return client;
}

/** The official client lists all tools before a call unless it has the definition. */
const toolDefinition: Tool = { name: "any", inputSchema: { type: "object" } };

const callTool = (client: Client, name: string, args: object): Promise<unknown> =>
  client.callTool({ name, arguments: { ...args } }, { toolDefinition: { ...toolDefinition, name } });

describe.each(Object.keys(ERAS) as (keyof typeof ERAS)[])("with %s", (era) => {
  const task = era === "a session" ? "T-001" : "T-002";

  test("an agent hears that another has claimed a task", async () => {
    const [ann, ben] = [await connect(`ann-${task}`, era), await connect(`ben-${task}`, era)];
    const heard = new Promise<string>((resolve) => {
      ben.setNotificationHandler("notifications/resources/updated", ({ params }) => resolve(params.uri));
    });
    if (era === "a session") await ben.subscribeResource({ uri: "holdfast://state" });
    else await ben.listen({ resourceSubscriptions: ["holdfast://state"] });
    expect(textOf(await callTool(ann, "task_claim", { task }))).toContain(`ann-${task}`);
    expect(await heard).toBe("holdfast://state");
    const page = await ben.readResource({ uri: `holdfast://tasks/${task}` });
    expect(JSON.stringify(page.contents)).toContain(`ann-${task}`);
    expect(textOf(await callTool(ben, "task_claim", { task }))).toContain("TASK_HELD");
    await ann.close();
    await ben.close();
  });

  test("ids of goals and tasks are completed", async () => {
    const client = await connect("ann", era);
    const complete = async (uri: string, name: string, value: string): Promise<readonly string[]> =>
      (await client.complete({ ref: { type: "ref/resource", uri }, argument: { name, value } })).completion
        .values;
    expect(await complete("holdfast://state/{goal}", "goal", "che")).toEqual(["checkout"]);
    expect(await complete("holdfast://tasks/{task}", "task", "t-00")).toContain("T-003");
    expect(await complete("holdfast://tasks/{task}", "task", "X")).toEqual([]);
    const prompt = {
      ref: { type: "ref/prompt" as const, name: "resume" },
      argument: { name: "goal", value: "c" },
    };
    expect((await client.complete(prompt)).completion.values).toEqual(["checkout"]);
    const { contents } = await client.readResource({ uri: "holdfast://tasks/T-003" });
    expect(JSON.stringify(contents)).toContain("third");
    await client.close();
  });
});

test("an agent keeps its claim when the server is killed and started again", async () => {
  const before = await serve(["--http", "0"]);
  const first = await connect("cat", "2026-07-28", before.url);
  expect(textOf(await callTool(first, "task_claim", { task: "T-003" }))).toContain("cat");
  before.child.kill("SIGKILL");
  await once(before.child, "exit");
  const after = await serve(["--http", "0"]);
  const next = await connect("cat", "2026-07-28", after.url);
  const released = (await callTool(next, "task_release", { task: "T-003" })) as { isError?: boolean };
  expect(released.isError, textOf(released)).not.toBe(true);
  await next.close();
  await after.stop();
});

describe("who may ask", () => {
  const post = (url: URL, headers: Readonly<Record<string, string>>): Promise<number> =>
    new Promise((resolve, reject) => {
      const type = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
      const asked = request(url, { method: "POST", headers: { ...type, ...headers } }, (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      asked.on("error", reject);
      const clientInfo = { name: "c", version: "1" };
      const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo };
      asked.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params }));
    });

  test("on loopback, a foreign page cannot ask", async () => {
    const { url } = server;
    expect(await post(url, {})).toBe(200);
    expect(await post(url, { Origin: `http://localhost:${url.port}` })).toBe(200);
    expect(await post(url, { Host: "evil.example:80" })).toBe(421);
    expect(await post(url, { Origin: "https://evil.example" })).toBe(403);
    expect(await post(url, { "Holdfast-By": "a b" })).toBe(400);
    expect(await post(new URL("/other", url), {})).toBe(404);
  });

  test("elsewhere it does not start without a token, and asks for it", async () => {
    const started = await runInside(project.folder, ["mcp", "--http", "0.0.0.0:0"]);
    expect(started).toMatchObject({ code: 2, err: expect.stringContaining("HOLDFAST_MCP_TOKEN") });
    const token = "a-token-of-twenty-and-more";
    const open = await serve(["--http", "0.0.0.0:0"], { HOLDFAST_MCP_TOKEN: token });
    const url = new URL(`http://127.0.0.1:${open.url.port}/mcp`);
    expect(await post(url, {})).toBe(401);
    expect(await post(url, { Authorization: "Bearer wrong" })).toBe(401);
    expect(await post(url, { Authorization: `Bearer ${token}` })).toBe(200);
    expect(await post(url, { Authorization: `Bearer ${token}`, Origin: "https://evil.example" })).toBe(403);
    await open.stop();
  });
});
