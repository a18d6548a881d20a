/**
 * Tests the wiring from the agents' side: runs our hooks, starts the MCP server, lists its tools.
 *
 * Settings come from git, so any contributor may have written them, and an agent would ask before it ran
 * them. Only commands that `init` itself would write on this machine are run. All others are reported.
 */

import { execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { isHoldfastError } from "../model/errors.ts";
import { AGENT_TABLE, type AgentName, isOurPlugin, isOurServer } from "./agents.ts";
import { jsonValue } from "./json-file.ts";
import type { Launching } from "./launch.ts";
import { commandsIn, hasTheirServer, SERVER_TABLE, serverIn } from "./plan.ts";
import { outputProblem, sampleInput } from "./sample-input.ts";
import { tomlValue } from "./toml-file.ts";

export { untrustedAgents } from "./trust.ts";

export interface Finding {
  readonly agent: AgentName;
  readonly what: string;
  readonly ok: boolean;
  readonly detail: string;
  readonly ms: number | null;
}

const LONGEST_MS = 20_000;
const THEIRS = "its MCP server holdfast is your own, so ours is not wired";

export interface Proving {
  readonly root: string;
  /** How `init` would wire this project on this machine. Nothing else is run. */
  readonly launch: Launching;
  read(path: string): string | null;
}

export async function proveWiring(proving: Proving, agents: readonly AgentName[]): Promise<Finding[]> {
  // All agents start the same server, so one start serves them.
  let asking: Promise<ServerAnswer> | undefined;
  const ask = (): Promise<ServerAnswer> => {
    asking ??= askServer(proving.root, proving.launch.mcp);
    return asking;
  };
  return (await Promise.all(agents.map((agent) => proveAgent(proving, agent, ask)))).flat();
}

async function proveAgent(
  proving: Proving,
  agent: AgentName,
  ask: () => Promise<ServerAnswer>,
): Promise<Finding[]> {
  const { launch, read } = proving;
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
      const wanted = file.wanted(launch);
      const { plugin } = wanted as { plugin?: readonly string[] };
      if (plugin) {
        findings.push(...(await provePlugin(proving, agent, path, { config, wanted: plugin[0] ?? "" })));
        if (findings.every(({ ok }) => ok)) findings.push(await proveServer(agent, path, ask));
        continue;
      }
      const wantsHooks = "hooks" in wanted;
      if (wantsHooks) {
        const { ours, others } = sortCommands(config, wanted);
        findings.push(...others.map((each) => bad(notRun(`the hook ${shown(each)}`, launch))));
        if (launch.untrusted !== null) findings.push(bad(launch.untrusted));
        else findings.push(...(await proveHooks(proving.root, agent, path, ours)));
      }
      const server = serverIn(config);
      if (isOurServer(server)) {
        if (!isSameServer(server as Server, launch.mcp)) {
          findings.push(bad(notRun(`the MCP server ${shown(serverWords(server as Server))}`, launch)));
        } else if (launch.untrusted !== null) findings.push(bad(launch.untrusted));
        else findings.push(await proveServer(agent, path, ask));
      } else if (!wantsHooks || agent === "gemini")
        findings.push(
          bad(hasTheirServer(text, file) ? THEIRS : "names no MCP server holdfast: holdfast init"),
        );
    } catch (error) {
      findings.push(bad((error as Error).message));
    }
  }
  return findings;
}

/** A plugin calls our hooks itself: the file must name ours, and the hooks must answer. */
async function provePlugin(
  { root, launch }: Proving,
  agent: AgentName,
  path: string,
  { config, wanted }: { readonly config: unknown; readonly wanted: string },
): Promise<Finding[]> {
  const bad = (detail: string): Finding[] => [{ agent, what: path, ok: false, detail, ms: null }];
  const { plugin } = (config ?? {}) as { plugin?: unknown };
  const named: unknown[] = Array.isArray(plugin) ? plugin.filter(isOurPlugin) : [];
  const other = named.find((each) => each !== wanted);
  if (other !== undefined) return bad(notRun(`the plugin ${shown(String(other))}`, launch));
  if (named.length === 0) return bad("names no plugin of ours: holdfast init");
  if (!existsSync(resolve(root, wanted))) return bad(`${wanted} is not there: npm install holdfast`);
  if (launch.untrusted !== null) return bad(launch.untrusted);
  const commands = PLUGIN_EVENTS.map((event) => `${launch.shell(agent)} hook ${agent} ${event}`);
  return proveHooks(root, agent, path, commands);
}

/** The events that `plugins/opencode/holdfast.js` reports. */
const PLUGIN_EVENTS = [
  "session-start",
  "tool-start",
  "touched",
  "checkpoint",
  "stop",
  "stop-failure",
  "session-end",
];

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

/** Commands that look like ours, split by whether `init` would write exactly them. */
function sortCommands(config: unknown, wanted: unknown): { ours: string[]; others: string[] } {
  const written = new Set(commandsIn(wanted));
  const found = [...new Set(commandsIn(config))];
  return {
    ours: found.filter((each) => written.has(each)),
    others: found.filter((each) => !written.has(each)),
  };
}

function isSameServer(server: Server, { command, args }: Server): boolean {
  return JSON.stringify([server.command, server.args]) === JSON.stringify([command, args]);
}

function serverWords({ command, args }: Server): string {
  return [command, ...args].map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join(" ");
}

/** Text of a file that anybody may have written, on one line. */
function shown(text: string): string {
  return JSON.stringify(text.length > 160 ? `${text.slice(0, 160)}…` : text);
}

function notRun(what: string, { typed }: Launching): string {
  return (
    `${what} is not what init writes on this machine, so it was not run. ` +
    `Replace it: ${typed} init. If init was given --command, give it to --check too`
  );
}

async function proveHooks(
  root: string,
  agent: AgentName,
  path: string,
  commands: readonly string[],
): Promise<Finding[]> {
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

async function proveServer(
  agent: AgentName,
  path: string,
  ask: () => Promise<ServerAnswer>,
): Promise<Finding> {
  const { problem, tools, ms } = await ask();
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
