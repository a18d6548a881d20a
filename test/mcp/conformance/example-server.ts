// The server that the conformance scenarios expect: tools, resources and prompts with the names that the
// scenarios call. On stdin and stdout, or with `--http` on an address that it prints.

import { createHmac, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import type { ReadableStream } from "node:stream/web";
import {
  type CallToolResult,
  completable,
  createMcpHandler,
  fromJsonSchema,
  hostHeaderValidationResponse,
  inputRequired,
  isLegacyRequest,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  McpServer,
  originValidationResponse,
  type ReadResourceResult,
  ResourceTemplate,
  type ServerContext,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=";

type Block = CallToolResult["content"][number];
const text = (words: string): Block => ({ type: "text", text: words });
const image: Block = { type: "image", data: PNG, mimeType: "image/png" };
const resource = (uri: string, words: string, mimeType = "text/plain"): Block => ({
  type: "resource",
  resource: { uri, mimeType, text: words },
});

/** Tools without arguments that answer with content. */
const PLAIN: Readonly<Record<string, readonly Block[]>> = {
  test_simple_text: [text("This is a simple text response for testing.")],
  test_image_content: [image],
  test_audio_content: [{ type: "audio", data: WAV, mimeType: "audio/wav" }],
  test_embedded_resource: [resource("test://embedded-resource", "This is an embedded resource content.")],
  test_multiple_content_types: [
    text("Multiple content types test:"),
    image,
    resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
  ],
};

type Context = ServerContext["mcpReq"];
type Answer = CallToolResult | ReturnType<typeof inputRequired>;
type Run = (req: Context, args: Readonly<Record<string, string>>) => Promise<Answer>;
const answer = (words: string): CallToolResult => ({ content: [text(words)] });

const form = (properties: object, required: readonly string[], message: string) =>
  ({ message, requestedSchema: { type: "object", properties, required } }) as never;

const DEFAULTS = {
  name: { type: "string", default: "John Doe" },
  age: { type: "integer", default: 30 },
  score: { type: "number", default: 95.5 },
  status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
  verified: { type: "boolean", default: true },
};
const OPTIONS = ["option1", "option2", "option3"];
const titled = OPTIONS.map((_option, index) => ({
  const: `value${index + 1}`,
  title: `${["First", "Second", "Third"][index]} Option`,
}));
const ENUMS = {
  untitledSingle: { type: "string", enum: OPTIONS },
  titledSingle: { type: "string", oneOf: titled },
  legacyEnum: {
    type: "string",
    enum: ["opt1", "opt2", "opt3"],
    enumNames: ["Option One", "Option Two", "Option Three"],
  },
  untitledMulti: { type: "array", items: { type: "string", enum: OPTIONS } },
  titledMulti: { type: "array", items: { anyOf: titled } },
};

const asking =
  (properties: object, required: readonly string[] = []): Run =>
  async (req, { message = "Please answer" }) => {
    const { action, content } = await req.elicitInput(form(properties, required, message));
    return answer(`Elicitation completed: action=${action}, content=${JSON.stringify(content)}`);
  };

const ask = (message: string, field: string, type = "string") =>
  ({
    method: "elicitation/create",
    params: form({ [field]: { type } }, [field], message) as object,
  }) as never;
const sample = (words: string) =>
  ({
    method: "sampling/createMessage",
    params: { messages: [{ role: "user", content: { type: "text", text: words } }], maxTokens: 100 },
  }) as never;
const roots = { method: "roots/list", params: {} } as never;

/** One round of questions, then the answer. */
const round =
  (inputRequests: Readonly<Record<string, never>>, requestState?: string): Run =>
  async (req) => {
    const given = Object.keys(req.inputResponses ?? {});
    const isComplete = Object.keys(inputRequests).every((key) => given.includes(key));
    if (!isComplete)
      return inputRequired({ inputRequests, ...(requestState !== undefined && { requestState }) });
    if (requestState !== undefined && req.requestState() !== requestState) throw new Error("bad state");
    return answer(`state-ok ${JSON.stringify(req.inputResponses)}`);
  };

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
/** Longer than `taskAfter` of the proxy's configuration. */
const SLOW_MS = 2_000;

const SIGNED = `s1.${createHmac("sha256", "a secret").update("s1").digest("hex")}`;

/** A state with a signature must be the one that this server signed. */
function verified(state: string): string {
  if (state.includes(".") && state !== SIGNED) throw new Error("the state was changed");
  return state;
}

const RUNS: Readonly<Record<string, Run>> = {
  test_error_handling: async () => ({
    content: [text("This tool intentionally returns an error for testing")],
    isError: true,
  }),
  test_tool_with_logging: async (req) => {
    for (const each of ["started", "processing data", "completed"])
      await req.log("info", `Tool execution ${each}`);
    return answer("logged");
  },
  test_tool_with_progress: async (req) => {
    const progressToken = req._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined)
        await req.notify({
          method: "notifications/progress",
          params: { progressToken, progress, total: 100 },
        });
      await pause(50);
    }
    return answer("done");
  },
  test_sampling: async (req, { prompt = "" }) => {
    const content = { type: "text" as const, text: prompt };
    const said = await req.requestSampling({ messages: [{ role: "user", content }], maxTokens: 100 });
    return answer(`LLM response: ${JSON.stringify(said.content)}`);
  },
  test_elicitation: asking({ username: { type: "string" }, email: { type: "string" } }, [
    "username",
    "email",
  ]),
  test_elicitation_sep1034_defaults: asking(DEFAULTS),
  test_elicitation_sep1330_enums: asking(ENUMS),
  test_input_required_result_elicitation: round({ user_name: ask("What is your name?", "name") }),
  test_input_required_result_sampling: round({ capital_question: sample("What is the capital of France?") }),
  test_input_required_result_list_roots: round({ client_roots: roots }),
  test_input_required_result_request_state: round({ confirm: ask("Please confirm", "ok", "boolean") }, "s1"),
  test_input_required_result_multiple_inputs: round(
    {
      user_name: ask("What is your name?", "name"),
      greeting: sample("Generate a greeting"),
      client_roots: roots,
    },
    "s1",
  ),
  test_input_required_result_multi_round: async (req) => {
    const state = req.requestState();
    if (state === "round 2") return answer("done");
    const [step, question, field] =
      state === "round 1" ? ["step2", "Step 2: color?", "color"] : ["step1", "Step 1: name?", "name"];
    const requestState = state === "round 1" ? "round 2" : "round 1";
    return inputRequired({
      inputRequests: { [step as string]: ask(question ?? "", field ?? "") },
      requestState,
    });
  },
  test_input_required_result_tampered_state: round({ confirm: ask("Sure?", "ok", "boolean") }, SIGNED),
  test_input_required_result_capabilities: async ({ envelope }) => {
    const declared = (envelope as Readonly<Record<string, unknown>>)[CAPABILITIES];
    const { elicitation, sampling } = Object(declared) as Readonly<Record<string, unknown>>;
    return inputRequired({
      inputRequests: {
        ...(elicitation !== undefined && { name: ask("What is your name?", "name") }),
        ...(sampling !== undefined && { capital: sample("What is the capital of France?") }),
      },
    });
  },
  // The SDK refuses to ask a client for what it has not declared.
  test_missing_capability: round({ greeting: sample("Generate a greeting") }),
  test_streaming_elicitation: round({ user_name: ask("What is your name?", "name") }),
  test_logging_tool: async (req) => {
    await req.log("info", "a log message");
    return answer("logged");
  },
  // Tools of the scenarios of tasks. The proxy makes the tasks.
  greet: async (_req, { name = "" }) => answer(`Hello, ${name}!`),
  slow_compute: async (_req, { seconds = "0", label = "" }) => {
    await pause(Number(seconds) * SLOW_MS);
    return answer(`${label} computed`);
  },
  failing_job: async () => {
    await pause(SLOW_MS);
    return { content: [text("the job failed")], isError: true };
  },
  // The client of the scenario has not declared roots: the SDK makes this a protocol error.
  protocol_error_job: slowly(round({ client_roots: roots })),
  confirm_delete: slowly(round({ confirm: ask("Delete it?", "confirm", "boolean") })),
  multi_input: slowly(round({ first: ask("First?", "name"), second: ask("Second?", "name") })),
  test_tool_with_task: async (req, args) => {
    if (req.inputResponses !== undefined) await pause(SLOW_MS);
    return round({ user_name: ask("What is your name?", "name") })(req, args);
  },
};

function slowly(run: Run): Run {
  return async (req, args) => {
    await pause(SLOW_MS);
    return run(req, args);
  };
}

const ARGUMENTS: Readonly<Record<string, z.ZodObject>> = {
  test_sampling: z.object({ prompt: z.string() }),
  test_elicitation: z.object({ message: z.string() }),
  greet: z.object({ name: z.string() }),
  slow_compute: z.object({ seconds: z.coerce.string(), label: z.string().optional() }),
};

const SCHEMAS: Readonly<Record<string, object>> = {
  json_schema_2020_12_tool: {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    type: "object",
    $defs: {
      address: {
        $anchor: "addressDef",
        type: "object",
        properties: { street: { type: "string" }, city: { type: "string" } },
      },
    },
    properties: {
      name: { type: "string" },
      address: { $ref: "#/$defs/address" },
      contactMethod: { type: "string", enum: ["phone", "email"] },
      phone: { type: "string" },
      email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
  },
  test_custom_header: {
    type: "object",
    properties: { region: { type: "string", "x-mcp-header": "Region" } },
    required: ["region"],
  },
};

/** Tells subscribers of the other requests that a list has changed. */
interface Notifier {
  toolsChanged(): void;
  promptsChanged(): void;
}

function build(notifier?: Notifier): McpServer {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer(
    { name: "example", version: "1.0.0" },
    { capabilities, requestState: { verify: verified } },
  );
  for (const [name, content] of Object.entries(PLAIN))
    server.registerTool(name, { description: name }, async () => ({ content: [...content] }));
  for (const [name, run] of Object.entries(RUNS)) {
    const inputSchema = ARGUMENTS[name] ?? z.object({});
    server.registerTool(name, { description: name, inputSchema }, (args, { mcpReq }) =>
      run(mcpReq, args as Readonly<Record<string, string>>),
    );
  }
  for (const [name, schema] of Object.entries(SCHEMAS))
    server.registerTool(name, { description: name, inputSchema: fromJsonSchema(schema) }, () => answer("ok"));
  const changes = notifier ?? {
    toolsChanged: () => server.sendToolListChanged(),
    promptsChanged: () => server.sendPromptListChanged(),
  };
  for (const [name, change] of [
    ["test_trigger_tool_change", changes.toolsChanged],
    ["test_trigger_prompt_change", changes.promptsChanged],
  ] as const)
    server.registerTool(name, { description: name }, async () => {
      change();
      return answer("changed");
    });
  addResources(server);
  addPrompts(server);
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  return server;
}

function addResources(server: McpServer): void {
  const of = (uri: string, content: object): ReadResourceResult =>
    ({ contents: [{ uri, ...content }] }) as ReadResourceResult;
  const plain = { mimeType: "text/plain" };
  server.registerResource("static text", "test://static-text", plain, async ({ href }) =>
    of(href, { ...plain, text: "This is the content of the static text resource." }),
  );
  server.registerResource("binary", "test://static-binary", { mimeType: "image/png" }, async ({ href }) =>
    of(href, { mimeType: "image/png", blob: PNG }),
  );
  server.registerResource("watched", "test://watched-resource", plain, async ({ href }) =>
    of(href, { ...plain, text: "watched" }),
  );
  const template = new ResourceTemplate("test://template/{id}/data", { list: undefined });
  server.registerResource("template", template, { mimeType: "application/json" }, async ({ href }, { id }) =>
    of(href, {
      mimeType: "application/json",
      text: JSON.stringify({ id, data: `Data for ID: ${String(id)}` }),
    }),
  );
}

function addPrompts(server: McpServer): void {
  const says = (...content: Block[]) => ({
    messages: content.map((each) => ({ role: "user" as const, content: each })),
  });
  server.registerPrompt("test_simple_prompt", { description: "simple" }, async () =>
    says(text("This is a simple prompt for testing.")),
  );
  const arg1 = completable(z.string(), (typed) => [`${typed}1`]);
  server.registerPrompt(
    "test_prompt_with_arguments",
    { description: "arguments", argsSchema: z.object({ arg1, arg2: z.string() }) },
    async (args) => says(text(`Prompt with arguments: arg1='${args.arg1}', arg2='${args.arg2}'`)),
  );
  server.registerPrompt(
    "test_prompt_with_embedded_resource",
    { description: "resource", argsSchema: z.object({ resourceUri: z.string() }) },
    async ({ resourceUri }) => says(resource(resourceUri, "Embedded."), text("Process this.")),
  );
  server.registerPrompt("test_input_required_result_prompt", { description: "input" }, async ({ mcpReq }) =>
    mcpReq.inputResponses
      ? says(text("This is a prompt with input."))
      : inputRequired({
          inputRequests: { user_context: ask("What context should the prompt use?", "context") },
        }),
  );
  server.registerPrompt("test_prompt_with_image", { description: "image" }, async () =>
    says(image, text("Analyze this.")),
  );
}

/** The SDK's own server on HTTP: every message of the newer protocol is a request, the older ones have sessions. */
async function serveHttp(): Promise<string> {
  const modern = createMcpHandler(() => build(modern.notify), { legacy: "reject" });
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();

  const begin = async (): Promise<WebStandardStreamableHTTPServerTransport> => {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    });
    await build().connect(transport);
    return transport;
  };

  const respond = async (request: Request): Promise<Response> => {
    const foreign =
      hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
      originValidationResponse(request, localhostAllowedOrigins());
    if (foreign) return foreign;
    if (!(await isLegacyRequest(request))) return modern.fetch(request);
    const id = request.headers.get("mcp-session-id");
    const transport = id === null ? await begin() : sessions.get(id);
    return transport ? transport.handleRequest(request) : new Response(null, { status: 404 });
  };

  const server = createServer(async (incoming, outgoing) => {
    const gone = new AbortController();
    outgoing.once("close", () => gone.abort());
    const { method = "GET", headers } = incoming;
    let body = "";
    for await (const chunk of incoming) body += String(chunk);
    const request = new Request(`http://${headers.host}/mcp`, {
      method,
      headers: Object.entries(headers).map(([name, value]): [string, string] => [name, String(value)]),
      signal: gone.signal,
      ...(method === "POST" && { body }),
    });
    const response = await respond(request);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    if (!response.body) return void outgoing.end();
    const stream = Readable.fromWeb(response.body as ReadableStream);
    outgoing.once("close", () => stream.destroy());
    stream.on("error", () => outgoing.destroy()).pipe(outgoing);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

if (process.argv.includes("--http")) console.log(await serveHttp());
else serveStdio(() => build());
