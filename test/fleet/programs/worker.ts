// A worker of a fleet: runs the sessions it is handed, several at once, on a shared store.

// First, so that no module keeps the true clock.
import "../jumping-clock.ts";

import { createInterface } from "node:readline";
import { type Holdfast, isHoldfastError, open } from "../../../src/index.ts";
import { openStore } from "../../../src/open-store.ts";
import { HarnessChannel } from "../../../torture/agent/harness-channel.ts";
import { scriptedModel } from "../../../torture/agent/model.ts";
import { plantBeforeRun, plantInStore, plantInTools } from "../../../torture/agent/planted-bugs.ts";
import { recorded } from "../../../torture/agent/recorder.ts";
import { asList, makeTools } from "../../../torture/agent/tools.ts";
import { type AgentConfig, PROMPT } from "../../../torture/scenario.ts";
import { jump } from "../jumping-clock.ts";
import { scriptOf, type WorkerConfig } from "../orders.ts";

const config = JSON.parse(process.argv[2] ?? "{}") as WorkerConfig;
const talk = new HarnessChannel(true, false);

async function main(): Promise<void> {
  const { address, leaseMs, plant } = config;
  const bare = await openStore(address);
  const store = recorded(plantInStore(plant, bare), config.dir);
  const holdfast = await open(undefined, { store, leaseMs });
  talk.say({ at: "ready" });
  const running = new Set<Promise<void>>();
  // The end of the input is the end of the work.
  for await (const session of createInterface({ input: process.stdin })) {
    const run = attempt(holdfast, session).finally(() => running.delete(run));
    running.add(run);
  }
  await Promise.all(running);
  await holdfast.close();
}

async function attempt(holdfast: Holdfast, id: string): Promise<void> {
  try {
    talk.say(await runSession(holdfast, id));
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    talk.say({ at: "gone", session: id, code: error.code });
  }
}

async function runSession(holdfast: Holdfast, id: string): Promise<object> {
  const { dir, world, leaseMs, plant, thinkMs } = config;
  const scenario = scriptOf(id);
  const agent: AgentConfig = {
    dir,
    world,
    scenario,
    leaseMs,
    plant,
    stops: false,
    stopsWhenSent: false,
    talks: true,
    gated: false,
  };
  const session = await holdfast.session(id);
  try {
    talk.say({ at: "taken", session: id });
    const sent = (): void => talk.say({ at: "sent", session: id });
    const think = (): Promise<void> => {
      return new Promise((resolve) => {
        setTimeout(() => {
          // Right before a write, so that each of its times is recorded whatever the others do.
          if (config.jumpMs !== 0) jump(config.jumpMs);
          resolve();
        }, Math.random() * thinkMs);
      });
    };
    const tools = plantInTools(plant, makeTools(agent, sent));
    await plantBeforeRun(plant, session, tools);
    const { status, waiting } = await session.run({
      model: scriptedModel(agent, id, think),
      tools: asList(tools),
      prompt: PROMPT,
      parallel: scenario.parallel,
    });
    const persons = waiting.filter((call) => call.person).length;
    return { at: "result", session: id, status, persons };
  } finally {
    await session.close();
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
