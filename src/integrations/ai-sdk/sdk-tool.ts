/** The members of the SDK's tools that matter here, of AI SDK 6 and 7 alike, and their schemas. */

import type { StandardSchema } from "../../ledger/index.ts";
import type { ModelMessage, ToolSet } from "./sdk-types.ts";

/** `context` is of AI SDK 7, `experimental_context` of 6. */
export interface ExecutionOptions {
  readonly toolCallId: string;
  readonly messages: ModelMessage[];
  readonly abortSignal?: AbortSignal;
  readonly context?: unknown;
  readonly experimental_context?: unknown;
}

export type AnyTool = {
  /** AI SDK 7 also takes a function. */
  readonly description?: string | ((options: never) => string);
  readonly inputSchema?: InputSchema;
  readonly contextSchema?: InputSchema;
  readonly needsApproval?: NeedsApproval;
  readonly execute?: (input: unknown, options: object) => unknown;
  readonly toModelOutput?: (options: object) => Output | PromiseLike<Output>;
  /** AI SDK 7: the tool runs other tools for the model, for example from code that the model wrote. */
  readonly experimental_toolCaller?: ToolCaller;
};

type NeedsApproval = boolean | ((input: unknown, options: object) => boolean | PromiseLike<boolean>);

/** `local` is run by the SDK, which binds it to the tools that it may call. */
export type ToolCaller = { readonly type: string; readonly bind?: (tools: ToolSet) => AnyTool };

export type Output = { readonly type: string; readonly value?: unknown };

/** A Standard Schema, one of the SDK's own, or a function that makes one. */
type InputSchema =
  | StandardSchema<unknown, unknown>
  | { readonly validate?: (value: unknown) => SdkVerdict | PromiseLike<SdkVerdict> }
  | (() => InputSchema);

type SdkVerdict =
  | { readonly success: true; readonly value: unknown }
  | { readonly success: false; readonly error: Error };

/** Validates recorded arguments. The SDK itself validates only what its model says now. */
export function schemaOf(inputSchema: InputSchema | undefined): StandardSchema<unknown, unknown> {
  const validate = async (value: unknown) => {
    const isLazy = typeof inputSchema === "function" && !("~standard" in inputSchema);
    const schema = isLazy ? inputSchema() : inputSchema;
    if (!schema) return { value };
    if ("~standard" in schema) return schema["~standard"].validate(value);
    if (typeof schema === "function") return schemaOf(schema)["~standard"].validate(value);
    const verdict = (await schema.validate?.(value)) ?? { success: true, value };
    return verdict.success ? { value: verdict.value } : { issues: [{ message: verdict.error.message }] };
  };
  return { "~standard": { version: 1, vendor: "holdfast", validate } };
}
