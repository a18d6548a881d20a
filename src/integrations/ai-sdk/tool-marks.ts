/**
 * Which tools came through `d.tools`. The SDK runs tools itself and shows its model only what a provider has to know of them:
 * that is where the mark stands. The durable model looks for it before it asks, and takes it out, so that no provider reads it.
 *
 *     function tool    without the mark the question is refused: nobody can see from here whether the SDK would run it
 *     provider's tool  mostly run by the provider, so it may be plain; an answer that leaves a call of it to us is refused
 */

import { HoldfastError } from "../../model/errors.ts";
import type { CallOptions, GenerateResult } from "./language-model.ts";

const MARK = "holdfast";

type Members = { readonly [name: string]: unknown };
type AnyTool = { readonly type?: string; readonly args?: Members; readonly providerOptions?: Members };

export function marked<Tool extends object>(tool: Tool): Tool {
  const { type, args, providerOptions } = tool as AnyTool;
  const mark = { [MARK]: { durable: true } };
  return type === "provider"
    ? { ...tool, args: { ...args, ...mark } }
    : { ...tool, providerOptions: { ...providerOptions, ...mark } };
}

type GivenTool = NonNullable<CallOptions["tools"]>[number];

/** The request as the provider may read it. Throws if a tool would be run outside the ledger. */
export function unmarked(options: CallOptions): CallOptions {
  const { tools } = options;
  if (!tools) return options;
  const plain = tools.filter((each) => each.type === "function" && !isMarked(each));
  if (plain.length > 0) throw outsideLedger(plain, "The model was not asked");
  return { ...options, tools: tools.map(withoutMark) };
}

/** Throws if an answer calls a provider's tool that the SDK would run outside the ledger. */
export function mustBeInLedger({ content }: GenerateResult, { tools = [] }: CallOptions): void {
  const called = new Set(
    content.flatMap((part) => (part.type === "tool-call" && !part.providerExecuted ? [part.toolName] : [])),
  );
  const plain = tools.filter((each) => called.has(each.name) && !isMarked(each));
  if (plain.length > 0) throw outsideLedger(plain, "It was called and has not been run");
}

function isMarked(tool: GivenTool): boolean {
  return (tool.type === "provider" ? tool.args : tool.providerOptions)?.[MARK] !== undefined;
}

function withoutMark(tool: GivenTool): GivenTool {
  if (!isMarked(tool)) return tool;
  if (tool.type === "provider") {
    const { [MARK]: _mark, ...args } = tool.args;
    return { ...tool, args };
  }
  const { providerOptions, ...rest } = tool;
  const { [MARK]: _mark, ...others } = providerOptions ?? {};
  return Object.keys(others).length > 0 ? { ...rest, providerOptions: others } : rest;
}

function outsideLedger(tools: readonly GivenTool[], sofar: string): HoldfastError {
  const names = tools.map(({ name }) => name);
  const [subject, its] = names.length === 1 ? ["tool", "its"] : ["tools", "their"];
  return new HoldfastError(
    "INPUT_INVALID",
    `${subject} ${names.join(", ")} did not come through d.tools: a crash could run ${its} calls twice. ${sofar}`,
    {
      hint: `Write tools: d.tools({ ${names.join(", ")} }), for tools without execute as well; { effect: "read" } for those that only read.`,
      data: { tools: names },
    },
  );
}
