// A call as a task: the client gets an id at once, and the id answers after every process was killed. The
// servers count their effects.

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import * as z from "zod";
import { runInside } from "../cli/inside.ts";
import { type Connected, Programs, Project } from "./mcp-project.ts";
import { type Heard, RawProxy, soon } from "./raw-proxy.ts";

const CONFIG = `
taskAfter: 1ms
tools:
  find: read
  add: { verify: { tool: find, args: { id: "{{args.id}}" }, landed: { contains: "found 1" } } }
`;

interface Task {
  readonly taskId: string;
  readonly status: string;
  readonly statusMessage?: string;
}

const anything = z.looseObject({});
let programs: Programs;
let project: Project;
let open: Connected[];
beforeAll(async () => {
  programs = await Programs.build();
});
afterAll(() => programs.remove());
beforeEach(() => {
  project = new Project();
  project.write("tools.yaml", CONFIG);
  open = [];
});
afterEach(async () => {
  await Promise.all(open.map((each) => each.close()));
  project.remove();
});

async function connect(...server: string[]): Promise<Connected> {
  const behind = server.length > 0 ? server : ["--", ...programs.counting];
  const config = join(project.folder, "tools.yaml");
  const made = await project.connect([programs.cli, "mcp", "proxy", "--config", config, ...behind]);
  open.push(made);
  return made;
}

async function kill({ pid, gone }: Connected): Promise<void> {
  process.kill(pid, "SIGKILL");
  await gone;
}

const ask = ({ client }: Connected, method: string, params: object): Promise<Record<string, unknown>> =>
  client.request({ method, params } as never, anything);

async function begin(at: Connected, name: string, id: string): Promise<Task> {
  const { task } = await ask(at, "tools/call", { name, arguments: { id }, task: { ttl: 60_000 } });
  return task as Task;
}

async function taskOf(at: Connected, taskId: string): Promise<Task> {
  return (await ask(at, "tasks/get", { taskId })) as unknown as Task;
}

const textOf = ({ content }: Record<string, unknown>): string =>
  (content as { text: string }[]).map(({ text }) => text).join("\n");

describe("a task of 2025-11-25", () => {
  test("has an id at once, is listed, and gives the answer when the tool has answered", async () => {
    const proxy = await connect();
    expect(proxy.client.getServerCapabilities()).toMatchObject({ tasks: { list: {}, cancel: {} } });
    const { tools } = (await ask(proxy, "tools/list", {})) as {
      tools: { name: string; execution?: { taskSupport?: string } }[];
    };
    const supportOf = (tool: string) => tools.find(({ name }) => name === tool)?.execution?.taskSupport;
    expect([supportOf("slow"), supportOf("find")]).toEqual(["optional", undefined]);

    const { taskId, status } = await begin(proxy, "slow", "a");
    expect(status).toBe("working");
    // The same call again, as after a lost answer, is the same task.
    expect((await begin(proxy, "slow", "a")).taskId).toBe(taskId);
    expect((await ask(proxy, "tasks/list", {}))["tasks"]).toMatchObject([{ taskId, status: "working" }]);
    const result = ask(proxy, "tasks/result", { taskId });
    project.write("effects.log.a", "");
    expect(textOf(await result)).toBe("slow a done");
    expect((await result)["_meta"]).toMatchObject({ "io.modelcontextprotocol/related-task": { taskId } });
    expect(await taskOf(proxy, taskId)).toMatchObject({ taskId, status: "completed", ttl: null });
    expect(project.effects()).toEqual(["slow a"]);
    // Its answer was read, so the same call is a new one.
    expect((await begin(proxy, "slow", "a")).taskId).not.toBe(taskId);
  });

  test.each(["mcp.forwarded", "call.executed", "call.recorded"])(
    "answers under its id after the proxy was killed at %s: one effect",
    async (point) => {
      const config = join(project.folder, "tools.yaml");
      const command = [programs.cli, "mcp", "proxy", "--config", config, "--", ...programs.counting];
      const first = await project.connect(command, { env: { HOLDFAST_FAILPOINT: point } });
      const begun = begin(first, "add", "x").catch(() => null);
      await first.gone;
      await begun;
      expect(project.passed().at(-1)).toBe(`${point}:1`);

      const [call] = (await project.sessions()).flatMap(({ calls }) => calls);
      const taskId = call?.callId ?? "";
      const second = await connect();
      const result = await ask(second, "tasks/result", { taskId });
      expect(textOf(result)).toMatch(/add x|found 1/);
      expect(await taskOf(second, taskId)).toMatchObject({ status: "completed" });
      expect(project.effects()).toEqual(["add x"]);
    },
  );

  test("that waits for a person says how to answer, over kills, and then has the person's answer", async () => {
    const first = await connect();
    const { taskId } = await begin(first, "slow", "w");
    await soon(() => expect(project.effects()).toEqual(["slow w"]));
    process.kill(first.pid, "SIGKILL");
    // The server outlives its proxy, and its answer reaches nobody.
    project.write("effects.log.w", "");
    await first.gone;

    const second = await connect();
    let task = await taskOf(second, taskId);
    await soon(async () => {
      task = await taskOf(second, taskId);
      expect(task.statusMessage).toContain(`holdfast resolve ${taskId} landed|retry|failed`);
    });
    expect(task.status).toBe("working");
    await kill(second);

    const third = await connect();
    expect((await taskOf(third, taskId)).statusMessage).toContain("waits for a person");
    const result = ask(third, "tasks/result", { taskId });
    const typed = ["resolve", taskId, "landed", "--result", '"it arrived"', "--by", "ann", "--why", "seen"];
    expect((await runInside(project.folder, typed)).code).toBe(0);
    expect(textOf(await result)).toContain("it arrived");
    expect(project.effects()).toEqual(["slow w"]);
  });

  test("is cancelled only if it was never sent; a call that was sent stays unknown", async () => {
    const proxy = await connect();
    const { taskId } = await begin(proxy, "stoppable", "c");
    await soon(() => expect(project.effects()).toEqual(["stoppable c"]));
    await expect(ask(proxy, "tasks/cancel", { taskId })).rejects.toThrow(/not cancelled.*took effect/);
    expect(project.effects()).toEqual(["stoppable c", "stopped c"]);
    expect(await taskOf(proxy, taskId)).toMatchObject({ status: "working" });
    const { taskId: done } = await begin(proxy, "add", "d");
    await ask(proxy, "tasks/result", { taskId: done });
    await expect(ask(proxy, "tasks/cancel", { taskId: done })).rejects.toThrow(/already completed/);
    await expect(ask(proxy, "tasks/get", { taskId: "mcp_none" })).rejects.toThrow(/not found/);
  });

  test("that the server rejects has failed, and its result is the server's error", async () => {
    const proxy = await connect();
    const { taskId } = await begin(proxy, "no-such-tool", "n");
    await expect(ask(proxy, "tasks/result", { taskId })).rejects.toThrow(/no-such-tool/);
    const { status } = await taskOf(proxy, taskId);
    expect(status).toBe("failed");
    await kill(proxy);
    const second = await connect();
    expect(await taskOf(second, taskId)).toMatchObject({ status });
    await expect(ask(second, "tasks/result", { taskId })).rejects.toThrow(/no-such-tool/);
  });
});

describe("a task of the server", () => {
  let server: Server | undefined;
  afterEach(async () => {
    server?.closeAllConnections();
    await new Promise((resolve) => (server ? server.close(resolve) : resolve(null)));
  });

  /** A server that runs `pay` as a task, and outlives the proxy. */
  async function shop(): Promise<{ url: string; paid: unknown[]; finish: () => void; polls: () => number }> {
    const paid: unknown[] = [];
    let isDone = false;
    let polls = 0;
    const tool = { name: "pay", inputSchema: { type: "object" }, execution: { taskSupport: "required" } };
    const capabilities = { tools: {}, tasks: { requests: { tools: { call: {} } } } };
    const resultOf = (method: string, params: { name?: string; task?: unknown; arguments?: unknown }) => {
      const times = { createdAt: "2026-01-01T00:00:00Z", lastUpdatedAt: "2026-01-01T00:00:00Z", ttl: null };
      const state = { taskId: "T1", status: isDone ? "completed" : "working", pollInterval: 100, ...times };
      switch (method) {
        case "initialize":
          return { protocolVersion: "2025-11-25", capabilities, serverInfo: { name: "shop", version: "1" } };
        case "tools/list":
          return { tools: [tool] };
        case "tools/call":
          if (params.task === undefined) throw new Error("pay runs as a task only");
          paid.push(params.arguments);
          return { task: state };
        case "tasks/get":
          polls += 1;
          return state;
        default:
          return { content: [{ type: "text", text: "paid" }] };
      }
    };
    server = createServer((request, response) => {
      let text = "";
      request.on("data", (chunk) => {
        text += chunk;
      });
      request.on("end", () => {
        if (request.method !== "POST") return void response.writeHead(405).end();
        const { id, method, params } = JSON.parse(text);
        if (id === undefined) return void response.writeHead(202).end();
        response.writeHead(200, { "Content-Type": "application/json" });
        response.end(JSON.stringify({ jsonrpc: "2.0", id, result: resultOf(method, params ?? {}) }));
      });
    });
    await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const finish = (): void => {
      isDone = true;
    };
    return { url, paid, finish, polls: () => polls };
  }

  test("is followed, and after the proxy was killed the next one follows it: one payment", async () => {
    const { url, paid, finish, polls } = await shop();
    const first = await connect("--url", url);
    await first.client.listTools();
    const { task } = await ask(first, "tools/call", { name: "pay", arguments: { order: 17 }, task: {} });
    const { taskId } = task as Task;
    await soon(() => expect(polls()).toBeGreaterThan(0));
    await kill(first);

    const before = polls();
    const second = await connect("--url", url);
    expect(await taskOf(second, taskId)).toMatchObject({ status: "working" });
    await soon(() => expect(polls()).toBeGreaterThan(before));
    finish();
    expect(textOf(await ask(second, "tasks/result", { taskId }))).toBe("paid");
    expect(paid).toEqual([{ order: 17 }]);
    const [call] = (await project.sessions()).flatMap(({ calls }) => calls);
    expect(call).toMatchObject({ callId: taskId, status: "completed", attempt: 2 });
  });
});

describe("a task of 2026-07-28", () => {
  const VERSION = "io.modelcontextprotocol/protocolVersion";
  const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
  const meta = (extensions: object) => ({ [VERSION]: "2026-07-28", [CAPABILITIES]: { extensions } });
  const able = { _meta: meta({ "io.modelcontextprotocol/tasks": {} }) };
  const unable = { _meta: meta({}) };
  let proxy: RawProxy;
  afterEach(() => proxy.close());

  const BODY = `
    if (m.method === "server/discover") say({ id: m.id, result: { resultType: "complete", capabilities: { tools: {} } } });
    if (m.method !== "tools/call") return;
    const { name, inputResponses } = m.params;
    if (name === "ask" && !inputResponses)
      return setTimeout(() => say({ id: m.id, result: { resultType: "input_required", inputRequests: { sure: { method: "elicitation/create", params: { message: "Sure?" } } }, requestState: "s1" } }), 50);
    effect(name + " " + JSON.stringify(inputResponses ?? null) + (m.params.requestState ?? ""));
    const answer = () => say({ id: m.id, result: { resultType: "complete", content: [{ type: "text", text: "done" }] } });
    if (name === "quick") answer();
    else {
      const timer = setInterval(() => fs.existsSync(here("go")) && (clearInterval(timer), answer()), 10);
    }
  `;
  const start = async (config = CONFIG): Promise<void> => {
    proxy = await RawProxy.start(BODY, config);
  };
  const get = (id: string, taskId: unknown, more: object = able): Promise<Heard> =>
    proxy.ask(id, "tasks/get", { taskId, ...more });

  test("stands in for a slow answer, if the client can take a task", async () => {
    await start();
    const { result } = await proxy.ask(0, "server/discover", able);
    expect(result).toMatchObject({ capabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } });
    const made = (await proxy.call(1, "slow", {}, able)).result;
    expect(made).toMatchObject({ resultType: "task", status: "working", ttlMs: null });
    expect((await get("g1", made?.["taskId"])).result).toMatchObject({
      resultType: "complete",
      status: "working",
    });
    // A client that cannot take a task waits for the answer.
    const plain = proxy.call(2, "slow", {}, unable);
    proxy.project.write("go", "");
    expect((await plain).result).toMatchObject({ resultType: "complete" });
    const done = (await get("g2", made?.["taskId"])).result;
    expect(done).toMatchObject({ status: "completed", result: { content: [{ text: "done" }] } });
    expect(proxy.effects()).toHaveLength(1);
    expect((await get("g3", made?.["taskId"], unable)).error?.code).toBe(-32_021);
    expect((await get("g4", "nothing")).error?.code).toBe(-32_602);
    expect((await get("g5", "nothing", unable)).error?.code).toBe(-32_021);
    for (const removed of ["tasks/list", "tasks/result"])
      expect((await proxy.ask(removed, removed, able)).error?.code).toBe(-32_601);
    expect((await proxy.ask("c", "tasks/cancel", { taskId: made?.["taskId"], ...able })).result).toEqual({
      resultType: "complete",
    });
  });

  test("is not made for a quick answer", async () => {
    await start("taskAfter: 1h\ntools: {}");
    expect((await proxy.call(1, "quick", {}, able)).result).toMatchObject({ resultType: "complete" });
  });

  test("asks the client for input, and the answers are another round of the same call", async () => {
    await start();
    const taskId = (await proxy.call(1, "ask", {}, able)).result?.["taskId"];
    let asked: Heard = {};
    for (let tries = 0; asked.result?.["status"] !== "input_required"; tries++)
      asked = await get(`a${tries}`, taskId);
    const [key = ""] = Object.keys(asked.result?.["inputRequests"] as object);
    expect(asked.result?.["inputRequests"]).toMatchObject({ [key]: { method: "elicitation/create" } });
    const inputResponses = { [key]: { action: "accept" }, other: 1 };
    await proxy.ask("u", "tasks/update", { taskId, inputResponses, ...able });
    proxy.project.write("go", "");
    let done: Heard = {};
    for (let tries = 0; done.result?.["status"] !== "completed"; tries++)
      done = await get(`d${tries}`, taskId);
    expect(proxy.effects()).toEqual(['ask {"sure":{"action":"accept"}}s1']);
    expect(await proxy.calls("ask")).toMatchObject([{ callId: taskId, attempt: 2, status: "completed" }]);
  });
});
