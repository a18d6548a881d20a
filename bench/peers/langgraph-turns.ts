import { randomUUID } from "node:crypto";
import { load } from "@langchain/core/load";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { END, MessagesDeltaValue, START, StateGraph, StateSchema } from "@langchain/langgraph";
import { type BaseCheckpointSaver, uuid6 } from "@langchain/langgraph-checkpoint";
import { median } from "../statistics.ts";
import { prose, random } from "../turns.ts";
import type { Subject } from "./langgraph-savers.ts";

export interface Figures {
  /** Time inside `put`, all turns together. */
  readonly saveMs: number;
  /** Processor time of this process, all threads, which does not depend on other users of the disk. */
  readonly saveCpuMs: number;
  readonly bytes: number;
  readonly loadMs: number;
}

const THREAD = "bench";
const LOADS = 5;

/** Turns before the measure, so that SQLite has already copied its log into the file. */
const WARM_UP = { turns: 100, thread: "warm-up" };
/**
 * Turns on another store, so that V8 has compiled a save. Many short threads, because a peer is slow with
 * long ones.
 */
const WARM_CODE = { turns: 25, threads: 80 };

/** One flat string, like text from a network. A concatenated string would be flattened inside the timing. */
function wired(text: string): string {
  return Buffer.from(text).toString();
}

function turn(number: number): BaseMessage[] {
  const next = random(number);
  const scale = 0.75 + next() * 0.5;
  return [
    new HumanMessage({ id: randomUUID(), content: wired(prose(next, 1_000 * scale)) }),
    new AIMessage({
      id: randomUUID(),
      content: wired(prose(next, 2_700 * scale)),
      tool_calls: [{ id: `call_${number}`, name: "search", args: { pattern: wired(prose(next, 40)) } }],
      response_metadata: { model: "bench", finish_reason: "tool_calls" },
    }),
  ];
}

/** Runs both sides before the measure, as in a program that has been up for a while. */
export async function warmCode(subject: Subject): Promise<void> {
  const { saver, close } = await subject.open();
  for (let thread = 0; thread < WARM_CODE.threads; thread++) {
    await save(saver, `${WARM_UP.thread} ${thread}`, WARM_CODE.turns);
  }
  await close();
}

/** Saves a checkpoint after every turn, then loads the latest with new savers. */
export async function measureTurns(subject: Subject, turns: number): Promise<Figures> {
  const writing = await subject.open();
  await save(writing.saver, WARM_UP.thread, WARM_UP.turns);
  await writing.saver.deleteThread(WARM_UP.thread);
  const saved = await save(writing.saver, THREAD, turns);
  await writing.close();
  const bytes = await subject.size();
  const loads: number[] = [];
  for (let round = 0; round < LOADS; round++) {
    const reading = await subject.open();
    const before = performance.now();
    const tuple = await reading.saver.getTuple({ configurable: { thread_id: THREAD, checkpoint_ns: "" } });
    loads.push(performance.now() - before);
    const messages = tuple?.checkpoint.channel_values["messages"] as BaseMessage[] | undefined;
    if (messages?.length !== 2 * turns) throw new Error(`${messages?.length} messages came back`);
    await reading.close();
  }
  return { ...saved, bytes, loadMs: median(loads) };
}

async function save(saver: BaseCheckpointSaver, thread: string, turns: number) {
  const added = Array.from({ length: turns }, (_, index) => turn(index + 1));
  let messages: BaseMessage[] = [];
  let config: { configurable?: Record<string, unknown> } = {
    configurable: { thread_id: thread, checkpoint_ns: "" },
  };
  let saveMs = 0;
  const usedBefore = process.cpuUsage();
  for (const [index, fresh] of added.entries()) {
    const step = index + 1;
    messages = [...messages, ...fresh];
    const checkpoint = {
      v: 4,
      id: uuid6(0),
      ts: new Date().toISOString(),
      channel_values: { messages },
      channel_versions: { messages: step },
      versions_seen: { agent: { messages: step } },
    };
    const before = performance.now();
    config = await saver.put(config, checkpoint, { source: "loop", step, parents: {} }, { messages: step });
    saveMs += performance.now() - before;
  }
  const used = process.cpuUsage(usedBefore);
  return { saveMs, saveCpuMs: (used.user + used.system) / 1_000 };
}

/** LangChain's loader alone, message by message, as LangGraph's serializer uses it. */
export async function loaderFloor(turns: number): Promise<number> {
  const texts = Array.from({ length: turns }, (_, index) => turn(index + 1))
    .flat()
    .map((message) => JSON.stringify(message));
  const before = performance.now();
  await Promise.all(texts.map((text) => load(text)));
  return performance.now() - before;
}

/** Runs a graph with its messages in a delta channel, turn after turn, then reads it with a new saver. */
export async function measureDelta(
  subject: Subject,
  turns: number,
): Promise<{ runMs: number; readMs: number }> {
  const config = { configurable: { thread_id: THREAD } };
  const writing = await subject.open();
  const graph = deltaGraph(writing.saver);
  const before = performance.now();
  for (let step = 1; step <= turns; step++) {
    await graph.invoke({ messages: turn(step).slice(0, 1) }, config);
  }
  const runMs = performance.now() - before;
  await writing.close();
  const reads: number[] = [];
  for (let round = 0; round < 3; round++) {
    const reading = await subject.open();
    const begun = performance.now();
    const { values } = await deltaGraph(reading.saver).getState(config);
    reads.push(performance.now() - begun);
    if (values.messages?.length !== 2 * turns)
      throw new Error(`${values.messages?.length} messages came back`);
    await reading.close();
  }
  return { runMs, readMs: median(reads) };
}

function deltaGraph(checkpointer: BaseCheckpointSaver) {
  return new StateGraph(new StateSchema({ messages: MessagesDeltaValue }))
    .addNode("answer", ({ messages }) => ({ messages: turn(messages.length).slice(1) }))
    .addEdge(START, "answer")
    .addEdge("answer", END)
    .compile({ checkpointer });
}
