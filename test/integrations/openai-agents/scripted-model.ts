import { randomUUID } from "node:crypto";
import { type Model, type ModelRequest, type ModelResponse, type StreamEvent, Usage } from "@openai/agents";

export type Say =
  | { readonly text: string }
  | { readonly call: string; readonly args: object; readonly id?: string };

/** A model that answers by a script, with new ids each time, and counts its questions. */
export class ScriptedModel implements Model {
  readonly asked: ModelRequest[] = [];
  private readonly script: (request: ModelRequest) => readonly Say[];

  constructor(script: (request: ModelRequest) => readonly Say[]) {
    this.script = script;
  }

  async getResponse(request: ModelRequest): Promise<ModelResponse> {
    this.asked.push(request);
    const output = this.script(request).map((said) =>
      "text" in said
        ? {
            type: "message" as const,
            role: "assistant" as const,
            status: "completed" as const,
            id: randomUUID(),
            content: [{ type: "output_text" as const, text: said.text }],
          }
        : {
            type: "function_call" as const,
            id: randomUUID(),
            callId: said.id ?? `call_${randomUUID()}`,
            name: said.call,
            status: "completed" as const,
            arguments: JSON.stringify(said.args),
          },
    );
    const usage = new Usage({ requests: 1, inputTokens: 10, outputTokens: 5, totalTokens: 15 });
    return { output, usage, responseId: randomUUID() };
  }

  async *getStreamedResponse(request: ModelRequest): AsyncGenerator<StreamEvent> {
    const response = await this.getResponse(request);
    yield { type: "response_started" };
    for (const item of response.output) {
      if (item.type === "function_call") yield { type: "model", event: { type: "function_call", item } };
      else yield { type: "output_text_delta", delta: "some text" };
    }
    const { inputTokens, outputTokens, totalTokens } = response.usage;
    const usage = { inputTokens, outputTokens, totalTokens };
    const output = response.output as never;
    yield { type: "response_done", response: { id: response.responseId ?? "", usage, output } };
  }
}

/** How many call results a prompt contains. */
export function resultsIn({ input }: ModelRequest): number {
  return Array.isArray(input) ? input.filter((item) => item.type === "function_call_result").length : 0;
}
