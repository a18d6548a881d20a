// The proxy in normal operation: what it forwards, records, reports and rejects.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { readProxyConfig } from "../../src/mcp/index.ts";
import { runInside } from "../cli/inside.ts";
import { type Connected, Programs, Project, textOf } from "./mcp-project.ts";

const CONFIG = `
session: behind
tools:
  find: read
  ask: { effect: mutate }
  send: { effect: mutate, dedupe: session }
  keyed: { dedupe: { scope: session, key: "only:{{args.id}}" } }
  fail: { errors: failed }
  slow: { cancel: finish }
  add:
    verify: { tool: find, args: { id: "{{args.id}}" }, landed: { contains: "found 1" } }
`;

let programs: Programs;
let project: Project;
let proxy: Connected;
/** Starts while the session is held and waits for it. The other tests run meanwhile. */
let second: Promise<Connected>;
let progress = 0;
let listChanges = 0;

function client(): Client {
  const made = new Client(
    { name: "agent", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} }, roots: {} } },
  );
  made.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { yes: true } }));
  made.setNotificationHandler("notifications/tools/list_changed", async () => {
    listChanges += 1;
  });
  return made;
}

function command(...more: string[]): string[] {
  return [
    programs.cli,
    "mcp",
    "proxy",
    "--config",
    join(project.folder, "tools.yaml"),
    ...more,
    "--",
    ...programs.counting,
  ];
}

async function holdfast(...args: string[]): Promise<string> {
  const { code, out, err } = await runInside(project.folder, args);
  expect(code, err).toBe(0);
  return out;
}

const call = (name: string, id: string, options?: object) =>
  proxy.client.callTool({ name, arguments: { id } }, options as never);
const count = (effect: string): number => project.effects().filter((each) => each === effect).length;
/** Awaited, however slow the machine is. */
const soon = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 50_000, interval: 20 });
/** Ends a call of the tool that waits for the test. */
const finish = (id: string): void => appendFileSync(`${project.effectsLog}.${id}`, "");

beforeAll(async () => {
  programs = await Programs.build();
  project = new Project();
  project.write("tools.yaml", CONFIG);
  proxy = await project.connect(command(), { client: client() });
  second = project.connect(command());
  second.catch(() => undefined);
});
afterAll(async () => {
  await proxy.close();
  project.remove();
  programs.remove();
});

describe("forwarded unchanged", () => {
  test("tools, resources, prompts and reads", async () => {
    const { tools } = await proxy.client.listTools();
    expect(tools.map(({ name }) => name)).toContain("add");
    expect(proxy.client.getServerVersion()).toMatchObject({ name: "counting" });
    expect((await proxy.client.listResources()).resources.map(({ uri }) => uri)).toEqual(["effects://log"]);
    expect((await proxy.client.listResourceTemplates()).resourceTemplates).toHaveLength(1);
    await proxy.client.readResource({ uri: "effects://log" });
    const { messages } = await proxy.client.getPrompt({ name: "hello", arguments: { name: "Ann" } });
    expect(JSON.stringify(messages)).toContain("hello Ann");
    expect(textOf(await call("find", "nothing"))).toBe("found 0");
  });

  test("progress, and questions of the server during a call", async () => {
    const slow = call("slow", "p", { onprogress: () => (progress += 1) });
    await soon(() => expect(progress).toBeGreaterThan(1));
    finish("p");
    expect(textOf(await slow)).toBe("slow p done");
    expect(textOf(await call("ask", "q"))).toBe("accept");
  });

  test("notifications of the server", async () => {
    await call("grow", "g");
    await soon(() => expect(listChanges).toBeGreaterThan(0));
  });
});

describe("repeats of a call", () => {
  test("two calls in sequence are two calls", async () => {
    expect(textOf(await call("add", "twice"))).toMatch(/^add twice: line \d+$/);
    expect(textOf(await call("add", "twice"))).toMatch(/^add twice: line \d+\n.holdfast. The same call ran/);
    expect(count("add twice")).toBe(2);
  });

  test("two identical calls in flight run once, and both get a note", async () => {
    const both = [call("slow", "s"), call("slow", "s")];
    await soon(() => expect(count("slow s")).toBe(1));
    finish("s");
    const texts = (await Promise.all(both)).map(textOf);
    expect(count("slow s")).toBe(1);
    expect(texts.filter((text) => text.includes("It ran once"))).toHaveLength(1);
  });

  test("dedupe: session runs a call once and marks the replays", async () => {
    await call("send", "once");
    expect(textOf(await call("send", "once"))).toContain("Not run again");
    expect(count("send once")).toBe(1);
  });

  test("an explicit key overrides the other arguments", async () => {
    const first = await proxy.client.callTool({ name: "keyed", arguments: { id: "o1", key: "a" } });
    const second = await proxy.client.callTool({ name: "keyed", arguments: { id: "o1", key: "b" } });
    expect(textOf(first)).toBe("keyed o1");
    expect(textOf(second)).toContain("Not run again");
  });

  test("a cancelled call is cancelled at the server too, and its outcome is unknown", async () => {
    const enough = new AbortController();
    const given = call("stoppable", "x", { signal: enough.signal });
    await soon(() => expect(count("stoppable x")).toBe(1));
    enough.abort(new Error("not any more"));
    await expect(given).rejects.toThrow();
    await soon(() => expect(count("stopped x")).toBe(1));
    expect(textOf(await call("stoppable", "x"))).toMatch(/the client cancelled it.*waits for a person/);
    expect(count("stoppable x")).toBe(1);
  });

  test("with cancel: finish the call completes, and a repeat gets the recorded answer", async () => {
    const enough = new AbortController();
    const slow = call("slow", "c", { signal: enough.signal });
    await soon(() => expect(count("slow c")).toBe(1));
    enough.abort(new Error("too slow"));
    await expect(slow).rejects.toThrow();
    finish("c");
    const again = await call("slow", "c");
    expect(textOf(again)).toContain("slow c done");
    expect(textOf(again)).toMatch(/Not run again|It ran once/);
    expect(count("slow c")).toBe(1);
  });
});

describe("an unknown outcome", () => {
  test("a server that dies in a call is restarted; without verify the call waits for a person", async () => {
    const other = await project.connect(command("--session", "dying"), {
      env: { SERVER_FAULT: "self-after" },
    });
    const send = () => other.client.callTool({ name: "send", arguments: { id: "w" } });
    const answer = await send();
    expect(answer.isError).toBe(true);
    expect(textOf(answer)).toMatch(/waits for a person/);
    expect(count("send w")).toBe(1);
    // The next server already has the client's handshake.
    expect(textOf(await other.client.callTool({ name: "find", arguments: { id: "w" } }))).toBe("found 1");
    expect(textOf(await send())).toMatch(/waits for a person/);
    expect(count("send w")).toBe(1);
    const callId = /resolve (mcp_\S+)/.exec(textOf(answer))?.[1] ?? "";
    expect(await holdfast("calls")).toContain(callId);
    await holdfast(
      "resolve",
      callId,
      "landed",
      "--result",
      '"sent, says the mail log"',
      "--by",
      "ann",
      "--why",
      "seen it",
    );
    // The same call, settled. Then one more like it, which the ledger recognises as a repeat.
    for (const settled of [await send(), await send()]) {
      expect(settled.isError).toBeFalsy();
      expect(textOf(settled)).toContain("sent, says the mail log");
      expect(textOf(settled)).toContain("ann confirmed that it took effect: seen it");
    }
    expect(count("send w")).toBe(1);
    await other.close();
  });

  test("with verify the outcome is found, and the agent gets an answer", async () => {
    const env = { SERVER_FAULT: "self-after", FAULT_NAME: "verified" };
    const other = await project.connect(command("--session", "verified"), { env });
    const answer = await other.client.callTool({ name: "add", arguments: { id: "v" } });
    expect(existsSync(`${project.effectsLog}.verified`)).toBe(true);
    expect(answer.isError).toBeFalsy();
    expect(textOf(answer)).toContain("found 1");
    expect(count("add v")).toBe(1);
    await other.close();
  });

  test("a tool's own error is forwarded, and the call may be repeated", async () => {
    const answer = await call("fail", "f");
    expect(answer).toMatchObject({ isError: true, content: [{ type: "text", text: "no f today" }] });
    await expect(call("no-such-tool", "f")).rejects.toThrow(/no-such-tool/);
  });
});

test("without a handshake calls run, repeats are recognised, and notes are valid", async () => {
  const modern = new Client(
    { name: "modern", version: "1.0.0" },
    { versionNegotiation: { mode: { pin: "2026-07-28" } } },
  );
  const other = await project.connect(command("--session", "modern"), { client: modern });
  const ask = (name: string, id: string) => modern.callTool({ name, arguments: { id } });
  expect(textOf(await ask("add", "m"))).toMatch(/^add m/);
  expect(textOf(await ask("add", "m"))).toMatch(/^add m/);
  expect(count("add m")).toBe(2);
  await ask("send", "m");
  expect(textOf(await ask("send", "m"))).toContain("Not run again");
  await other.close();
  const session = (await project.sessions()).find(({ id }) => id === "modern");
  const delivered = Object.entries(session?.metadata ?? {}).filter(([name]) =>
    name.startsWith("mcp.delivered."),
  );
  expect(delivered.map(([, number]) => number)).toEqual([2]);
});

test("a second proxy lists its tools, and names the holder of the session on stderr", async () => {
  const { client, close } = await second;
  expect((await client.listTools()).tools).not.toEqual([]);
  await close();
  await soon(() => expect(project.said()).toMatch(/session behind is held by mcp proxy of node/));
});

test.each([
  ["tools: { a: sometimes }", /\$\.tools\.a/],
  ["tools: { a: { effect: mutate, retry: 3 } }", /\$\.tools\.a.*retry/],
  ["tools: { a: { settle: soon } }", /\$\.tools\.a\.settle: is not a duration/],
  [
    "tools: { a: { verify: { tool: b, landed: { contains: x } } } }",
    /verify\.tool: b is not declared as read/,
  ],
  ["tools: { b: read, a: { verify: { tool: b, landed: {} } } }", /landed: is empty/],
  ["tools: { b: read, a: { verify: { tool: b, landed: { contains: '{{arg.x}}' } } } }", /a placeholder is/],
  ["tools: { b: read, a: { verify: { tool: b, landed: { matches: '(' } } } }", /is not a regular expression/],
  ["tools: { a: { effect: read, idempotent: true } }", /idempotent: is not for a read/],
  ["tools: { a: { effect: write, dedupe: global } }", /dedupe: a write cannot be deduplicated/],
  ["tools: { a: { keyArgument: key } }", /keyArgument: needs idempotent/],
  ["tools: [", /bad\.yaml/],
])("an invalid configuration is rejected with its path and the rule: %s", async (text, rule) => {
  await expect(readProxyConfig(project.write("bad.yaml", text))).rejects.toThrow(rule);
});

test("the configuration in docs/guides/mcp-proxy.md is valid and means what the page says", async () => {
  const page = readFileSync(new URL("../../docs/guides/mcp-proxy.md", import.meta.url), "utf8");
  const shown = /```yaml\n([\s\S]*?)```/.exec(page)?.[1] ?? "";
  const config = await readProxyConfig(project.write("shown.yaml", shown));
  expect(config.ruleFor("read_text_file").effect).toBe("read");
  expect(config.ruleFor("pay")).toMatchObject({
    effect: "mutate",
    idempotent: { forMs: 23 * 3_600_000 },
    cancel: "finish",
  });
  expect(config.ruleFor("nobody-described-it")).toMatchObject({ effect: "mutate", dedupe: "delivered" });
});
