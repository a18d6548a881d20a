// The server that the conformance scenarios expect, on stdin and stdout: tools, resources and prompts with the
// names that the scenarios call.

import {
  type CallToolResult,
  completable,
  inputRequired,
  McpServer,
  type ReadResourceResult,
  ResourceTemplate,
  type ServerContext,
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
};

const ARGUMENTS: Readonly<Record<string, z.ZodObject>> = {
  test_sampling: z.object({ prompt: z.string() }),
  test_elicitation: z.object({ message: z.string() }),
};

function build(): McpServer {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "example", version: "1.0.0" }, { capabilities });
  for (const [name, content] of Object.entries(PLAIN))
    server.registerTool(name, { description: name }, async () => ({ content: [...content] }));
  for (const [name, run] of Object.entries(RUNS)) {
    const inputSchema = ARGUMENTS[name] ?? z.object({});
    server.registerTool(name, { description: name, inputSchema }, (args, { mcpReq }) =>
      run(mcpReq, args as Readonly<Record<string, string>>),
    );
  }
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
  server.registerPrompt("test_prompt_with_image", { description: "image" }, async () =>
    says(image, text("Analyze this.")),
  );
}

serveStdio(build);
