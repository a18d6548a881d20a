/**
 * Does what the SDK does around a tool call, in its order: PreToolUse, `canUseTool`, the tool, PostToolUse,
 * PostToolBatch, the transcript. `npm run agents:sdk` plays the same with the real one.
 */

import { randomUUID } from "node:crypto";
import type {
  HookInput,
  HookOutput,
  QueryOptions,
  SdkMessage,
  SessionStoreEntry,
} from "../../../src/integrations/claude-agent-sdk/index.ts";

type Store = {
  append(key: object, entries: SessionStoreEntry[]): Promise<void>;
  load(key: object): Promise<SessionStoreEntry[] | null>;
};

export interface FakeCall {
  readonly name: string;
  readonly input: Record<string, unknown>;
  /** The id of the SDK. New unless set, as in a resumed conversation. */
  readonly id?: string;
}

/** The model's turns after a prompt: calls, then the final text from what the model has read. */
export type FakeModel = (prompt: string, read: readonly string[]) => readonly FakeCall[] | string;

export interface FakeWorld {
  readonly model: FakeModel;
  /** Runs a tool. A throw is a failed tool; `interrupt` makes the whole query fail. */
  readonly run: (name: string, input: Record<string, unknown>) => unknown;
  /** Tools that need no permission. All unless set. */
  readonly allowed?: readonly string[];
}

export const interrupt = Symbol("the agent was interrupted");

/** A `query` of the SDK. `asked` has the options and prompts of its calls. */
export function fakeSdk(world: FakeWorld) {
  const asked: { prompt: unknown; options: QueryOptions }[] = [];
  async function* query(input: {
    prompt: string | AsyncIterable<never>;
    options?: QueryOptions;
  }): AsyncGenerator<SdkMessage> {
    const options = input.options ?? {};
    asked.push({ prompt: input.prompt, options });
    const agent = new FakeAgent(world, options);
    yield* agent.answer(typeof input.prompt === "string" ? input.prompt : null);
  }
  return { query, asked };
}

class FakeAgent {
  private readonly world: FakeWorld;
  private readonly options: QueryOptions;
  private readonly read: string[] = [];
  private deferred: FakeCall | null = null;

  constructor(world: FakeWorld, options: QueryOptions) {
    this.world = world;
    this.options = options;
  }

  async *answer(prompt: string | null): AsyncGenerator<SdkMessage> {
    const past = (await this.store.load(this.key(this.options["resume"] as string))) ?? [];
    if (prompt === null) {
      const call = past.findLast(({ type }) => type === "deferred")?.["call"] as FakeCall;
      await this.perform(call);
    } else await this.write([{ type: "user", uuid: randomUUID(), message: { content: prompt } }]);
    for (;;) {
      const said = this.world.model(prompt ?? "", this.read);
      const model = "claude-sonnet-5-5";
      const usage = { input_tokens: 1_000, output_tokens: 100 };
      yield { type: "assistant", message: { id: randomUUID(), model, usage } };
      if (typeof said === "string") {
        await this.write([{ type: "assistant", uuid: randomUUID() }]);
        return yield this.result({ result: said, stop_reason: "end_turn" });
      }
      for (const call of said) await this.perform({ id: randomUUID(), ...call });
      if (this.deferred) {
        await this.write([{ type: "deferred", call: this.deferred }]);
        return yield this.result({ result: "", stop_reason: "tool_deferred" });
      }
    }
  }

  private async perform(call: FakeCall): Promise<void> {
    const { id: toolUseId = "", name } = call;
    let { input } = call;
    const base = { tool_name: name, tool_input: input, tool_use_id: toolUseId };
    const { hookSpecificOutput: verdict } = await this.fire("PreToolUse", base);
    if (verdict?.permissionDecision === "defer") {
      this.deferred = call;
      return;
    }
    input = verdict?.updatedInput ?? input;
    let text = verdict?.permissionDecision === "deny" ? (verdict.permissionDecisionReason ?? "") : null;
    if (
      text === null &&
      verdict?.permissionDecision !== "allow" &&
      this.world.allowed?.includes(name) === false
    ) {
      const { signal } = new AbortController();
      const answer = await this.options.canUseTool?.(name, input, { signal, toolUseID: toolUseId });
      if (answer?.behavior === "deny") text = answer.message;
      else input = answer?.updatedInput ?? input;
    }
    if (text === null) text = await this.run(base, name, input);
    await this.fire("PostToolBatch", { tool_calls: [{ tool_use_id: toolUseId, tool_response: text }] });
    this.read.push(text);
    const content = [{ type: "tool_result", tool_use_id: toolUseId, content: text }];
    await this.write([{ type: "user", uuid: randomUUID(), message: { content } }]);
  }

  private async run(base: Partial<HookInput>, name: string, input: Record<string, unknown>): Promise<string> {
    let response: unknown;
    try {
      response = await this.world.run(name, input);
    } catch (error) {
      if (error === interrupt) throw new Error("the agent was interrupted");
      await this.fire("PostToolUseFailure", { ...base, error: String(error) });
      return String(error);
    }
    await this.fire("PostToolUse", { ...base, tool_response: response });
    return String(response);
  }

  private async fire(name: string, input: Partial<HookInput>): Promise<HookOutput> {
    let output: HookOutput = {};
    for (const { hooks } of this.options.hooks?.[name] ?? [])
      for (const hook of hooks) output = { ...output, ...(await hook({ hook_event_name: name, ...input })) };
    return output;
  }

  private result(more: Partial<SdkMessage>): SdkMessage {
    return { type: "result", subtype: "success", is_error: false, ...more };
  }

  private get store(): Store {
    return this.options["sessionStore"] as Store;
  }

  private key(resumed?: string) {
    const { sessionId = resumed ?? this.options["resume"] } = this.options;
    return { projectKey: "-project", sessionId: (resumed ?? sessionId) as string };
  }

  private write(entries: SessionStoreEntry[]): Promise<void> {
    return this.store.append(this.key(), entries);
  }
}
