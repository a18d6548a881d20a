// The command `holdfast ui`: what it prints, what it keeps secret, and that an agent cannot answer through it.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { programFile } from "../program.ts";
import { findBrowser, launchBrowser, putPageBeside } from "./page.ts";

const folder = mkdtempSync(join(tmpdir(), "holdfast-ui-command-"));
const store = join(folder, "store.db");
const cli = programFile("src/cli/main.ts", "command");
const AGENT_VARIABLES = ["CLAUDECODE", "CODEX_SANDBOX", "CURSOR_AGENT", "GEMINI_CLI"];

beforeAll(async () => {
  putPageBeside(cli);
  await (await open(store)).close();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(command: string, args: readonly string[], env: Record<string, string> = {}) {
  const clean = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !AGENT_VARIABLES.includes(name)),
  );
  const child = spawn(command, [...args], {
    env: { ...clean, ...env },
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  let text = "";
  await new Promise<void>((resolve, reject) => {
    child.stdout.on("data", (chunk: Buffer) => {
      text += chunk.toString();
      if (text.endsWith("\n")) resolve();
    });
    child.once("close", () => reject(new Error(`it ended: ${text}`)));
  });
  return { child, text };
}

async function stop(child: ChildProcess): Promise<number | null> {
  const ended = new Promise<number | null>((resolve) => child.once("close", (code) => resolve(code)));
  process.kill(-(child.pid ?? 0), "SIGTERM");
  return ended;
}

const uiArgs = ["ui", "--store", store, "--port", "0", "--json"];
const dataOf = (text: string) =>
  (JSON.parse(text) as { data: { url: string; port: number; readOnly: string | null } }).data;

test("the page learns how its commands are typed", async () => {
  const { child, text } = await start(process.execPath, [cli, ...uiArgs]);
  const { origin, hash } = new URL(dataOf(text).url);
  const answer = await fetch(`${origin}/api/login`, {
    method: "POST",
    headers: { "content-type": "application/json", origin },
    body: JSON.stringify({ token: hash.replace("#token=", "") }),
  });
  expect(await answer.json()).toMatchObject({ typed: { program: "holdfast", store: ` --store ${store}` } });
  await stop(child);
});

test("status --url and calls --url print links into the page", async () => {
  const holdfast = await open(store);
  const session = await holdfast.session("ann@example.com");
  const { tool } = await import("../../src/index.ts");
  const input = {
    "~standard": {
      version: 1 as const,
      vendor: "test",
      validate: (value: unknown) => ({ value }),
      jsonSchema: { input: () => ({}) },
    },
  };
  const refund = { description: "pays back", input, effect: "mutate", needsApproval: true } as const;
  const tools = [tool({ ...refund, name: "refund", execute: () => null })];
  const call = { kind: "tool_call", id: "c_1", name: "refund", args: {} } as const;
  await session.run({
    model: async () => ({ message: { blocks: [call] } }),
    tools,
    prompt: { id: "go", text: "go" },
  });
  await session.close();
  await holdfast.close();
  const shown = (command: string): string =>
    execFileSync(process.execPath, [cli, command, "--url", "--store", store]).toString();
  expect(shown("status")).toContain("http://127.0.0.1:4646/#/inbox\n");
  expect(shown("calls")).toContain("http://127.0.0.1:4646/#/session/ann%40example.com?tab=calls\n");
});

test("it prints an address with a token that no process list shows, and ends on a signal", async () => {
  const { child, text } = await start(process.execPath, [cli, ...uiArgs]);
  const { url, port } = dataOf(text);
  expect((await fetch(`http://127.0.0.1:${port}/`)).status).toBe(200);
  const [, token = ""] = url.split("#token=");
  expect(token).toMatch(/^[\w-]{22}$/);
  const shown = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => commandLine(pid));
  expect(shown.filter((line) => line.includes(token))).toEqual([]);
  expect(await stop(child)).toBe(130);
  await expect(fetch(`http://127.0.0.1:${port}/`)).rejects.toThrow();
});

test.skipIf(findBrowser() === null)(
  "the demo leaves a call to a person, who answers by keyboard",
  async () => {
    const child = spawn(process.execPath, [cli, "demo", "--ui"], {
      env: { ...process.env, HOLDFAST_FAILPOINT: "" },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let said = "";
    const heard = async (wanted: RegExp): Promise<RegExpExecArray> => {
      for (;;) {
        const found = wanted.exec(said);
        if (found) return found;
        const [chunk] = (await once(child.stderr, "data")) as [Buffer];
        said += chunk.toString();
      }
    };
    const [, url = ""] = await heard(/Watch it here: (\S+)\n/);
    const browser = await launchBrowser();
    const tab = await browser.newPage();
    await tab.goto(url);
    await heard(/One call waits for you: http:\/\/127\.0\.0\.1:\d+\/#\/inbox\n/);
    await tab.locator(".row.current", { hasText: "refund" }).waitFor();
    await tab.keyboard.press("a");
    await tab.getByRole("dialog").waitFor();
    await tab.keyboard.type("the parcel came back");
    await tab.keyboard.press("Enter");
    await tab.getByRole("button", { name: "Record approve" }).waitFor();
    await tab.keyboard.press("Enter");
    await heard(/the agent went on: It is paid back\./);
    await browser.close();
    const ended = once(child, "close");
    child.kill("SIGINT");
    await ended;
  },
);

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    // The process has ended meanwhile.
    return "";
  }
}

test.runIf(process.platform === "linux")("below a coding agent it is read only", async () => {
  const programs = join(folder, "bin");
  mkdirSync(programs);
  const claude = join(programs, "claude");
  writeFileSync(claude, `#!/bin/sh\n"$@"\nexit $?\n`, { mode: 0o755 });
  const { child, text } = await start(claude, [process.execPath, cli, ...uiArgs]);
  expect(dataOf(text).readOnly).toMatch(/^claude \(pid \d+\) started it/);
  await stop(child);
  const named = await start(process.execPath, [cli, ...uiArgs], { CLAUDECODE: "1" });
  expect(dataOf(named.text).readOnly).toMatch(/CLAUDECODE/);
  await stop(named.child);
});
