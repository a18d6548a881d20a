// An agent of which another release is deployed. RELEASE has its instructions, and whether its model is down
// after the first call. Its default export continues a session, as `holdfast check --against` needs it.

import { Agent, run, setTracingDisabled } from "@openai/agents";
import { z } from "zod";
import type { Session } from "../../../../src/index.ts";
import { durable } from "../../../../src/integrations/openai-agents/index.ts";
import { resultsIn, ScriptedModel } from "../scripted-model.ts";

setTracingDisabled(true);

export interface Release {
  readonly instructions: string;
  readonly isDown?: boolean;
}

export default async function agent(session: Session): Promise<unknown> {
  const { instructions, isDown = false } = JSON.parse(process.env["RELEASE"] ?? "{}") as Release;
  const model = new ScriptedModel((request) => {
    if (!isDown) throw new Error("a rehearsal asked its model");
    if (resultsIn(request) > 0) throw new Error("down");
    return [{ call: "charge", args: {} }];
  });
  const d = durable(session);
  const charge = d.tool({
    name: "charge",
    description: "Charges an order",
    parameters: z.object({}),
    execute: () => (isDown ? "charged" : Promise.reject(new Error("a rehearsal ran its tool"))),
  });
  const clerk = new Agent({ name: "Clerk", instructions, model: d.model(model), tools: [charge] });
  return run(clerk, await d.input({ id: "p", text: "Pay" }), { session: d.session });
}
