/**
 * An agent of the Claude Agent SDK that is interrupted right after it has paid. Run again, it continues, and
 * the order is paid once. The agent here is a stand-in, so that the example runs without the SDK and a key.
 * In your program write: import { query } from "@anthropic-ai/claude-agent-sdk";
 */

import { join } from "node:path";
import { open } from "holdfast";
import { durable, landed, never } from "holdfast/claude-agent-sdk";
import { temporaryFolder } from "./temporary-folder.ts";

const payments: string[] = [];
let isCrashing = true;

const effects = [
  {
    tool: "mcp__shop__pay",
    // Asks the shop whether the interrupted payment took place.
    verify: () => (payments.length > 0 ? landed(`receipt ${payments.length}`) : never()),
  },
];

const folder = temporaryFolder();
for (const run of ["first", "second"]) {
  await using holdfast = await open(join(folder, "state.db"));
  await using session = await holdfast.session("order-4711");
  const d = durable(session, query, { effects });
  try {
    for await (const message of d.query({ prompt: "Pay order 4711" }))
      if (message.type === "result") console.log(`${run} run: ${message.result}`);
  } catch (error) {
    console.log(`${run} run: ${(error as Error).message}`);
  }
  console.log(`payments after it: ${payments.length}`);
}

// ---- The stand-in: asks for one payment and calls the hooks as the SDK does.

type Hook = (input: object) => Promise<{ hookSpecificOutput?: { permissionDecisionReason?: string } }>;
interface Options {
  readonly hooks?: Readonly<Record<string, readonly { readonly hooks: readonly Hook[] }[]>>;
}

async function* query({ options }: { prompt: unknown; options?: Options }) {
  const call = { tool_name: "mcp__shop__pay", tool_input: { order: "4711" }, tool_use_id: "toolu_1" };
  const fire = async (event: string, more: object = {}) =>
    options?.hooks?.[event]?.[0]?.hooks[0]?.({ hook_event_name: event, ...call, ...more });
  const refused = (await fire("PreToolUse"))?.hookSpecificOutput?.permissionDecisionReason;
  if (!refused) {
    payments.push("4711");
    if (isCrashing) {
      isCrashing = false;
      throw new Error("the machine crashes");
    }
    await fire("PostToolUse", { tool_response: `receipt ${payments.length}` });
  }
  yield { type: "result", subtype: "success", result: refused ?? "Paid." };
}
