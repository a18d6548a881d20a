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

async function serve(): Promise<{ url: string; child: ChildProcess }> {
  const config = join(project.folder, "tools.yaml");
  const args = [programs.cli, "mcp", "proxy", "--http", "0", "--config", config, "--", ...programs.counting];
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
