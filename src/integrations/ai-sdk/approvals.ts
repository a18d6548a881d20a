/**
 * Which calls a person has to approve. A tool says so itself (`needsApproval`), or the program does
 * (`toolApproval` of AI SDK 7), which decides over the tool.
 *
 *     approvals: "queue"   the SDK is told that nothing is needed, and starts the call; the ledger holds it
 *                          until a person answers with `holdfast approve` or `holdfast deny`
 *     approvals: "sdk"     the SDK asks in its own messages, signed if the program has a secret; the ledger
 *                          gets the call when the SDK starts it
 */

import { validate } from "../../ledger/index.ts";
import { HoldfastError } from "../../model/errors.ts";
import type { DurableOptions } from "./options.ts";
import { type AnyTool, schemaOf } from "./sdk-tool.ts";

type Status = { readonly type: string; readonly reason?: string };
type GivenStatus = string | Status | undefined;

/** The arguments of a `toolApproval` function. */
interface ApprovalRequest {
  readonly toolCall: { readonly toolCallId: string; readonly toolName: string; readonly input: unknown };
  readonly tools?: { readonly [name: string]: AnyTool };
  readonly toolsContext?: { readonly [name: string]: unknown };
  readonly runtimeContext?: unknown;
  readonly messages: readonly unknown[];
}

type ForAll = (request: ApprovalRequest) => GivenStatus | PromiseLike<GivenStatus>;
type ForOne = (input: unknown, options: object) => GivenStatus | PromiseLike<GivenStatus>;
type ByTool = { readonly [name: string]: GivenStatus | ForOne };

export class Approvals {
  private readonly place: DurableOptions["approvals"];
  /** The verdict of `toolApproval`, or its reason, by call. Without one the call's tool decides. */
  private readonly decided = new Map<string, boolean | string>();

  constructor(place: DurableOptions["approvals"] = "queue") {
    this.place = place;
  }

  wrap<Approval>(approval: Approval): Approval {
    if (this.place === "sdk" || approval === undefined) return approval;
    const decide: ForAll = async (request) => {
      const status = await statusOf(approval as ForAll | ByTool, request);
      if (!status || status.type === "not-applicable") {
        if (status) this.decided.set(request.toolCall.toolCallId, false);
        return undefined;
      }
      const isForPerson = status.type === "user-approval";
      this.decided.set(request.toolCall.toolCallId, isForPerson && (status.reason ?? true));
      return isForPerson ? undefined : status;
    };
    return decide as Approval;
  }

  /** False, or true, or the reason for the person who approves the call. */
  async isNeeded(
    { needsApproval = false }: AnyTool,
    input: unknown,
    options: { readonly toolCallId: string },
  ): Promise<boolean | string> {
    if (this.place === "sdk") return false;
    const decided = this.decided.get(options.toolCallId);
    if (decided !== undefined) return decided;
    return Boolean(typeof needsApproval === "function" ? await needsApproval(input, options) : needsApproval);
  }
}

/** Asks as the SDK does. Null if the configuration says nothing about this tool. */
async function statusOf(approval: ForAll | ByTool, request: ApprovalRequest): Promise<Status | null> {
  const { toolCall, tools = {}, toolsContext = {}, messages, runtimeContext } = request;
  const { toolCallId, toolName, input } = toolCall;
  if (typeof approval === "function") return asStatus(await approval(request)) ?? { type: "not-applicable" };
  const rule = Object.hasOwn(approval, toolName) ? approval[toolName] : undefined;
  if (typeof rule !== "function") return asStatus(rule);
  const given = Object.hasOwn(toolsContext, toolName) ? toolsContext[toolName] : undefined;
  const schema = Object.hasOwn(tools, toolName) ? tools[toolName]?.contextSchema : undefined;
  const context = schema ? await validate(schemaOf(schema), given) : { value: given };
  if ("problem" in context) {
    throw new HoldfastError("INPUT_INVALID", `context of tool ${toolName}: ${context.problem}`, {
      hint: "Pass a context that the tool's contextSchema accepts in toolsContext.",
    });
  }
  const options = { toolCallId, messages, toolContext: context.value, runtimeContext };
  return asStatus(await rule(input, options)) ?? { type: "not-applicable" };
}

function asStatus(status: GivenStatus): Status | null {
  if (status === undefined) return null;
  return typeof status === "string" ? { type: status } : status;
}
