/**
 * A user's program with the Claude Agent SDK, for `main.ts` to start and kill:
 * `node host.mjs '{ "sdk": "…/sdk.mjs", "store": "state.db", … }'`. Prints one line of JSON per message, and last
 * `{ "ended": true }` or `{ "failed": … }`.
 */

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import { isHoldfastError, open } from "../../../src/index.ts";
import { durable, type EffectRule, landed, never } from "../../../src/integrations/claude-agent-sdk/index.ts";

/** The work order that `main.ts` passes. */
export interface HostOrder {
  /** The SDK's module. */
  readonly sdk: string;
  readonly store: string;
  readonly session: string;
  /** Makes the session as a fork of this one. */
  readonly forkOf?: string;
  readonly prompt: string;
  readonly promptId?: string;
  /** The file that stands for the world: one line per charge. */
  readonly world: string;
  readonly cwd: string;
  readonly model: string;
  readonly config: string;
  readonly verify?: boolean;
  readonly needsApproval?: boolean;
  readonly waiting?: "defer" | "hold";
  readonly dedupe?: "session";
  readonly allowed?: readonly string[];
  readonly limitUsd?: number;
  readonly maxTurns?: number;
}

const order = JSON.parse(process.argv[2] ?? "{}") as HostOrder;
const print = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`);

const charges = (): string[] =>
  existsSync(order.world) ? readFileSync(order.world, "utf8").split("\n").filter(Boolean) : [];

const effect = {
  ...(order.dedupe && { dedupe: order.dedupe }),
  ...(order.needsApproval && { needsApproval: true }),
  ...(order.verify && { verify: () => (charges().length > 0 ? landed("found in the books") : never()) }),
};
const effects: EffectRule[] = [
  { tool: "Bash", when: ({ command }) => String(command).includes("pay"), ...effect },
  { tool: "mcp__shop__*", ...effect },
];

// biome-ignore lint/suspicious/noExplicitAny: the real SDK is not installed where this is compiled.
const { query, tool, createSdkMcpServer }: any = await import(pathToFileURL(order.sdk).href);
const charge = tool("charge", "Charges an order", { order: z.string() }, async (input: { order: string }) => {
  appendFileSync(order.world, `${input.order}\n`);
  return { content: [{ type: "text", text: `charged ${input.order}` }] };
});
const shop = createSdkMcpServer({ name: "shop", tools: [charge] });

const holdfast = await open(order.store);
try {
  if (order.forkOf !== undefined)
    await holdfast.sessions.fork(order.forkOf, order.session, { effects: "live" });
  const session = await holdfast.session(order.session, { ifHeld: "wait" });
  if (order.limitUsd !== undefined) await session.limit({ usd: order.limitUsd });
  const d = durable(session, query, { effects, ...(order.waiting && { waiting: order.waiting }) });
  const { promptId: id, prompt: text } = order;
  const options = {
    cwd: order.cwd,
    settingSources: [],
    mcpServers: { shop },
    allowedTools: order.allowed ?? ["Bash", "mcp__shop__charge"],
    env: {
      ...process.env,
      HOST_PID: String(process.pid),
      WORLD: order.world,
      ANTHROPIC_BASE_URL: order.model,
      ANTHROPIC_API_KEY: "none",
      CLAUDE_CONFIG_DIR: order.config,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    },
  };
  for await (const message of d.query({ prompt: id === undefined ? text : { id, text }, options }))
    print(message);
  print({ ended: true, spent: session.budget.spent, open: session.openCalls.map(({ callId }) => callId) });
} catch (error) {
  const { code, message } = error as { code?: string; message: string };
  print({ failed: isHoldfastError(error) ? code : "ERROR", message });
} finally {
  await holdfast.close();
}
