/**
 * The agent: an ordinary program. It is killed at the worst moments, and resumed by running it again.
 *
 *     node scripts/run.mjs demo/agent.ts <folder> <address of the world>
 */

import { join } from "node:path";
import { type Model, open, type Resumed, type RunProgress, type RunResult } from "../src/index.ts";
import { plantBug } from "./planted-bugs.ts";
import { toolsFor } from "./tools.ts";

/** Messages to the conductor. The agent does not depend on anyone reading them. */
export type AgentMessage =
  | { readonly type: "opened"; readonly resumed: Resumed | null }
  | { readonly type: "progress"; readonly progress: RunProgress }
  | { readonly type: "ended"; readonly result: RunResult };

const PROMPT = {
  id: "closing",
  text: "Close the open orders: charge, mail receipts, page the desk, report.",
};

const [, , folder = "", world = ""] = process.argv;
const orphaned = (): never => process.exit(1);
process.on("disconnect", orphaned);

const model: Model = async ({ messages, signal }) => {
  const response = await fetch(`${world}/model`, {
    method: "POST",
    body: JSON.stringify({ messages }),
    signal,
  });
  return (await response.json()) as Awaited<ReturnType<Model>>;
};

// On systems where a dead owner cannot be detected, its lease must expire first: two seconds, not thirty.
const holdfast = await open(join(folder, "store.db"), { leaseMs: 2_000 });
const session = await holdfast.session("closing", { title: "Close the open orders", label: "agent" });
tell({ type: "opened", resumed: session.resumed });
const tools = await plantBug(toolsFor(world, folder, session), session);
const result = await session.run({
  model,
  tools,
  prompt: PROMPT,
  budget: { usd: 1, perCall: { usd: 0.01 } },
  on: (progress) => tell({ type: "progress", progress }),
});
tell({ type: "ended", result });
await holdfast.close();
process.off("disconnect", orphaned);
process.disconnect?.();

function tell(told: AgentMessage): void {
  process.send?.(told);
}
