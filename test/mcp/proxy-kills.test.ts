// The proxy is killed with SIGKILL at every point in the life of a call. The agent never gets its answer and
// repeats the call to a new proxy, which neither loses nor doubles it. The server counts the effects.
//
// The new proxy runs inside this process. It runs as a process with HOLDFAST_FULL=1 and for the server from
// npm.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import type { MovedRow, Page } from "../../src/store.ts";
import { connectInside } from "./in-process-proxy.ts";
import { Programs, Project, textOf } from "./mcp-project.ts";
import { findProblems } from "./proxy-checker.ts";
import { serverText } from "./raw-proxy.ts";

const FILESYSTEM = fileURLToPath(
  new URL("../../node_modules/@modelcontextprotocol/server-filesystem/dist/index.js", import.meta.url),
);

const CONFIG = `
tools:
  find: read
  read_text_file: read
  add:
    effect: mutate
    settle: 1s
    verify:
      tool: find
      args: { id: "{{args.id}}" }
      landed: { contains: "found 1" }
  keyed: { idempotent: true, keyArgument: key }
  edit_file:
    effect: mutate
    settle: 1s
    verify:
      tool: read_text_file
      args: { path: "{{args.path}}" }
      landed: { equals: "xx" }
      result: { content: "edited" }
`;

/** Starting processes is slow. `HOLDFAST_FULL=1` also kills at the points that are left out here. */
const isFull = process.env["HOLDFAST_FULL"] === "1";

/** Acts like the counting server for these two tools, and loads faster. */
const SMALL = serverText(`
  if (m.method !== "tools/call") return;
  const { name, arguments: { id } } = m.params;
  if (name === "add") effect("add " + id);
  const lines = fs.existsSync(here("effects.log")) ? fs.readFileSync(here("effects.log"), "utf8").trim().split("\\n") : [];
  ok(m.id, name === "add" ? "add " + id + ": line " + lines.length : "found " + lines.filter((each) => each.split(" ")[1] === id).length);
`);

let programs: Programs;
let project: Project;
beforeAll(async () => {
  programs = await Programs.build();
});
afterAll(() => programs.remove());
beforeEach(() => {
  project = new Project();
  project.write("tools.yaml", CONFIG);
});
afterEach(() => project.remove());

function proxyOf(server: readonly string[]): string[] {
  return [programs.cli, "mcp", "proxy", "--config", join(project.folder, "tools.yaml"), "--", ...server];
}

/** The proxy that replaces the killed one. */
async function next(server: readonly string[]): ReturnType<typeof connectInside> {
  if (isFull) return { ...(await project.connect(proxyOf(server))), hasRead: Promise.resolve() };
  return connectInside(project, { command: server, config: join(project.folder, "tools.yaml") });
}

async function callsOf(): Promise<Parameters<typeof findProblems>[0]["calls"]> {
  return (await project.sessions()).flatMap(({ calls }) => calls);
}

interface Fault {
  readonly name: string;
  readonly env: Readonly<Record<string, string>>;
  /** Evidence that the fault fired. */
  readonly fired: () => boolean;
  /** The answer was already on its way to the client. */
  readonly answered?: true;
  /** The server kills the proxy. */
  readonly isByServer?: true;
}

const at = (point: string): Fault => ({
  name: point,
  env: { HOLDFAST_FAILPOINT: point },
  fired: () => project.passed().at(-1) === `${point}:1`,
});

const AROUND_THE_LEDGER: readonly Fault[] = [
  at("wave.planned"),
  at("wave.issued"),
  at("mcp.forwarded"),
  at("call.executed"),
  at("call.recorded"),
  { ...at("mcp.replied"), answered: true },
];
/** Issue, forward, answer, record, reply: a kill between each two of them. */
const ON_THE_WAY = AROUND_THE_LEDGER.slice(1, 5);
const FROM_THE_SERVER: readonly Fault[] = ["before", "after"].map((when) => ({
  name: `by the server, ${when} its effect`,
  env: { SERVER_FAULT: `parent-${when}` },
  fired: () => readFileSync(`${project.effectsLog}.fault`, "utf8") === "x",
  isByServer: true,
}));

describe("a call whose proxy is killed takes effect once", () => {
  test.each([...AROUND_THE_LEDGER, ...FROM_THE_SERVER.slice(isFull ? 0 : 1)])(
    "$name",
    async ({ env, fired, answered, isByServer }) => {
      const small = [process.execPath, "-e", SMALL, project.folder];
      const server = isFull || isByServer ? programs.counting : small;
      const call = { name: "add", arguments: { id: "a" } };

      const first = await project.connect(proxyOf(server), { env });
      const lost = first.client.callTool(call);
      if (answered) expect(textOf(await lost)).toBe("add a: line 1");
      else await expect(lost).rejects.toThrow();
      await first.gone;
      expect(fired()).toBe(true);

      const second = await next(server);
      const answer = await second.client.callTool(call);
      expect(answer.isError).toBeFalsy();
      expect(
        findProblems({ effects: project.effects(), calls: await callsOf(), meant: { "add a": 1 } }),
      ).toEqual([]);

      // Without a pipe, the next call would overtake the signal that the answer was read.
      await second.hasRead;
      // The answer has arrived, so the same call is a new one and has its effect.
      expect(textOf(await second.client.callTool(call))).toMatch(
        /^add a: line 2\n.holdfast. The same call ran/,
      );
      await second.close();
      const calls = await callsOf();
      expect(findProblems({ effects: project.effects(), calls, meant: { "add a": 2 } })).toEqual([]);
      expect(calls.map(({ status }) => status)).toEqual(["completed", "completed"]);
    },
  );
});

const LARGE_BYTES = 16 << 20;

/** Has one effect, then answers with 16 MB. */
const LARGE = serverText(`
  if (m.method !== "tools/call") return;
  const { name, arguments: { id } } = m.params;
  const log = () => (fs.existsSync(here("effects.log")) ? fs.readFileSync(here("effects.log"), "utf8") : "");
  if (name === "find") return ok(m.id, "found " + (log().includes("add " + id) ? 1 : 0));
  effect("add " + id);
  const line = Buffer.from(
    JSON.stringify({ jsonrpc: "2.0", id: m.id, result: { content: [{ type: "text", text: "x".repeat(${LARGE_BYTES}) }] } }) + "\\n",
  );
  for (let from = 0; from < line.length; ) from += fs.writeSync(1, line, from, Math.min(1 << 20, line.length - from));
`);

describe("a result of 16 MB is stored once, as an artifact to which the ledger refers", () => {
  const kills: readonly (readonly [Fault, string])[] = [
    // Durable bytes to which nothing refers yet: the call is verified, and its answer is lost.
    [at("result.stored"), "It took effect; its own answer was lost"],
    [at("call.recorded"), "This is the recorded answer of call"],
  ];
  test.each(kills.map(([fault, says]) => [fault.name, fault, says] as const))(
    "killed at %s",
    async (_, { env, fired }, says) => {
      const server = [process.execPath, "-e", LARGE, project.folder];
      const call = { name: "add", arguments: { id: "a" } };
      const first = await project.connect(proxyOf(server), { env });
      await expect(first.client.callTool(call)).rejects.toThrow();
      await first.gone;
      expect(fired()).toBe(true);

      const second = await next(server);
      const text = textOf(await second.client.callTool(call));
      expect(text.slice(-1_000)).toContain(says);
      if (says.startsWith("This")) expect(text.startsWith("x".repeat(LARGE_BYTES))).toBe(true);
      await second.hasRead;
      await second.close();
      const calls = await callsOf();
      expect(findProblems({ effects: project.effects(), calls, meant: { "add a": 1 } })).toEqual([]);
      const { artifacts, written } = await stored();
      expect(artifacts).toHaveLength(1);
      expect(written, "the log has the reference alone").toBeLessThan(LARGE_BYTES / 10);
      if (says.startsWith("This"))
        expect(calls[0]).toMatchObject({ result: { artifact: expect.any(String), bytes: artifacts[0] } });
    },
  );
});

/** The sizes of all artifacts, and of all events together. */
async function stored(): Promise<{ artifacts: number[]; written: number }> {
  const holdfast = await open(join(project.folder, ".holdfast"));
  const artifacts: number[] = [];
  let written = 0;
  try {
    let cursor: string | null = null;
    do {
      const page: Page<MovedRow> = (await holdfast.journal.store.moving?.dump(cursor)) ?? {
        rows: [],
        cursor,
      };
      for (const row of page.rows) {
        if (row.of === "artifact") artifacts.push(row.bytes.length);
        if (row.of === "write") written += row.payload.length;
      }
      cursor = page.cursor;
    } while (cursor !== null);
  } finally {
    await holdfast.close();
  }
  return { artifacts, written };
}

describe("the filesystem server from npm: an edit is made once", () => {
  test.each(isFull ? ON_THE_WAY : ON_THE_WAY.slice(1, 2))("killed at $name", async ({ env, fired }) => {
    const path = project.write("files/a.txt", "x");
    const full = proxyOf([process.execPath, FILESYSTEM, join(project.folder, "files")]);
    // Each edit makes the file one character longer, so its length counts the effects.
    const call = { name: "edit_file", arguments: { path, edits: [{ oldText: "x", newText: "xx" }] } };

    const first = await project.connect(full, { env });
    await expect(first.client.callTool(call)).rejects.toThrow();
    await first.gone;
    expect(fired()).toBe(true);

    const second = await project.connect(full);
    await second.client.listTools();
    const answer = await second.client.callTool(call);
    expect(answer.isError).toBeFalsy();
    expect(readFileSync(path, "utf8")).toBe("xx");
    await second.close();
    expect((await callsOf()).map(({ status }) => status)).toEqual(["completed"]);
  });
});

test("a tool that takes the call's key is retried with it and takes effect once", async () => {
  const call = { name: "keyed", arguments: { id: "k" } };
  const first = await project.connect(proxyOf(programs.counting), { env: { SERVER_FAULT: "parent-after" } });
  await expect(first.client.callTool(call)).rejects.toThrow();
  await first.gone;
  const second = await next(programs.counting);
  expect(textOf(await second.client.callTool(call))).toContain("keyed k");
  await second.close();
  const [only] = await callsOf();
  expect(only).toMatchObject({ status: "completed", attempt: 2 });
  expect(project.effects()).toHaveLength(1);
});

test("the checker finds a proxy that forwards before the intent is durable", async () => {
  const command = [programs.faulty, join(project.folder, "tools.yaml"), ...programs.counting];
  const call = { name: "add", arguments: { id: "a" } };
  const first = await project.connect(command, { env: { HOLDFAST_FAILPOINT: "wave.planned" } });
  await expect(first.client.callTool(call)).rejects.toThrow();
  await first.gone;
  const meant = { "add a": 1 };
  expect(findProblems({ effects: project.effects(), calls: await callsOf(), meant })).toEqual([
    "add a: 1 effects, 0 durable intents",
  ]);
  const second = await project.connect(command);
  await second.client.callTool(call);
  await second.close();
  const problems = findProblems({ effects: project.effects(), calls: await callsOf(), meant });
  expect(problems).toContain("add a: doubled, 2 effects for 1");
});
