// A failed effect: which node runs retry it, and which get the failure again.

import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { describe, expect, test } from "vitest";
import { DefiniteFailure } from "../../../src/index.ts";
import {
  durableNode,
  EffectFailed,
  type EffectOptions,
  type Effects,
  HoldfastSaver,
} from "../../../src/integrations/langgraph/index.ts";
import { freshSaver } from "./fresh-saver.ts";

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});
type Log = typeof State.State;
const thread = { configurable: { thread_id: "t" } };

function oneNode(
  saver: HoldfastSaver,
  body: (effects: Effects) => Promise<Partial<Log>>,
  options: object = {},
) {
  return new StateGraph(State)
    .addNode(
      "work",
      durableNode(saver, (_state: Log, effects) => body(effects)),
      options,
    )
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
}

const refused = () => Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
const declined = () => new DefiniteFailure("card declined");

/** A service that is down until the test turns it on, and the keys of its calls. */
function service(error: () => Error) {
  const keys: string[] = [];
  const its = { isDown: true, keys, mails: 0 };
  const send = (effects: Effects, options: EffectOptions<string>) =>
    effects.effect(
      "mail",
      ({ key }) => {
        keys.push(key);
        if (its.isDown) throw error();
        return `mail ${++its.mails}`;
      },
      options,
    );
  return { its, send };
}

const kinds: [string, EffectOptions<string>][] = [
  ["an effect", {}],
  ["an effect with an id", { id: "welcome" }],
];

describe.each(kinds)("%s that failed", (_kind, options) => {
  test("is retried when the node that ended with it runs again, and then happens once", async () => {
    const saver = await freshSaver();
    const { its, send } = service(declined);
    const body = async (effects: Effects) => {
      const log = [await send(effects, options)];
      interrupt("go on?");
      return { log };
    };
    await expect(oneNode(saver, body).invoke({ log: [] }, thread)).rejects.toThrow(EffectFailed);
    await expect(oneNode(saver, body).invoke(null, thread)).rejects.toThrow(EffectFailed);
    its.isDown = false;
    // A new saver knows only the stored attempts.
    const other = new HoldfastSaver(saver.holdfast);
    await oneNode(other, body).invoke(null, thread);
    const state = await oneNode(saver, body).invoke(new Command({ resume: "yes" }), thread);
    expect(state.log).toEqual(["mail 1"]);
    expect(its.mails).toBe(1);
    // The vendor may remember each definite failure under its key.
    expect(new Set(its.keys).size).toBe(3);
    expect(its.keys).toHaveLength(3);
  });

  test("is retried by a retry policy, with the same key if the failure proved nothing", async () => {
    const saver = await freshSaver();
    const { its, send } = service(refused);
    let attempts = 0;
    const body = async (effects: Effects) => {
      its.isDown = ++attempts < 3;
      return { log: [await send(effects, options)] };
    };
    const retryPolicy = { maxAttempts: 3, initialInterval: 1, jitter: false, logWarning: false };
    const state = await oneNode(saver, body, { retryPolicy }).invoke({ log: [] }, thread);
    expect(state.log).toEqual(["mail 1"]);
    expect(its.keys).toHaveLength(3);
    expect(new Set(its.keys).size).toBe(1);
  });

  test("stays failed for a node that caught the failure and continued", async () => {
    const saver = await freshSaver();
    const { its, send } = service(declined);
    const letters: string[] = [];
    let isFlaky = true;
    const body = async (effects: Effects) => {
      const sent = await send(effects, options).catch(() =>
        effects.effect("letter", () => `letter ${letters.push("letter")}`),
      );
      if (isFlaky) throw new Error("flaky");
      interrupt("go on?");
      return { log: [sent] };
    };
    await expect(oneNode(saver, body).invoke({ log: [] }, thread)).rejects.toThrow("flaky");
    its.isDown = false;
    isFlaky = false;
    await oneNode(new HoldfastSaver(saver.holdfast), body).invoke(null, thread);
    const state = await oneNode(saver, body).invoke(new Command({ resume: "yes" }), thread);
    expect(state.log).toEqual(["letter 1"]);
    expect([its.mails, letters]).toEqual([0, ["letter"]]);
  });

  test("stays failed if it only counts as failed because it was interrupted", async () => {
    const saver = await freshSaver();
    const { its, send } = service(() => new Error("who knows"));
    const graph = oneNode(saver, async (effects) => ({
      log: [await send(effects, { ...options, interrupted: "fail" })],
    }));
    await expect(graph.invoke({ log: [] }, thread)).rejects.toThrow(EffectFailed);
    its.isDown = false;
    await expect(graph.invoke(null, thread)).rejects.toThrow(EffectFailed);
    expect(its.mails).toBe(0);
  });

  test("stays failed if a person declared it", async () => {
    const saver = await freshSaver();
    const { its, send } = service(() => new Error("who knows"));
    const graph = oneNode(saver, async (effects) => ({ log: [await send(effects, options)] }));
    await graph.invoke({ log: [] }, thread);
    const [call] = (await saver.holdfast.calls.list()).calls;
    const answer = { outcome: "failed", by: "ann", why: "must not be sent" } as const;
    await saver.holdfast.calls.resolve(call?.callId ?? "", answer);
    its.isDown = false;
    for (let again = 0; again < 2; again++)
      await expect(graph.invoke(null, thread)).rejects.toThrow(EffectFailed);
    expect(its.mails).toBe(0);
  });
});

test("a failed effect with an id is retried by a later turn, also if the failure was caught", async () => {
  const saver = await freshSaver();
  const { its, send } = service(declined);
  const graph = oneNode(saver, async (effects) => ({
    log: [await send(effects, { id: "welcome" }).catch(() => "not sent")],
  }));
  expect((await graph.invoke({ log: [] }, thread)).log).toEqual(["not sent"]);
  its.isDown = false;
  await graph.invoke({ log: [] }, thread);
  const { log } = await graph.invoke({ log: [] }, thread);
  expect(log).toEqual(["not sent", "mail 1", "mail 1"]);
});

test("notes on failures are pruned with their checkpoints", async () => {
  const saver = await freshSaver();
  const { send } = service(declined);
  const graph = oneNode(saver, async (effects) => ({
    log: [await send(effects, { id: "welcome" }).catch(() => "not sent")],
  }));
  for (let turn = 0; turn < 3; turn++) await graph.invoke({ log: [] }, thread);
  expect(await saver.pruneThread("t", { keepLast: 1 })).toBe(8);
  let notes = 0;
  for await (const [, { type, data }] of saver.holdfast.journal.events("langgraph/t", 0))
    if (type === "checkpoints.dropped" && (data as { ns: string }).ns !== "") notes += 1;
  expect(notes).toBe(1);
  expect(await saver.check()).toEqual([]);
});
