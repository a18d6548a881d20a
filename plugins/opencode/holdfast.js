// Holdfast for opencode: a briefing at the start of a session, edited files, the end of a turn; the MCP server, the
// commands and the skill. Load it in opencode.json: { "plugin": ["./node_modules/holdfast/plugins/opencode/holdfast.js"] }

import { spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const folder = dirname(fileURLToPath(import.meta.url));
const launcher = join(folder, "bin", "holdfast.sh");
const EDITS = ["write", "edit", "multiedit", "patch", "apply_patch", "bash"];

export const Holdfast = async ({ directory, worktree }) => {
  const briefings = new Map();

  /** Runs a hook with an event, and resolves to its answer. A hook that fails says nothing. */
  const hook = (event, input) =>
    new Promise((resolve) => {
      const child = spawn("sh", [launcher, "hook", "opencode", event], {
        cwd: worktree ?? directory,
        stdio: ["pipe", "pipe", "ignore"],
      });
      let out = "";
      child.stdout.on("data", (text) => {
        out += text;
      });
      child.on("error", () => resolve(null));
      child.on("close", () => resolve(out));
      child.stdin.on("error", () => undefined);
      child.stdin.end(JSON.stringify({ cwd: directory, ...input }));
    });

  const toolEvent = (tool, session, call, args) => ({
    session_id: session,
    tool_use_id: call,
    tool_name: tool,
    tool_input: { file_path: args?.filePath, command: args?.command, patch: args?.patchText },
  });

  /** The briefing of a session, asked for once. */
  const briefing = (session) => {
    if (!briefings.has(session))
      briefings.set(
        session,
        hook("session-start", { session_id: session, source: "startup" }).then((out) => {
          try {
            return JSON.parse(out).hookSpecificOutput?.additionalContext ?? null;
          } catch {
            // No output: the project does not use Holdfast.
            return null;
          }
        }),
      );
    return briefings.get(session);
  };

  // opencode has no event for its own end. A process that is killed does not get here: that is a crash.
  process.once("exit", () => {
    for (const session of briefings.keys())
      spawnSync("sh", [launcher, "hook", "opencode", "session-end"], {
        cwd: worktree ?? directory,
        input: JSON.stringify({ cwd: directory, session_id: session, reason: "exit" }),
      });
  });

  return {
    config: async (config) => {
      config.mcp ??= {};
      config.mcp.holdfast ??= { type: "local", command: ["sh", launcher, "mcp"], enabled: true };
      config.command ??= {};
      for (const file of readdirSync(join(folder, "commands"))) {
        const text = readFileSync(join(folder, "commands", file), "utf8");
        const [, head, template] = /^---\n([\s\S]*?)\n---\n([\s\S]*)$/.exec(text);
        const description = JSON.parse(/^description: (.*)$/m.exec(head)[1]);
        config.command[`holdfast-${file.replace(".md", "")}`] ??= { template: template.trim(), description };
      }
    },
    "experimental.chat.system.transform": async ({ sessionID }, output) => {
      const text = sessionID ? await briefing(sessionID) : null;
      if (text) output.system.push(text);
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      if (EDITS.includes(tool)) await hook("tool-start", toolEvent(tool, sessionID, callID, args));
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
      if (!EDITS.includes(tool)) return;
      const tool_response = { exit_code: output?.metadata?.exit ?? 0 };
      await hook("touched", { ...toolEvent(tool, sessionID, callID, args), tool_response });
    },
    "experimental.session.compacting": async ({ sessionID }, output) => {
      await hook("checkpoint", { session_id: sessionID, trigger: "auto" });
      briefings.delete(sessionID);
      const text = await briefing(sessionID);
      if (text) output.context.push(text);
    },
    event: async ({ event: { type, properties } }) => {
      const session = properties?.sessionID ?? properties?.info?.id;
      if (type === "session.idle") await hook("stop", { session_id: session });
      if (type === "session.error") await hook("stop-failure", { session_id: session, error: type });
      if (type !== "session.deleted") return;
      briefings.delete(session);
      await hook("session-end", { session_id: session, reason: "deleted" });
    },
  };
};
