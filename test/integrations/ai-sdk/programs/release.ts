// An agent of which another release is deployed. RELEASE has the texts and tools of a release as JSON. Its
// default export continues a session, as `holdfast check --against` needs it. Started as a program, it opens
// a store and works on the sessions that are named: release.ts <store> <session...>

import { appendFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { z } from "zod";
import { open, type Session } from "../../../../src/index.ts";
import { type DurableOptions, durable } from "../../../../src/integrations/ai-sdk/index.ts";
import { payingModel } from "../paying-model.ts";

export interface Release {
  readonly world: string;
  readonly system: string;
  /** The call in which the process dies: `find` has only read by then. */
  readonly dieIn?: "find" | "charge";
  readonly lacks?: "charge";
  readonly chargeNeedsCurrency?: boolean;
  readonly onDiverge?: DurableOptions["onDiverge"];
  readonly streams?: boolean;
  readonly ignores?: string;
}

export default async function agent(session: Session): Promise<unknown> {
  const release = JSON.parse(process.env["RELEASE"] ?? "{}") as Release;
  const { world, system, onDiverge, lacks, dieIn, chargeNeedsCurrency = false } = release;
  if (session.id === release.ignores) return null;
  const act = (line: string): void => {
    appendFileSync(world, `${line}\n`);
    if (line === dieIn) process.kill(process.pid, "SIGKILL");
  };
  const d = durable(session, onDiverge ? { onDiverge } : {});
  const order = z.object({ order: z.string() });
  const all = {
    find: tool({ inputSchema: order, execute: () => act("find") ?? "found" }),
    charge: tool({
      inputSchema: chargeNeedsCurrency ? order.extend({ currency: z.string() }) : order,
      execute: () => act("charge") ?? "charged",
    }),
    mail: tool({ inputSchema: z.object({ to: z.string() }), execute: () => act("mail") ?? "sent" }),
  };
  const { charge: _charge, ...others } = all;
  const model = payingModel();
  const { doGenerate, doStream } = model;
  model.doGenerate = (options) => act("asked") ?? doGenerate(options);
  model.doStream = (options) => act("asked") ?? doStream(options);
  const request = {
    model: d.model(model),
    tools: d.tools(lacks ? others : all, {
      find: { effect: "read" },
      ...(!lacks && { charge: { verify: () => act("verify") as never } }),
    }),
    system,
    messages: await d.messages({ id: "pay", text: "Pay order 4711" }),
    stopWhen: stepCountIs(9),
  };
  return release.streams ? streamText({ ...request, onError: () => undefined }) : generateText(request);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [store, ...sessions] = process.argv.slice(2);
  const holdfast = await open(store);
  for (const id of sessions) await agent(await holdfast.session(id));
  await holdfast.close();
}
