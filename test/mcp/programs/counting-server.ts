// An MCP server with countable effects: it appends one line per effect to its log before it answers. Its
// environment says where to exit or which process to kill, so that a test can choose the worst moment.

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const log = process.env["EFFECTS_LOG"] ?? "";
/**
 * `before` or `after` the effect of `add`: kills the parent there, once. `exit` ends this process after the
 * effect.
 */
const fault = process.env["SERVER_FAULT"];
const faultFile = `${log}.${process.env["FAULT_NAME"] ?? "fault"}`;

function strike(when: string): void {
  if (fault === undefined || existsSync(faultFile)) return;
  if (fault === `parent-${when}`) {
    appendFileSync(faultFile, "x");
    process.kill(process.ppid, "SIGKILL");
  }
  if (fault === `self-${when}`) {
    appendFileSync(faultFile, "x");
    process.exit(3);
  }
}

const lines = (): string[] => (existsSync(log) ? readFileSync(log, "utf8").split("\n").filter(Boolean) : []);

function build(): McpServer {
  const server = new McpServer(
    { name: "counting", version: "1.0.0" },
    { capabilities: { tools: { listChanged: true }, resources: {}, prompts: {}, logging: {} } },
  );
  const input = z.object({ id: z.string() });
  const add =
    (word: string) =>
    async ({ id }: { id: string }) => {
      strike("before");
      appendFileSync(log, `${word} ${id}\n`);
      strike("after");
      return { content: [{ type: "text" as const, text: `${word} ${id}: line ${lines().length}` }] };
    };
  server.registerTool("add", { description: "Adds a line", inputSchema: input }, add("add"));
  server.registerTool(
    "send",
    { description: "Sends something, and nobody can find out", inputSchema: input },
    add("send"),
  );
  server.registerTool(
    "keyed",
    { inputSchema: z.object({ id: z.string(), key: z.string() }) },
    async ({ id, key }) => {
      strike("before");
      if (!lines().includes(`keyed ${id} ${key}`)) appendFileSync(log, `keyed ${id} ${key}\n`);
      strike("after");
      return { content: [{ type: "text", text: `keyed ${id}` }] };
    },
  );
  server.registerTool("find", { inputSchema: input, annotations: { readOnlyHint: true } }, async ({ id }) => {
    const found = lines().filter((line) => line.split(" ")[1] === id).length;
    return { content: [{ type: "text", text: `found ${found}` }] };
  });
  server.registerTool("fail", { inputSchema: input }, async ({ id }) => {
    return { content: [{ type: "text", text: `no ${id} today` }], isError: true };
  });
  // The test decides when the call ends: the server answers as soon as a file exists.
  server.registerTool("slow", { inputSchema: input }, async ({ id }, { mcpReq }) => {
    appendFileSync(log, `slow ${id}\n`);
    const token = mcpReq._meta?.progressToken;
    for (let tick = 1; !existsSync(`${log}.${id}`); tick++) {
      if (token !== undefined)
        await mcpReq.notify({
          method: "notifications/progress",
          params: { progressToken: token, progress: tick },
        });
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return { content: [{ type: "text", text: `slow ${id} done` }] };
  });
  server.registerTool("stoppable", { inputSchema: input }, async ({ id }, { mcpReq }) => {
    appendFileSync(log, `stoppable ${id}\n`);
    await new Promise((resolve) => mcpReq.signal.addEventListener("abort", resolve));
    appendFileSync(log, `stopped ${id}\n`);
    return { content: [] };
  });
  server.registerTool("ask", { inputSchema: input }, async ({ id }, { mcpReq }) => {
    const answer = await mcpReq.elicitInput({
      message: `Really ${id}?`,
      requestedSchema: { type: "object", properties: { yes: { type: "boolean" } }, required: ["yes"] },
    });
    appendFileSync(log, `ask ${id} ${answer.action}\n`);
    return { content: [{ type: "text", text: answer.action }] };
  });
  server.registerResource("log", "effects://log", { mimeType: "text/plain" }, async (uri) => ({
    contents: [{ uri: uri.href, text: lines().join("\n") }],
  }));
  server.registerResource(
    "line",
    new ResourceTemplate("effects://line/{number}", { list: undefined }),
    {},
    async (uri, { number }) => ({ contents: [{ uri: uri.href, text: lines()[Number(number)] ?? "none" }] }),
  );
  server.registerPrompt("hello", { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `hello ${name}` } }],
  }));
  server.registerTool("grow", { inputSchema: input }, async () => {
    server.sendToolListChanged();
    return { content: [{ type: "text", text: "grown" }] };
  });
  return server;
}

serveStdio(build);
