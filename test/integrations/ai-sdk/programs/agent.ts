// An AI SDK program that looks up an order, charges it and mails the customer. Its model answers differently
// each time. Restarted after a kill, it continues. It runs its jobs in sequence and prints each result.
//
//     agent.ts <jobs as JSON>

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { landed, never, open } from "../../../../src/index.ts";
import { callContext, durable } from "../../../../src/integrations/ai-sdk/index.ts";
import { payingModel } from "../paying-model.ts";

export interface Job {
  readonly how: "durable" | "bare";
  readonly call: "generate" | "stream";
  readonly store: string;
  readonly world: string;
  readonly kill?: "inside" | "between";
}

const seen = ({ world }: Job, line: string): boolean =>
  existsSync(world) && readFileSync(world, "utf8").includes(line);

const die = (): void => {
  process.kill(process.pid, "SIGKILL");
};

function toolsOf(job: Job) {
  const act = (line: string): void => appendFileSync(job.world, `${line}\n`);
  /** Only durable tools have a key. */
  const keyOf = (options: object): string => (job.how === "bare" ? "" : ` ${callContext(options).key}`);
  return {
    find: tool({
      description: "Finds an order",
      inputSchema: z.object({ order: z.string() }),
      // A read with a different result each time.
      execute: ({ order }) => ({ order, cents: 1200, readAt: `${Date.now()} ${Math.random()}` }),
    }),
    charge: tool({
      description: "Charges an order",
      inputSchema: z.object({ order: z.string(), note: z.string() }),
      execute: ({ order }, options) => {
        act(`charge ${order}${keyOf(options)}`);
        if (job.kill === "inside") die();
        return { charged: order };
      },
    }),
    mail: tool({
      description: "Mails the customer",
      inputSchema: z.object({ to: z.string(), text: z.string() }),
      execute: async ({ to }, options) => {
        // After the charge, so that only one kill can hit between them.
        while (!seen(job, "charge 4711")) await new Promise((resolve) => setTimeout(resolve, 5));
        if (job.kill === "between") die();
        act(`mail ${to}${keyOf(options)}`);
        return "sent";
      },
    }),
  };
}

async function work(job: Job): Promise<string> {
  const holdfast = await open(job.store);
  const session = await holdfast.session("order-4711");
  const d = durable(session);
  const verify =
    (what: string) =>
    (_args: unknown, { key }: { key: string }) =>
      seen(job, `${what} ${key}`) ? landed({ found: key }) : never();
  const tools = toolsOf(job);
  const isBare = job.how === "bare";
  const request = {
    model: isBare ? payingModel() : d.model(payingModel()),
    tools: isBare
      ? tools
      : d.tools(tools, {
          find: { effect: "read" },
          charge: { effect: "mutate", verify: verify("charge 4711") as never },
          mail: { effect: "mutate", verify: verify("mail ann") as never },
        }),
    system: "You pay orders.",
    messages: isBare
      ? [{ role: "user" as const, content: "Pay order 4711" }]
      : await d.messages("Pay order 4711"),
    stopWhen: stepCountIs(9),
  };
  const text =
    job.call === "stream"
      ? await streamText(request).text
      : await generateText(request).then((result) => result.text);
  await holdfast.close();
  return text;
}

for (const job of JSON.parse(process.argv[2] ?? "[]") as Job[]) console.log(await work(job));
