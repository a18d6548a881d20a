/** The page of the demo: it shows the kills as they happen, and then a call that waits for the person. */

import { tool } from "../ledger/index.ts";
import { shellWord } from "../model/names.ts";
import type { Holdfast } from "../open.ts";
import { startUi, type Ui } from "../web/index.ts";
import { typedName } from "../wiring/index.ts";
import { reportWarning } from "./failure.ts";
import { contextOf } from "./run-command.ts";
import { UI_PORT } from "./screen.ts";
import { stopped } from "./ui-command.ts";

/** How long the demo rests between two runs while its page is open. */
const LOOK_MS = 2_500;

export interface DemoPage {
  readonly url: string;
  /** Gives a person time to look, between two runs. */
  rest(): Promise<void>;
  /** Leaves a call to the person, and serves the page until they end the demo. */
  untilStopped(): Promise<void>;
}

/** The page over the store of a demo. On a terminal the demo starts once the person has opened it. */
export async function serveDemo(store: string): Promise<DemoPage> {
  const options = { store, by: "you" };
  const context = await contextOf(options, { via: "web" });
  await context.create();
  const warn = (error: unknown): void => reportWarning(error, false);
  const typed = { program: typedName(), store: ` --store ${shellWord(store)}` };
  const start = (port: number): Promise<Ui> => startUi({ context, port, readOnly: null, warn, typed });
  const server = await start(UI_PORT).catch(() => start(0));
  process.stderr.write(`Watch it here: ${server.url}\n`);
  if (process.stdin.isTTY) await enterPressed();
  return {
    url: server.url,
    rest: () => new Promise((resolve) => setTimeout(resolve, LOOK_MS)),
    async untilStopped() {
      const asking = askForRefund(await context.holdfast(), server.port);
      await Promise.race([stopped(), asking.then(stopped)]);
      await server.close();
      await context.close();
    },
  };
}

async function enterPressed(): Promise<void> {
  process.stderr.write("Open it, then press Enter to start.\n");
  await new Promise((resolve) => process.stdin.once("data", resolve));
  process.stdin.pause();
}

const anything = {
  "~standard": {
    version: 1,
    vendor: "holdfast",
    validate: (value: unknown) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
} as const;

/** A second agent, which may not pay back by itself. Resolves once the person has answered and it is done. */
async function askForRefund(holdfast: Holdfast, port: number): Promise<void> {
  let isPaid = false;
  const refund = tool({
    name: "refund",
    description: "Pays back an order",
    effect: "mutate",
    input: anything,
    needsApproval: true,
    execute: () => {
      isPaid = true;
      return { refunded: true };
    },
  });
  const session = await holdfast.session("refund", { title: "Pay back order 4711" });
  const args = { order: "4711", eur: 30, reason: "arrived damaged" };
  const run = () =>
    session.run({
      prompt: { id: "refund", text: "The customer of order 4711 wants the money back." },
      tools: [refund],
      model: async ({ messages }) =>
        messages.at(-1)?.role === "tool"
          ? { message: { text: isPaid ? "It is paid back." : "It is not paid back." } }
          : { message: { blocks: [{ kind: "tool_call", id: "c_refund", name: "refund", args }] } },
    });
  let next = changed(holdfast, "session/refund");
  let result = await run();
  process.stderr.write(`One call waits for you: http://127.0.0.1:${port}/#/inbox\n`);
  process.stderr.write(
    "Press a to approve or d to deny, type a reason, press Enter twice. Ctrl-C ends the demo.\n",
  );
  while (result.status === "waiting") {
    await next;
    next = changed(holdfast, "session/refund");
    result = await run();
  }
  await session.close();
  process.stderr.write(`You answered, and the agent went on: ${result.text} Ctrl-C ends the demo.\n`);
}

function changed({ journal }: Holdfast, stream: string): Promise<void> {
  return new Promise((resolve) => {
    const stop = journal.watch(stream, () => {
      stop();
      resolve();
    });
  });
}
