// A chat in real processes on one SQLite file: two servers at once, and servers that are killed.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { open } from "../../../../src/index.ts";
import { programFile } from "../../../program.ts";
import { quickFolder } from "../../../quick-folder.ts";
import { IS_SDK_7 } from "../paying-model.ts";

// Each start of Node takes a second, and ten on a busy machine.
vi.setConfig({ testTimeout: 300_000 });

const PROGRAM = programFile(
  new URL("../programs/chat-server.ts", import.meta.url),
  IS_SDK_7 ? "ai-sdk-7" : "agents",
);

let folder: string;
let running: ChildProcess[] = [];
const inFolder = (name: string): string => join(folder, name);

beforeEach(() => {
  folder = mkdtempSync(join(quickFolder(), "holdfast-chat-"));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map(killed));
  rmSync(folder, { recursive: true, force: true });
});

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const closed = once(child, "exit");
  child.kill("SIGKILL");
  await closed;
}

interface Server {
  readonly child: ChildProcess;
  readonly api: string;
}

async function start(failpoint?: string): Promise<Server> {
  const env = { ...process.env, ...(failpoint !== undefined && { HOLDFAST_FAILPOINT: failpoint }) };
  const args = [PROGRAM, inFolder("chat.db"), inFolder("payments"), inFolder("gate")];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], env });
  running = [...running, child];
  const [port] = (await once(createInterface(child.stdout), "line")) as [string];
  return { child, api: `http://127.0.0.1:${port}/api/chat` };
}

const send = ({ api }: Server, id: string, text: string): Promise<Response> => {
  const message = { id, role: "user", parts: [{ type: "text", text }] };
  return fetch(api, { method: "POST", body: JSON.stringify({ id: "1", message }) });
};

const resume = ({ api }: Server): Promise<Response> => fetch(`${api}/1/stream`);

/** The words in a stream of chunks. */
const words = (events: string): string =>
  [...events.matchAll(/"delta":"([^"]*)"/g)].map(([, delta]) => delta).join("");

async function* eventsOf(response: Response): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let events = "";
  for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
    events += decoder.decode(bytes, { stream: true });
    yield events;
  }
}

test("a reader in one server follows the answer under way in another", async () => {
  const [one, other] = await Promise.all([start(), start()]);
  const asked = eventsOf(await send(one, "m1", "Count."));
  let heard = "";
  while (words(heard) !== "one ") heard = (await asked.next()).value as string;
  let seen = "";
  for await (const events of eventsOf(await resume(other))) {
    seen = events;
    if (words(events) === "one ") writeFileSync(inFolder("gate"), "");
  }
  expect(words(seen)).toBe("one two");
  expect(seen).toContain('"type":"finish"');
  for await (const events of asked) heard = events;
  expect(words(heard)).toBe("one two");
  expect((await resume(other)).status).toBe(204);
});

/** Starts a server that dies at the failpoint, and waits for that. */
async function dies(failpoint: string, ask: (server: Server) => Promise<Response>): Promise<void> {
  const server = await start(failpoint);
  const exited = once(server.child, "exit");
  await ask(server)
    .then((response) => response.text())
    .catch(() => undefined);
  expect([failpoint, await exited]).toEqual([failpoint, [null, "SIGKILL"]]);
}

test("killed anywhere while a call is set aside: one payment, and its outcome is told once", async () => {
  // The provisional result is durable, and the model has not seen it.
  await dies("results.appended", (server) => send(server, "m1", "Pay 20."));
  const first = await start();
  expect(words(await (await resume(first)).text())).toBe("It waits.");
  expect(words(await (await send(first, "m2", "The weather?")).text())).toBe("Sunny.");
  await killed(first.child);
  const holdfast = await open(inFolder("chat.db"));
  await holdfast.calls.approve("c1", { by: "ann" });
  // Before the effect, after it, with its outcome known and not queued, and with the outcome delivered.
  for (const failpoint of ["call.starts", "call.executed", "call.settled", "model.answered"])
    await dies(failpoint, resume);
  const last = await start();
  expect(words(await (await resume(last)).text())).toBe("Now it is paid.");
  expect((await resume(last)).status).toBe(204);
  expect(readFileSync(inFolder("payments"), "utf8")).toBe("20\n");
  const { messages, openCalls } = await holdfast.sessions.get("chat-1");
  expect(messages.filter(({ id }) => id === "outcome:c1")).toHaveLength(1);
  expect(openCalls).toBe(0);
  await holdfast.close();
});
