/**
 * A scripted model on loopback for each coding agent, so that real agents run without a key. Claude Code gets
 * `anthropic-server.ts`; this file speaks to the others:
 *
 *     /v1/responses                             OpenAI's Responses API, for Codex
 *     /v1beta/models/…:streamGenerateContent    Gemini's API, for Gemini CLI
 *
 * The n-th request that offers tools gets the n-th step. Requests without tools (a title, a quota check) take
 * no step.
 */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { type AnthropicServer, startAnthropicServer } from "./anthropic-server.ts";

type Json = Readonly<Record<string, unknown>>;

/**
 * One answer: a text ends the turn; a tool is called, by JSON or by plain text; `run` does something while the
 * agent waits.
 */
export type Step =
  | { readonly text: string }
  | { readonly tool: string; readonly input: Json | string }
  | { readonly run: () => void };

export interface ModelRequest {
  /** All that the model reads, with plain quotes. */
  readonly text: string;
  readonly tools: readonly string[];
}

export type WireName = "anthropic" | "openai" | "gemini";

const OVER: Step = { text: "done" };

export class ScriptedModel {
  readonly requests: ModelRequest[] = [];
  private steps: Step[] = [];
  private server: Server | AnthropicServer | null = null;
  /** The answer while the agent has not loaded a tool of the script yet: a command that sleeps. */
  private readonly wait: Step;
  url = "";

  constructor(wait: Step) {
    this.wait = wait;
  }

  /** The next answers. After them the model says that it is done. */
  script(steps: readonly Step[]): void {
    this.steps = [...steps];
    this.requests.length = 0;
  }

  async listen(wire: WireName): Promise<void> {
    if (wire === "anthropic") {
      const server = await startAnthropicServer(({ text, tools }) => {
        const step = this.next(text, tools);
        if ("run" in step) return new Promise(() => undefined);
        return "text" in step ? step : { calls: [{ name: step.tool, input: step.input as Json }] };
      });
      this.server = server;
      this.url = server.url;
      return;
    }
    const { tools, events } = WIRES[wire];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const text = Buffer.concat(chunks).toString("utf8");
      if (!/responses|generateContent/i.test(request.url ?? ""))
        return void response.writeHead(404).end("{}");
      const offered = tools(JSON.parse(text) as Json);
      const step = offered.length === 0 ? OVER : this.next(text, offered);
      // An agent that is killed meanwhile waits here for its answer.
      if ("run" in step) return;
      const all = events(step);
      if (wire === "gemini" && !request.url?.includes("stream")) {
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(all[0]));
        return;
      }
      response.writeHead(200, { "content-type": "text/event-stream" });
      for (const each of all) response.write(`data: ${JSON.stringify(each)}\n\n`);
      response.end();
    });
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    this.server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  close(): void {
    if (this.server && "closeAllConnections" in this.server) this.server.closeAllConnections();
    void this.server?.close();
  }

  private next(text: string, tools: readonly string[]): Step {
    // Texts are JSON inside JSON: a search should find them as the model reads them.
    this.requests.push({ text: text.replaceAll(/\\+"/g, '"'), tools });
    const step = this.steps[0] ?? OVER;
    const isLoading = "tool" in step && step.tool.startsWith("mcp") && !tools.includes(step.tool);
    if (isLoading) return this.wait;
    this.steps.shift();
    if ("run" in step) step.run();
    return step;
  }
}

interface Wire {
  tools(body: Json): string[];
  events(step: Exclude<Step, { run: unknown }>): Json[];
}

const listOf = (value: unknown): readonly Json[] => (Array.isArray(value) ? value : []);
const nameOf = ({ name, type }: Json): string => String(name ?? type);

let count = 0;
const newId = (): string => `${process.pid}${String(++count).padStart(4, "0")}`;

/** Codex groups the tools of a server: `{ type: "namespace", name: "mcp__holdfast", tools: […] }`. */
function responsesItem(step: Exclude<Step, { run: unknown }>): Json {
  const id = newId();
  if ("text" in step) {
    const content = [{ type: "output_text", text: step.text, annotations: [] }];
    return { type: "message", id: `msg_${id}`, role: "assistant", content };
  }
  if (typeof step.input === "string")
    return {
      type: "custom_tool_call",
      id: `ctc_${id}`,
      call_id: `call_${id}`,
      name: step.tool,
      input: step.input,
    };
  const [, namespace, name = step.tool] = /^(mcp__.+?)__(.+)$/.exec(step.tool) ?? [];
  const call = { type: "function_call", id: `fc_${id}`, call_id: `call_${id}`, name };
  return { ...call, ...(namespace && { namespace }), arguments: JSON.stringify(step.input) };
}

const WIRES: Readonly<Record<Exclude<WireName, "anthropic">, Wire>> = {
  openai: {
    tools: (body) =>
      listOf(body["tools"]).flatMap((each) =>
        each["type"] === "namespace"
          ? listOf(each["tools"]).map((tool) => `${nameOf(each)}__${nameOf(tool)}`)
          : [nameOf(each)],
      ),
    events(step) {
      const usage = { input_tokens: 1_000, output_tokens: 10, total_tokens: 1_010 };
      const details = { input_tokens_details: null, output_tokens_details: null };
      const response = { id: `resp_${newId()}`, output: [], usage: { ...usage, ...details } };
      const item = responsesItem(step);
      return [
        { type: "response.created", response },
        { type: "response.output_item.added", output_index: 0, item },
        { type: "response.output_item.done", output_index: 0, item },
        { type: "response.completed", response },
      ];
    },
  },
  gemini: {
    tools: (body) =>
      listOf(body["tools"]).flatMap((each) => listOf(each["functionDeclarations"]).map(nameOf)),
    events(step) {
      const call = "text" in step ? null : { name: step.tool, args: step.input, id: newId() };
      const parts = ["text" in step ? { text: step.text } : { functionCall: call }];
      const usageMetadata = { promptTokenCount: 1_000, candidatesTokenCount: 10, totalTokenCount: 1_010 };
      return [{ candidates: [{ content: { role: "model", parts }, finishReason: "STOP" }], usageMetadata }];
    },
  },
};
