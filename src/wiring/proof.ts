/** Tests the wiring from the agents' side: runs our hooks, starts the MCP server, lists its tools. */

import { execFile, spawn } from "node:child_process";
import { isHoldfastError } from "../model/errors.ts";
import { AGENT_TABLE, type AgentName, isOurServer } from "./agents.ts";
import { jsonValue } from "./json-file.ts";
import { commandsIn, hasTheirServer, SERVER_TABLE, serverIn } from "./plan.ts";
import { outputProblem, sampleInput } from "./sample-input.ts";
import { tomlValue } from "./toml-file.ts";

export interface Finding {
  readonly agent: AgentName;
  readonly what: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly ms: number | null;
}

const LONGEST_MS = 20_000;
const THEIRS = "its MCP server holdfast is your own, so ours is not wired";

export async function proveWiring(
  root: string,
  agents: readonly AgentName[],
  read: (path: string) => string | null,
): Promise<Finding[]> {
  const servers = new Map<string, Promise<ServerAnswer>>();
  const found = agents.map((agent) => proveAgent(root, agent, read, servers));
  return (await Promise.all(found)).flat();
}

async function proveAgent(
  root: string,
  agent: AgentName,
  read: (path: string) => string | null,
  servers: Map<string, Promise<ServerAnswer>>,
): Promise<Finding[]> {
  const findings = findDisabledHooks(agent, read);
  for (const file of AGENT_TABLE[agent].files) {
    const { path, format } = file;
    const bad = (detail: string): Finding => ({ agent, what: path, ok: false, detail, ms: null });
    const text = read(path);
    if (text === null) {
      findings.push(bad("is not there: holdfast init"));
      continue;
    }
    try {
      const config =
        format === "toml"
          ? { mcpServers: { holdfast: tomlValue(text, path, SERVER_TABLE) } }
          : (jsonValue(text, path) ?? {});
      const wantsHooks = "hooks" in file.wanted({ shell: () => "", mcp: { command: "", args: [] } });
      if (wantsHooks) findings.push(...(await proveHooks(root, agent, path, config)));
      const server = serverIn(config);
      if (isOurServer(server)) findings.push(await proveServer(root, agent, path, server as Server, servers));
      else if (!wantsHooks || agent === "gemini")
        findings.push(
          bad(hasTheirServer(text, file) ? THEIRS : "names no MCP server holdfast: holdfast init"),
        );
    } catch (error) {
      findings.push(bad((error as Error).message));
    }
  }
  return findings;
}

function findDisabledHooks(agent: AgentName, read: (path: string) => string | null): Finding[] {
  const { key, paths } = AGENT_TABLE[agent].hooksOff ?? { key: "", paths: [] };
  for (const path of paths) {
    const value = settingIn(read(path), path, key);
    if (value === undefined) continue;
    const detail = `${key} is ${JSON.stringify(value)}, so no hook is run`;
    return value === true ? [{ agent, what: path, ok: false, detail, ms: null }] : [];
  }
  return [];
}

function settingIn(text: string | null, path: string, key: string): unknown {
  try {
    return text === null ? undefined : ((jsonValue(text, path) ?? {}) as Record<string, unknown>)[key];
  } catch (error) {
    // An unreadable file of ours is reported with its hooks; any other is not our concern.
    if (isHoldfastError(error)) return undefined;
    throw error;
  }
}

async function proveHooks(root: string, agent: AgentName, path: string, config: unknown): Promise<Finding[]> {
  const commands = [...new Set(commandsIn(config))].filter((each) => each.includes(` hook ${agent} `));
  if (commands.length === 0) {
    return [{ agent, what: path, ok: false, detail: "runs no hook of ours: holdfast init", ms: null }];
  }
  const findings: Finding[] = [];
  for (const command of commands) {
    const event = command.split(" ").at(-1) ?? "";
    const { code, out, err, ms } = await runHook(
      root,
      command,
      JSON.stringify(sampleInput(agent, event, root)),
    );
    const trouble =
      code !== 0 ? `ended with ${code}: ${err.trim().slice(-200)}` : outputProblem(agent, event, out);
    const what = `${path} ${event}`;
    findings.push({ agent, what, ok: trouble === null, detail: trouble ?? "answers", ms });
  }
  return findings;
}

/** Runs a hook as an agent does: by a shell, in the project, with the event as input. */
function runHook(
  root: string,
  command: string,
  input: string,
): Promise<{ code: unknown; out: string; err: string; ms: number }> {
  const since = performance.now();
  const variables = ["CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR"];
  const env = { ...process.env, ...Object.fromEntries(variables.map((name) => [name, root])) };
  const limits = { timeout: LONGEST_MS, killSignal: "SIGKILL", maxBuffer: Number.POSITIVE_INFINITY } as const;
  return new Promise((resolve) => {
    const child = execFile("sh", ["-c", command], { cwd: root, env, ...limits }, (error, out, err) => {
      const code = error ? (error.code ?? null) : 0;
      resolve({ code, out, err, ms: Math.round(performance.now() - since) });
    });
    // A hook may close its input without reading it.
    child.stdin?.on("error", () => undefined);
    child.stdin?.end(input);
  });
}

interface Server {
  readonly command: string;
  readonly args: readonly string[];
}

interface ServerAnswer {
  readonly problem: string | null;
  readonly tools: number;
  readonly ms: number;
}

/** Agents that start the server by the same command share one start. */
async function proveServer(
  root: string,
  agent: AgentName,
  path: string,
  server: Server,
  servers: Map<string, Promise<ServerAnswer>>,
): Promise<Finding> {
  const key = JSON.stringify([server.command, server.args]);
  const asking = servers.get(key) ?? askServer(root, server);
  servers.set(key, asking);
  const { problem, tools, ms } = await asking;
  return { agent, what: `${path} mcp`, ok: problem === null, detail: problem ?? `offers ${tools} tools`, ms };
}

const HELLO = {
  protocolVersion: "2025-06-18",
  capabilities: {},
  clientInfo: { name: "holdfast-init-check", version: "1" },
};

function askServer(root: string, { command, args }: Server): Promise<ServerAnswer> {
  const since = performance.now();
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd: root, timeout: LONGEST_MS, killSignal: "SIGKILL" });
    let rest = "";
    let errors = "";
    const end = (problem: string | null, tools = 0): void => {
      resolve({ problem, tools, ms: Math.round(performance.now() - since) });
      child.kill("SIGTERM");
    };
    const send = (message: object): void => {
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    };
    const receive = (line: string): void => {
      const message = parsed(line);
      if (message === null) end(`it printed something that is not MCP: ${line.slice(0, 80)}`);
      else if (message.error !== undefined) end(`it refused: ${JSON.stringify(message.error).slice(0, 200)}`);
      else if (message.id === 1) {
        send({ method: "notifications/initialized" });
        send({ id: 2, method: "tools/list", params: {} });
      } else if (message.id === 2) {
        const { tools } = (message.result ?? {}) as { tools?: unknown[] };
        end(tools?.length ? null : "it offers no tools", tools?.length ?? 0);
      }
    };
    child.stdout.on("data", (chunk) => {
      const lines = (rest + String(chunk)).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) if (line.trim() !== "") receive(line);
    });
    child.stderr.on("data", (chunk) => {
      errors = `${errors}${String(chunk)}`.slice(-300);
    });
    child.stdin.on("error", () => undefined);
    child.on("error", (error) => end(`it cannot be started (${error.message})`));
    child.on("close", (code) => end(`it ended with ${code} before it answered: ${errors.trim()}`));
    send({ id: 1, method: "initialize", params: HELLO });
  });
}

function parsed(line: string): { id?: unknown; result?: unknown; error?: unknown } | null {
  try {
    return JSON.parse(line) as { id?: unknown };
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
