/**
 * The agent: an ordinary program. It is killed at the worst moments, and what resumes it is running it again.
 *
 *     node scripts/run.mjs demo/agent.ts <folder> <address of the world>
 */

import { join } from "node:path";
import { type Model, open, type Resumed, type RunProgress, type RunResult } from "../src/index.ts";
import { plantBug } from "./planted-bugs.ts";
import { toolsFor } from "./tools.ts";

/** What the program tells whoever watches it. Nothing depends on anybody listening. */
export type Told =
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

// Where a dead owner cannot be told from a silent one, its lease has to run out first: two seconds, not thirty.
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

function tell(told: Told): void {
  process.send?.(told);
}
