// An agent that charges an order, with OpenAI Agents' own run() and a model behind OpenAI's wire format.
// Restarted after a kill, it runs the same input again. It runs its jobs in sequence and prints each result.
//
//     agent.ts <jobs as JSON>

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { Agent, MemorySession, OpenAIProvider, run, setTracingDisabled, tool } from "@openai/agents";
import { z } from "zod";
import { landed, never, open } from "../../../../src/index.ts";
import { durable } from "../../../../src/integrations/openai-agents/index.ts";

export interface Job {
  /** Address of the model. */
  readonly url: string;
  readonly how: "durable" | "bare";
  readonly api: "responses" | "chat";
  readonly stream: boolean;
  readonly store: string;
  readonly world: string;
  readonly kill?: "inside the tool";
  /** Id of the input. Without it, the text identifies the input. */
  readonly id?: string;
}

setTracingDisabled(true);

function charge(job: Job): string {
  appendFileSync(job.world, "charge 4711\n");
  if (job.kill) process.kill(process.pid, "SIGKILL");
  return "charged 4711";
}

const PARAMETERS = z.object({ order: z.string(), note: z.string() });

async function work(job: Job): Promise<string> {
  const model = await new OpenAIProvider({
    apiKey: "none",
    baseURL: job.url,
    useResponses: job.api === "responses",
  }).getModel("gpt-test");
  const named = { name: "charge", description: "Charges an order", parameters: PARAMETERS };
  if (job.how === "bare") {
    const agent = new Agent({ name: "Shop", model, tools: [tool({ ...named, execute: () => charge(job) })] });
    return String((await run(agent, "Pay order 4711", { session: new MemorySession() })).finalOutput);
  }
  const holdfast = await open(job.store);
  const session = await holdfast.session("order-4711");
  const d = durable(session);
  const isCharged = () => existsSync(job.world) && readFileSync(job.world, "utf8").includes("charge 4711");
  const durableCharge = d.tool({
    ...named,
    execute: () => charge(job),
    verify: () => (isCharged() ? landed("charged 4711") : never()),
  });
  const agent = new Agent({ name: "Shop", model: d.model(model), tools: [durableCharge] });
  const input = await d.input({ text: "Pay order 4711", ...(job.id !== undefined && { id: job.id }) });
  const result = job.stream
    ? await run(agent, input, { session: d.session, stream: true })
    : await run(agent, input, { session: d.session });
  if ("completed" in result) await result.completed;
  const items = await d.session.getItems();
  await session.close();
  await holdfast.close();
  return `${items.length} items: ${result.finalOutput}`;
}

for (const job of JSON.parse(process.argv[2] ?? "[]") as Job[]) console.log(await work(job));
