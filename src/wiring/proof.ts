/**
 * Proves the wiring from the agents' side: the configuration is read as the agent reads it, each hook of ours is really run
 * with what that agent would send, and the MCP server is started and asked for its tools.
 */

import { spawn } from "node:child_process";
import { isHoldfastError } from "../model/errors.ts";
import { AGENT_TABLE, type AgentName, isOurServer } from "./agents.ts";
import { plainValue, readJsonText } from "./json-text.ts";
import { commandsIn, hasTheirServer, SERVER_TABLE } from "./plan.ts";
import { outputProblem, sampleInput } from "./sample-input.ts";
import { valuesOf } from "./toml-merge.ts";

export interface Finding {
  readonly agent: AgentName;
  /** The file and, for a hook, its event. */
  readonly what: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly ms: number | null;
}

const LONGEST_MS = 20_000;
const THEIRS = "its MCP server holdfast is your own, so that of Holdfast is not wired";

export async function proveWiring(
  root: string,
  agents: readonly AgentName[],
  read: (path: string) => string | null,
): Promise<Finding[]> {
  const servers = new Map<string, Promise<Heard>>();
  const found = agents.map((agent) => proveAgent(root, agent, read, servers));
  return (await Promise.all(found)).flat();
}

async function proveAgent(
  root: string,
  agent: AgentName,
  read: (path: string) => string | null,
  servers: Map<string, Promise<Heard>>,
): Promise<Finding[]> {
  const findings = provenOn(agent, read);
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
          ? { mcpServers: { holdfast: valuesOf(text, path, SERVER_TABLE) } }
          : jsonOf(text, path);
      const wantsHooks = "hooks" in file.wanted({ shell: () => "", mcp: { command: "", args: [] } });
      if (wantsHooks) findings.push(...(await proveHooks(root, agent, path, config)));
      const server = serverIn(config);
      if (server) findings.push(await proveServer(root, agent, path, server, servers));
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

/** Hooks that answer are of no use where the agent was told to run none. */
function provenOn(agent: AgentName, read: (path: string) => string | null): Finding[] {
  const { key, paths } = AGENT_TABLE[agent].hooksOff ?? { key: "", paths: [] };
  for (const path of paths) {
    const said = settingIn(read(path), path, key);
    if (said === undefined) continue;
    const detail = `${key} is ${JSON.stringify(said)}, so no hook is run`;
    return said === true ? [{ agent, what: path, ok: false, detail, ms: null }] : [];
  }
  return [];
}

function settingIn(text: string | null, path: string, key: string): unknown {
  try {
    return text === null ? undefined : (jsonOf(text, path) as Record<string, unknown>)[key];
  } catch (error) {
    // A file that cannot be read is told of where its hooks are looked for; of one that is not ours nothing is known.
    if (isHoldfastError(error)) return undefined;
    throw error;
  }
}

function jsonOf(text: string, path: string): unknown {
  const root = readJsonText(text, path);
  return root === null ? {} : plainValue(root);
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

interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
  readonly ms: number;
}

/** As an agent runs it: by a shell, in the project, with the event on its input. */
function runHook(root: string, command: string, input: string): Promise<Ran> {
  const since = performance.now();
  const variables = ["CLAUDE_PROJECT_DIR", "CURSOR_PROJECT_DIR", "GEMINI_PROJECT_DIR"];
  const env = { ...process.env, ...Object.fromEntries(variables.map((name) => [name, root])) };
  return new Promise((resolve) => {
    const child = spawn("sh", ["-c", command], {
      cwd: root,
      env,
      timeout: LONGEST_MS,
      killSignal: "SIGKILL",
    });
    const said = { out: "", err: "" };
    child.stdout.on("data", (chunk) => {
      said.out += String(chunk);
    });
    child.stderr.on("data", (chunk) => {
      said.err += String(chunk);
    });
    const end = (code: number | null): void =>
      resolve({ code, ...said, ms: Math.round(performance.now() - since) });
    child.on("error", (error) => {
      said.err += error.message;
      end(null);
    });
    child.on("close", end);
    // One that does not read its input closes it.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
  });
}

interface Server {
  readonly command: string;
  readonly args: readonly string[];
}

function serverIn(config: unknown): Server | null {
  const { mcpServers } = (config ?? {}) as { mcpServers?: { holdfast?: unknown } };
  return isOurServer(mcpServers?.holdfast) ? (mcpServers?.holdfast as Server) : null;
}

interface Heard {
  readonly problem: string | null;
  readonly tools: number;
  readonly ms: number;
}

/** Several agents that start it in the same way share one start. */
async function proveServer(
  root: string,
  agent: AgentName,
  path: string,
  server: Server,
  servers: Map<string, Promise<Heard>>,
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

/** One line of JSON per message, as MCP over stdio has it. */
function askServer(root: string, { command, args }: Server): Promise<Heard> {
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
    const hear = (line: string): void => {
      const message = parsed(line);
      if (message === null) end(`it printed what is not MCP: ${line.slice(0, 80)}`);
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
      for (const line of lines) if (line.trim() !== "") hear(line);
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
