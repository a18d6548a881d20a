/**
 * A person gives commands to a session that a live process holds. Each case returns how long they took to
 * arrive.
 */

import { type Holdfast, open } from "../../src/index.ts";
import { check, gather, type Violation } from "../checker/index.ts";
import type { Child, Said } from "../processes.ts";
import { PROMPT, type Scenario, SESSION } from "../scenario.ts";
import { openStore } from "../store-under-test.ts";
import type { Workshop } from "../workshop.ts";
import { post } from "../world/client.ts";
import { readEntries } from "../world/log.ts";
import { agentConfig, runToTheEnd, startAgent } from "./case.ts";

export interface Meanwhile {
  readonly tookMs: number;
  readonly violations: readonly Violation[];
}

export type Speech = "settle" | "cancel" | "prompt";

/** One call whose answer is lost, so that it waits for a person, beside one that the world delays. */
const HELD_UP: Scenario = {
  name: "a person meanwhile",
  turns: [
    [
      { tool: "ask", item: "ask-1", world: { lose: 1 } },
      { tool: "keyed", item: "keyed-1", world: { hold: true } },
    ],
  ],
  parallel: 2,
};

const said = { by: "person", why: "in the middle of it" };

export function speakMeanwhile(workshop: Workshop, speech: Speech): Promise<Meanwhile> {
  return workshop.within(async (dir) => {
    const config = { ...agentConfig(workshop, dir, HELD_UP, {}), talks: true, gated: true };
    const agent = startAgent(workshop, config);
    const holdfast = await opened(agent, dir);
    try {
      const tookMs = await SPEECHES[speech]({ agent, holdfast, dir, world: workshop.world });
      return { tookMs, violations: await verdict(workshop, dir, speech, holdfast) };
    } finally {
      await holdfast.close();
    }
  });
}

interface Stage {
  readonly agent: Child;
  readonly holdfast: Holdfast;
  readonly dir: string;
  readonly world: string;
}

async function opened(agent: Child, dir: string): Promise<Holdfast> {
  await agent.event("opened");
  return open(undefined, { store: await openStore(dir) });
}

const SPEECHES: Record<Speech, (stage: Stage) => Promise<number>> = {
  settle: async ({ agent, holdfast, dir, world }) => {
    await letModelGo(agent);
    const { callId } = await agent.event("call.waiting");
    const result = readEntries(dir).find((entry) => entry.callId === callId)?.result;
    const call = { session: SESSION, callId: String(callId) };
    const begun = performance.now();
    await holdfast.calls.resolve(call, { outcome: "landed", result, ...said });
    await agent.event((each: Said) => each.at === "state" && String(each["open"]) === "keyed issued");
    const tookMs = performance.now() - begun;
    await post(world, "/release", { dir });
    await letModelGo(agent);
    await agent.event((each: Said) => each.at === "result" && each["status"] === "done");
    await agent.ended;
    return tookMs;
  },
  cancel: async ({ agent, holdfast, dir, world }) => {
    await letModelGo(agent);
    await agent.event("call.waiting");
    const begun = performance.now();
    await holdfast.sessions.cancel(SESSION, said);
    await agent.event((each: Said) => each.at === "result" && each["reason"] === "cancelled");
    const tookMs = performance.now() - begun;
    await agent.ended;
    await post(world, "/release", { dir });
    await post(world, "/quiet", { dir });
    return tookMs;
  },
  prompt: async ({ agent, holdfast, dir, world }) => {
    await post(world, "/release", { dir });
    await agent.event("model");
    const begun = performance.now();
    await holdfast.sessions.prompt(SESSION, { id: "p2", text: "One more thing." }, said);
    await agent.event((each: Said) => each.at === "state" && each["prompts"] === 1);
    const tookMs = performance.now() - begun;
    agent.send("model");
    await agent.ended;
    return tookMs;
  },
};

async function letModelGo(agent: Child): Promise<void> {
  await agent.event("model");
  agent.send("model");
}

async function verdict(workshop: Workshop, dir: string, speech: Speech, holdfast: Holdfast) {
  const state = await holdfast.sessions.get(SESSION);
  if (speech === "cancel") {
    const evidence = await gather(dir, HELD_UP, null);
    const wrong = check(evidence).filter(({ invariant }) => invariant !== "I14" && invariant !== "I6");
    return state.status === "cancelled"
      ? wrong
      : [...wrong, { invariant: "I14", what: "it was not cancelled" }];
  }
  const last = await runToTheEnd(workshop, dir, HELD_UP, {});
  const after = await holdfast.sessions.get(SESSION);
  const ids = after.messages.map((message) => message.id);
  const violations = check(await gather(dir, HELD_UP, last.code));
  if (speech === "prompt" && !(ids.indexOf(PROMPT.id) < ids.indexOf("p2")))
    violations.push({ invariant: "I6", what: "the prompt did not reach the transcript" });
  return violations;
}
