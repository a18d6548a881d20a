/** LangGraph nodes and LangChain tools whose side effects happen once (`effects.ts`). */

import type { RunnableConfig } from "@langchain/core/runnables";
import type { ToolRunnableConfig, ToolWrapperParams } from "@langchain/core/tools";
import { DynamicStructuredTool } from "@langchain/core/tools";
import type { InferInteropZodOutput, InteropZodObject } from "@langchain/core/utils/types";
import type { Json } from "../../model/json.ts";
import { type Effects, type Stop, withEffects } from "./effects.ts";
import { asInterrupt } from "./errors.ts";
import type { HoldfastSaver } from "./saver.ts";

/**
 * A node whose effects happen once, although LangGraph may run the node many times: after a crash, after
 * `interrupt()`, by a retry policy. Compile the graph with the same saver.
 * @example
 * builder.addNode("pay", durableNode(saver, async (state: State, effects) => ({
 *   receipt: await effects.call(charge, { order: state.order }),
 * })));
 */
export function durableNode<State, Update>(
  saver: HoldfastSaver,
  body: (state: State, effects: Effects, config: RunnableConfig) => Promise<Update> | Update,
): (state: State, config: RunnableConfig) => Promise<Update> {
  const caller = { tool: null, toolCall: null, args: null, toThrown: ({ error }: Stop) => error };
  return (state, config) => withEffects(saver, config, caller, (effects) => body(state, effects, config));
}

/**
 * LangChain's `tool()`, with effects that happen once per tool call of a message. It works in a ToolNode, and
 * in a node that calls it with its own config: `refund.invoke(args, config)`.
 * @example
 * const body = async ({ order }, effects) => effects.effect("refund", ({ key }) => refund(order, { key }));
 * const tool = durableTool(saver, body, { name: "refund", schema: z.object({ order: z.string() }) });
 */
export function durableTool<Schema extends InteropZodObject, Output>(
  saver: HoldfastSaver,
  body: (
    args: InferInteropZodOutput<Schema>,
    effects: Effects,
    config: RunnableConfig,
  ) => Promise<Output> | Output,
  fields: ToolWrapperParams<Schema>,
): DynamicStructuredTool<Schema> {
  const { name } = fields;
  return new DynamicStructuredTool({
    ...fields,
    description: fields.description ?? name,
    schema: fields.schema as Schema,
    func: (args: unknown, _manager: unknown, config: ToolRunnableConfig = {}) => {
      const { toolCall } = config;
      // A node that calls the tool gets the error itself; for a tool call of a message only the model would
      // get it.
      const toThrown = ({ error, callId }: Stop) => (toolCall ? asInterrupt(error, name, callId) : error);
      const caller = { tool: name, toolCall: toolCall?.id ?? null, args: toJson(args), toThrown };
      return withEffects(saver, config, caller, (effects) =>
        body(args as InferInteropZodOutput<Schema>, effects, config),
      );
    },
  } as never);
}

/** Approximates values that JSON lacks: the result is only compared and shown. */
function toJson(args: unknown): Json {
  const text = JSON.stringify(args, (_name, value) => (typeof value === "bigint" ? `${value}n` : value));
  return text === undefined ? null : (JSON.parse(text) as Json);
}
