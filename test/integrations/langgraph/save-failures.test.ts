// A rejected run fails as early as possible, and no rejection is left unhandled.

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { HoldfastError } from "../../../src/model/errors.ts";
import type { Store } from "../../../src/store.ts";
import { openMemory } from "../../../src/testing/index.ts";
import { storeSubjects } from "../../subjects.ts";
import { readTogether } from "./read-together.ts";

const Log = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});

type Node = () => Promise<unknown> | unknown;

/** The builder without its types, which depend on literal names. */
interface Builder {
  addNode(name: string, node: () => Promise<typeof Log.Update>): unknown;
  addEdge(from: string, to: string): unknown;
  compile(options: { checkpointer: HoldfastSaver }): ReturnType<StateGraph<typeof Log>["compile"]>;
}

/** Nodes in sequence; nodes in one array run in parallel. */
function graphOf(saver: HoldfastSaver, steps: readonly (Node | readonly Node[])[]) {
  const graph = new StateGraph(Log) as unknown as Builder;
  let before: string[] = [START];
  steps.forEach((step, n) => {
    const names = [step].flat().map((node, m) => {
      const name = `node ${n}.${m}`;
      graph.addNode(name, async () => {
        await node();
        return { log: [name] };
      });
      for (const each of before) graph.addEdge(each, name);
      return name;
    });
    before = names;
  });
  for (const last of before) graph.addEdge(last, END);
  return graph.compile({ checkpointer: saver });
}

/** Longer than Node takes to report an unhandled rejection, and than any pause before one. */
const slow: Node = () => new Promise((resolve) => setTimeout(resolve, 300));
const quick: Node = () => undefined;

// The limit for all of them together: they mostly wait, so they run in parallel.
const unhandled: unknown[] = [];
const listener = (reason: unknown) => unhandled.push(reason);

beforeAll(() => {
  process.on("unhandledRejection", listener);
});
afterAll(() => {
  process.off("unhandledRejection", listener);
});

const runs = [
  ["async", "its first node is slow", [slow]],
  ["sync", "its first node is slow", [slow]],
  ["async", "its second node is slow", [quick, slow]],
  ["async", "one of two nodes is slow", [[quick, slow], quick]],
  ["async", "a node after both of two is slow", [[quick, quick], slow]],
  ["async", "its nodes are quick", [quick, quick]],
  ["sync", "its nodes are quick", [quick, quick]],
] as const;

describe.concurrent.each(storeSubjects())("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("the second of two runs is rejected, whatever its nodes are doing", async ({ onTestFinished }) => {
    const made = await subject.open();
    onTestFinished(() => made.dispose());
    const saver = new HoldfastSaver(await open(undefined, { store: made.store }));
    const found = runs.map(async ([durability, what, steps]) => {
      const config = { configurable: { thread_id: `${durability}, ${what}` } };
      await graphOf(saver, [quick]).invoke({ log: ["start"] }, config);
      readTogether(config.configurable.thread_id, saver);
      const both = [0, 1].map(() =>
        graphOf(saver, steps).invoke({ log: ["input"] }, { ...config, durability }),
      );
      const ends = await Promise.allSettled(both);
      const reasons = ends.flatMap((end) => (end.status === "rejected" ? [end.reason.code] : []));
      return [durability, what, reasons];
    });
    expect(await Promise.all(found)).toEqual(runs.map(([how, what]) => [how, what, ["STREAM_BUSY"]]));
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
  });
});

test.concurrent.each([
  ["async", "a node after it is slow", [slow]],
  ["sync", "a node after it would be slow", [slow]],
  ["async", "it was at its end", []],
  ["exit", "it was at its end", []],
] as const)(
  "with durability %s, a run fails if another run saved into its thread: %s",
  async (durability, _what, after) => {
    const holdfast = await open("memory:");
    const saver = new HoldfastSaver(holdfast);
    const config = { configurable: { thread_id: "t" } };
    const elsewhere: Node = async () => {
      await graphOf(new HoldfastSaver(holdfast), [quick]).updateState(
        config,
        { log: ["theirs"] },
        "node 0.0",
      );
    };
    await graphOf(saver, [quick]).invoke({ log: ["start"] }, config);
    const run = graphOf(saver, [elsewhere, ...after]).invoke({ log: ["input"] }, { ...config, durability });
    await expect(run).rejects.toMatchObject({ code: "STREAM_BUSY" });
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
    const { values } = await graphOf(new HoldfastSaver(holdfast), [quick]).getState(config);
    expect(values["log"]).toContain("theirs");
    await holdfast.close();
  },
);

test.concurrent("writes that could not be saved fail their run, also while another node runs", async () => {
  const store = openMemory();
  const full = new HoldfastError("STORE_IO", "the disk is full", { hint: "Make room." });
  let isFull = false;
  let refused = 0;
  const append: Store["append"] = async (batch) => {
    if (!isFull) return store.append(batch);
    refused += 1;
    throw full;
  };
  const failing = new Proxy(store, {
    get: (target, name) => {
      if (name === "append") return append;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  const saver = new HoldfastSaver(await open(undefined, { store: failing }));
  const fills: Node = () => {
    isFull = true;
  };
  const config = { configurable: { thread_id: "t" } };
  const run = graphOf(saver, [[fills, slow]]).invoke({ log: ["input"] }, config);
  await expect(run).rejects.toBe(full);
  expect(refused).toBeGreaterThan(0);
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
});
