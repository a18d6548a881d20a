// An AI SDK program that looks up an order, charges it and mails the customer. Its model says something else each time it
// is asked. Started again after it was killed, it goes on.
//
//     agent.ts <store> <world log> <how: durable | bare> <call: generate | stream> [<kill: inside | between>]

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { landed, never, open } from "../../../../src/index.ts";
import { callContext, durable } from "../../../../src/integrations/ai-sdk/index.ts";
import { payingModel } from "../paying-model.ts";

const [address = "", world = "", how = "", call = "", kill = ""] = process.argv.slice(2);

function act(line: string): void {
  appendFileSync(world, `${line}\n`);
}

const seen = (line: string): boolean => existsSync(world) && readFileSync(world, "utf8").includes(line);

const die = (): void => {
  process.kill(process.pid, "SIGKILL");
};

/** Only durable tools have a key. */
const keyOf = (options: object): string => (how === "bare" ? "" : ` ${callContext(options).key}`);

const tools = {
  find: tool({
    description: "Finds an order",
    inputSchema: z.object({ order: z.string() }),
    // A read that gives another answer each time.
    execute: ({ order }) => ({ order, cents: 1200, readAt: `${Date.now()} ${Math.random()}` }),
  }),
  charge: tool({
    description: "Charges an order",
    inputSchema: z.object({ order: z.string(), note: z.string() }),
    execute: ({ order }, options) => {
      act(`charge ${order}${keyOf(options)}`);
      if (kill === "inside") die();
      return { charged: order };
    },
  }),
  mail: tool({
    description: "Mails the customer",
    inputSchema: z.object({ to: z.string(), text: z.string() }),
    execute: async ({ to }, options) => {
      // After the charge, so that a kill between the two is one.
      while (!seen("charge 4711")) await new Promise((resolve) => setTimeout(resolve, 5));
      if (kill === "between") die();
      act(`mail ${to}${keyOf(options)}`);
      return "sent";
    },
  }),
};

const holdfast = await open(address);
const session = await holdfast.session("order-4711");
const d = durable(session);
const verify =
  (what: string) =>
  (_args: unknown, { key }: { key: string }) =>
    seen(`${what} ${key}`) ? landed({ found: key }) : never();

const request = {
  model: how === "bare" ? payingModel() : d.model(payingModel()),
  tools:
    how === "bare"
      ? tools
      : d.tools(tools, {
          find: { effect: "read" },
          charge: { effect: "mutate", verify: verify("charge 4711") as never },
          mail: { effect: "mutate", verify: verify("mail ann") as never },
        }),
  system: "You pay orders.",
  messages:
    how === "bare"
      ? [{ role: "user" as const, content: "Pay order 4711" }]
      : await d.messages("Pay order 4711"),
  stopWhen: stepCountIs(9),
};
const text =
  call === "stream"
    ? await streamText(request).text
    : await generateText(request).then((result) => result.text);
console.log(text);
await holdfast.close();
