/**
 * Trial 1: run a long session, kill the process after turn 4, start it again. The new process loads the
 * transcript. Each of the three side effects in flight is settled by its class: verified, run again safely,
 * or left to a person.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Block, landed, type Model, never, open, type Tool, tool } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const [, script, role, folderOfAgent = ""] = process.argv;

// ── The agent: an ordinary program that is killed once ─────────────────────────────────────────────────────

function linesIn(folder: string, file: string): string[] {
  const path = join(folder, file);
  return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
}

function toolsFor(folder: string, firstLife: boolean): Tool[] {
  const input = z.object({ text: z.string() });
  /** The effect happens. In the first life its answer never arrives. */
  const effect = async (file: string, text: string): Promise<string> => {
    appendFileSync(join(folder, file), `${text}\n`);
    if (firstLife) process.send?.("under way");
    // The timer keeps the process alive while it waits.
    if (firstLife) await new Promise(() => setInterval(() => undefined, 1_000));
    return `done: ${text}`;
  };
  const note = tool({
    name: "note",
    description: "Take a note",
    effect: "write",
    input,
    execute: ({ text }) => `noted: ${text}`,
  });
  const mail = tool({
    name: "mail",
    description: "Send a mail; the outbox can be looked into",
    effect: "mutate",
    input,
    execute: ({ text }) => effect("outbox", text),
    verify: ({ text }) => (linesIn(folder, "outbox").includes(text) ? landed(`found: ${text}`) : never()),
  });
  const index = tool({
    name: "index",
    description: "Put something into an index, which knows it already",
    effect: "mutate",
    input,
    idempotent: true,
    execute: ({ text }) => effect("index", text),
  });
  const fax = tool({
    name: "fax",
    description: "Send a fax; nobody can ask the machine what it did",
    effect: "mutate",
    input,
    execute: ({ text }) => effect("fax", text),
  });
  return [note, mail, index, fax];
}

const model: Model = async ({ messages }) => {
  const turn = messages.filter((message) => message.role === "assistant").length + 1;
  const call = (name: string, n = 0): Block => {
    return { kind: "tool_call", id: `turn-${turn}.${n}`, name, args: { text: `${name} of turn ${turn}` } };
  };
  if (turn <= 4) return { message: { blocks: [call("note")] } };
  if (turn === 5) return { message: { blocks: [call("mail", 1), call("index", 2), call("fax", 3)] } };
  return { message: { text: "All five turns are done." } };
};

async function agent(folder: string): Promise<void> {
  const holdfast = await open(join(folder, "store.db"), { leaseMs: 2_000 });
  const session = await holdfast.session("long-session");
  const { resumed } = session;
  const tools = toolsFor(folder, resumed === null);
  if (resumed)
    console.log(
      `resumed: ${resumed.messages} messages, version ${resumed.version}, under way ${resumed.interrupted.length}`,
    );
  const result = await session.run({ model, tools, prompt: "Do the five turns." });
  console.log(`${result.status}${result.text && `: ${result.text}`}`);
  await holdfast.close();
  process.disconnect?.();
}

// ── The trial ──────────────────────────────────────────────────────────────────────────────────────────────

/** Runs the agent. With `killAt`, kills it once that many of its side effects are in flight. */
async function live(folder: string, killAt = Number.POSITIVE_INFINITY): Promise<void> {
  const args = [...process.execArgv, script ?? "", "agent", folder];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  let underWay = 0;
  child.on("message", () => {
    underWay++;
    if (underWay === killAt) child.kill("SIGKILL");
  });
  const [code, signal] = await once(child, "exit");
  if (code) throw new Error(`the agent ended with code ${code}`);
  if (signal) console.log(`killed (${signal}) in turn 5 with ${underWay} calls under way`);
}

async function trial(): Promise<void> {
  const folder = temporaryFolder();
  await live(folder, 3);
  const holdfast = await open(join(folder, "store.db"));
  const before = await holdfast.sessions.get("long-session");
  await live(folder);
  const after = await holdfast.sessions.get("long-session");
  for (const { tool: name, status, settledBy, attempt } of after.calls.filter(
    (call) => call.effect === "mutate",
  )) {
    console.log(
      `  ${name.padEnd(6)} ${status}, ${settledBy ? `by ${settledBy}` : "not guessed"}, attempt ${attempt}`,
    );
  }
  const { calls } = await holdfast.calls.list();
  for (const call of calls) {
    await holdfast.calls.resolve(call, { outcome: "landed", by: "Ada", why: "the fax is on paper" });
    console.log(`a person answers ${call.tool}: landed`);
  }
  await live(folder);
  const end = await holdfast.sessions.get("long-session");
  const prefix = end.messages.slice(0, before.messages.length);
  console.log(
    `transcript before the kill is unchanged: ${JSON.stringify(prefix) === JSON.stringify(before.messages)}`,
  );
  console.log(`mail sent ${linesIn(folder, "outbox").length}×, fax sent ${linesIn(folder, "fax").length}×`);
  await holdfast.close();
}

if (role === "agent" && script === fileURLToPath(import.meta.url)) await agent(folderOfAgent);
else await trial();
