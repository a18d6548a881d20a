// Effects inside nodes: a graph that is killed and resumed runs each of them once.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { tool } from "../../../src/index.ts";
import { durableNode, type Effects, type HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { programFile } from "../../program.ts";
import { quickFolder } from "../../quick-folder.ts";
import { freshSaver } from "./fresh-saver.ts";
import type { Job } from "./programs/agent.ts";

const scratch = mkdtempSync(join(quickFolder(), "holdfast-langgraph-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly output: string;
}

async function runAgent(jobs: readonly Job[]): Promise<Ended> {
  const program = programFile(new URL("./programs/agent.ts", import.meta.url));
  const args = [program, JSON.stringify(jobs)];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  return { code, signal, output: output.trim() };
}

function worldOf({ world }: Job): string[] {
  return readFileSync(world, "utf8").trim().split("\n");
}

async function killed(how: Job["how"], kill: "between" | "inside"): Promise<Job> {
  const folder = mkdtempSync(join(scratch, "killed-"));
  const job: Job = { how, store: join(folder, "store.db"), world: join(folder, "world.log") };
  expect((await runAgent([{ ...job, kill }])).signal).toBe("SIGKILL");
  expect(worldOf(job)).toEqual(["1", "2"]);
  return job;
}

// One process resumes all killed ones, because loading the framework takes longer than the work.
test("a killed and resumed graph runs 1, 2, 3 with the helpers, and 1, 2, 1, 2, 3 without", async () => {
  const [between, inside, bare] = await Promise.all([
    killed("durable", "between"),
    killed("durable", "inside"),
    killed("bare", "between"),
  ]);
  const did = "The tool said: did 1, did 2, did 3";
  const resumed = await runAgent([between, inside, bare]);
  expect(resumed).toEqual({ code: 0, signal: null, output: `${did}\n${did}\nThe tool said: done` });
  expect(worldOf(between)).toEqual(["1", "2", "3"]);
  expect(worldOf(inside)).toEqual(["1", "2", "3"]);
  // With any saver.
  expect(worldOf(bare)).toEqual(["1", "2", "1", "2", "3"]);
});

const State = Annotation.Root({
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});
type Log = typeof State.State;

function oneNode(saver: HoldfastSaver, body: (state: Log, effects: Effects) => Promise<Partial<Log>>) {
  return new StateGraph(State)
    .addNode("work", durableNode(saver, body))
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
}

const thread = { configurable: { thread_id: "t" } };

describe("a node that runs again from its start", () => {
  test("gets recorded results for the effects it had before an interrupt", async () => {
    const saver = await freshSaver();
    const world: string[] = [];
    const graph = oneNode(saver, async (_state, { effect }) => {
      const one = await effect("one", () => `one ${world.push("one")}`);
      const answer: string = interrupt("go on?");
      const two = await effect("two", () => `two ${world.push("two")}`);
      return { log: [one, answer, two] };
    });
    await graph.invoke({ log: [] }, thread);
    expect(world).toEqual(["one"]);
    const state = await graph.invoke(new Command({ resume: "yes" }), thread);
    expect(state.log).toEqual(["one 1", "yes", "two 2"]);
    expect(world).toEqual(["one", "two"]);
  });

  test("has new effects in a later turn, but one with an id runs once per thread", async () => {
    const saver = await freshSaver();
    const world: string[] = [];
    const graph = oneNode(saver, async (_state, { effect }) => {
      await effect("greet", () => world.push("greet"), { id: "greeting" });
      await Promise.all([1, 2].map((n) => effect("mail", () => world.push(`mail ${n}`), { args: { n } })));
      return { log: ["turn"] };
    });
    await graph.invoke({ log: [] }, thread);
    await graph.invoke({ log: [] }, thread);
    expect(world).toEqual(["greet", "mail 1", "mail 2", "mail 1", "mail 2"]);
    await graph.invoke({ log: [] }, { configurable: { thread_id: "another" } });
    expect(world.filter((each) => each === "greet")).toHaveLength(2);
  });

  test("is rejected if it passes other arguments under the same name", async () => {
    const saver = await freshSaver();
    let amount = 1;
    const graph = oneNode(saver, async (_state, { effect }) => {
      await effect("charge", () => amount, { args: { amount } });
      interrupt("go on?");
      return {};
    });
    await graph.invoke({ log: [] }, thread);
    amount = 2;
    await expect(graph.invoke(new Command({ resume: 1 }), thread)).rejects.toThrow(/other arguments/);
  });
});

test("an effect with an unknown outcome stops the graph until a person answers", async () => {
  const saver = await freshSaver();
  let charged = 0;
  const charge = tool({
    name: "charge",
    description: "Charges a card",
    effect: "mutate",
    input: z.object({ order: z.string() }),
    execute: (): string => {
      charged += 1;
      throw new Error("connection reset");
    },
  });
  const graph = oneNode(saver, async (_state, { call }) => ({
    log: [await call(charge, { order: "4711" })],
  }));
  const stopped = await graph.invoke({ log: [] }, thread);
  expect(stopped).toMatchObject({ __interrupt__: [{ value: { waiting: "effect", tool: "charge" } }] });
  await graph.invoke(new Command({ resume: "no answer yet" }), thread);
  expect(charged).toBe(1);

  const [waiting] = (await saver.holdfast.calls.list()).calls;
  const answer = { outcome: "landed", result: "receipt 1", by: "ann", why: "seen in the bank" } as const;
  await saver.holdfast.calls.resolve(waiting?.callId as string, answer);
  const state = await graph.invoke(null, thread);
  expect(state.log).toEqual(["receipt 1"]);
  expect(charged).toBe(1);
});

test("a thread with an open effect cannot be deleted; later its effects are deleted with it", async () => {
  const saver = await freshSaver();
  const graph = oneNode(saver, async (_state, { effect }) => {
    await effect("mail", () => {
      throw new Error("connection reset");
    });
    return {};
  });
  await graph.invoke({ log: [] }, thread);
  await expect(saver.deleteThread("t")).rejects.toMatchObject({ code: "STREAM_BUSY" });
  expect(await saver.getTuple(thread)).toBeDefined();
  const [waiting] = (await saver.holdfast.calls.list()).calls;
  const answer = { outcome: "failed", by: "ann", why: "not in the outbox" } as const;
  await saver.holdfast.calls.resolve(waiting?.callId as string, answer);
  await saver.deleteThread("t");
  expect(await saver.getTuple(thread)).toBeUndefined();
  expect((await saver.holdfast.sessions.list()).sessions).toEqual([]);
});

/** The config of a task that runs on a checkpoint, as LangGraph passes it to a node. */
function configOn(checkpoint: string) {
  const task = { checkpoint_ns: "node:task", checkpoint_map: { "": checkpoint }, __pregel_scratchpad: {} };
  return { configurable: { ...thread.configurable, ...task } };
}

test("an effect that waits for a checkpoint fails at once if saving is rejected", async () => {
  const saver = await freshSaver();
  const metadata = { source: "loop" as const, step: 0, parents: {} };
  const put = (after: object, id = uuid6(0)) => saver.put(after, { ...emptyCheckpoint(), id }, metadata, {});
  const first = await put(thread);
  await put(first);
  const late = uuid6(0);
  const node = durableNode(saver, (_state: Log, { effect }) => effect("mail", () => "sent"));
  const waiting = node({ log: [] }, configOn(late));
  const refusals = await Promise.allSettled([waiting, put(first, late)]);
  const refusal = { status: "rejected", reason: { code: "STREAM_BUSY" } };
  expect(refusals).toMatchObject([refusal, refusal]);
});

test("no effect starts on a checkpoint that was not saved", async () => {
  const saver = await freshSaver();
  let started = 0;
  const node = durableNode(saver, async (_state: Log, { effect }) => {
    await effect("mail", () => started++);
    return {};
  });
  await expect(node({ log: [] }, {})).rejects.toMatchObject({ code: "INPUT_INVALID" });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const refused = expect(node({ log: [] }, configOn("never"))).rejects.toMatchObject({
      code: "STATE_STALE",
    });
    await vi.waitFor(() => expect(vi.getTimerCount()).toBeGreaterThan(0));
    await vi.advanceTimersByTimeAsync(10_000);
    await refused;
  } finally {
    vi.useRealTimers();
  }
  expect(started).toBe(0);
});
