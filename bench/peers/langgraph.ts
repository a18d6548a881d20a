/**
 * HoldfastSaver against LangGraph's own SQLite saver, in one run, on one disk: turns of about 4 KB in a `messages`
 * channel, a checkpoint after every turn, then the latest loaded by a saver that has just been opened.
 *
 *     npm i --prefix <folder> @langchain/langgraph-checkpoint-sqlite@1.0.4
 *     node --import tsx bench/peers/langgraph.ts --peer <folder> [--turns 1000] [--json]
 *
 * The peer is not a dependency of this project, so it is loaded from a folder of its own; without `--peer` only our side
 * is measured. The last line says what LangChain itself takes to load as many messages: no saver that uses its loader
 * can be faster than that. It commits without syncing (`synchronous=NORMAL`), ours syncs every put.
 */

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { load } from "@langchain/core/load";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { type BaseCheckpointSaver, uuid6 } from "@langchain/langgraph-checkpoint";
import { open } from "../../src/index.ts";
import { HoldfastSaver } from "../../src/integrations/langgraph/index.ts";
import { sizeOnDisk } from "../raw-database.ts";
import { Scratch } from "../scratch.ts";
import { prose, random } from "../turns.ts";

interface OpenedSaver {
  readonly saver: BaseCheckpointSaver;
  close(): Promise<void> | void;
}

interface Figures {
  readonly saveMs: number;
  /** Time on the processor, all threads: what does not depend on who else uses the disk. */
  readonly saveCpuMs: number;
  readonly bytes: number;
  readonly loadMs: number;
}

const PEER = "@langchain/langgraph-checkpoint-sqlite";

const THREAD = { thread_id: "bench", checkpoint_ns: "" };

/** Both sides have run before they are measured, as they have in a program that has been up for a while. */
const WARM_UP = { turns: 100, thread: { thread_id: "warm-up", checkpoint_ns: "" } };

function turn(number: number): BaseMessage[] {
  const next = random(number);
  const scale = 0.75 + next() * 0.5;
  return [
    new HumanMessage({ id: randomUUID(), content: prose(next, 1_000 * scale) }),
    new AIMessage({
      id: randomUUID(),
      content: prose(next, 2_700 * scale),
      tool_calls: [{ id: `call_${number}`, name: "search", args: { pattern: prose(next, 40) } }],
      response_metadata: { model: "bench", finish_reason: "tool_calls" },
    }),
  ];
}

async function save(saver: BaseCheckpointSaver, thread: typeof THREAD, turns: number) {
  let messages: BaseMessage[] = [];
  let config: { configurable?: Record<string, unknown> } = { configurable: { ...thread } };
  let saveMs = 0;
  let saveCpuMs = 0;
  for (let step = 1; step <= turns; step++) {
    messages = [...messages, ...turn(step)];
    const checkpoint = {
      v: 4,
      id: uuid6(0),
      ts: new Date().toISOString(),
      channel_values: { messages },
      channel_versions: { messages: step },
      versions_seen: { agent: { messages: step } },
    };
    const before = performance.now();
    const usedBefore = process.cpuUsage();
    config = await saver.put(config, checkpoint, { source: "loop", step, parents: {} }, { messages: step });
    const used = process.cpuUsage(usedBefore);
    saveMs += performance.now() - before;
    saveCpuMs += (used.user + used.system) / 1_000;
  }
  return { saveMs, saveCpuMs };
}

async function measure(path: string, openSaver: () => Promise<OpenedSaver>, turns: number): Promise<Figures> {
  const writing = await openSaver();
  await save(writing.saver, WARM_UP.thread, WARM_UP.turns);
  await writing.saver.deleteThread(WARM_UP.thread.thread_id);
  const saved = await save(writing.saver, THREAD, turns);
  await writing.close();
  const bytes = await sizeOnDisk(path);
  const loads: number[] = [];
  for (let round = 0; round < 5; round++) {
    const reading = await openSaver();
    const before = performance.now();
    const tuple = await reading.saver.getTuple({ configurable: { ...THREAD } });
    loads.push(performance.now() - before);
    const messages = tuple?.checkpoint.channel_values["messages"] as BaseMessage[] | undefined;
    if (messages?.length !== 2 * turns) throw new Error(`${messages?.length} messages came back`);
    await reading.close();
  }
  return { ...saved, bytes, loadMs: loads.sort((one, other) => one - other)[2] as number };
}

/** LangChain's loader alone, message by message, as LangGraph's serializer uses it. */
async function loaderFloor(turns: number): Promise<number> {
  const texts = Array.from({ length: turns }, (_, index) => turn(index + 1))
    .flat()
    .map((message) => JSON.stringify(message));
  const before = performance.now();
  await Promise.all(texts.map((text) => load(text)));
  return performance.now() - before;
}

async function peerSaver(folder: string, path: string): Promise<() => Promise<OpenedSaver>> {
  const require = createRequire(join(resolve(folder), "package.json"));
  const entry = require.resolve(PEER);
  const { SqliteSaver } = (await import(pathToFileURL(entry).href)) as {
    SqliteSaver: { fromConnString(path: string): BaseCheckpointSaver & { db: { close(): void } } };
  };
  return async () => {
    const saver = SqliteSaver.fromConnString(path);
    return { saver, close: () => saver.db.close() };
  };
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      peer: { type: "string" },
      turns: { type: "string", default: "1000" },
      json: { type: "boolean" },
    },
  });
  const turns = Number(values.turns);
  const scratch = new Scratch();
  try {
    const ourPath = scratch.file("ours");
    const ours = await measure(
      ourPath,
      async () => {
        const holdfast = await open(ourPath);
        return { saver: new HoldfastSaver(holdfast), close: () => holdfast.close() };
      },
      turns,
    );
    const loaderMs = await loaderFloor(turns);
    const peerPath = scratch.file("peer");
    const peer = values.peer ? await measure(peerPath, await peerSaver(values.peer, peerPath), turns) : null;
    report({ turns, ours, peer, loaderMs }, values.json === true);
  } finally {
    await scratch.remove();
  }
}

function report(
  found: { turns: number; ours: Figures; peer: Figures | null; loaderMs: number },
  asJson: boolean,
): void {
  const { turns, ours, peer, loaderMs } = found;
  if (asJson) {
    console.log(JSON.stringify(found));
    return;
  }
  const line = (name: string, unit: string, of: (figures: Figures) => number, bar: number) => {
    const ratio = peer ? `${(of(peer) / of(ours)).toFixed(1)} × (bar ${bar})` : "";
    const theirs = peer ? of(peer).toFixed(1) : "not measured";
    console.log(`${name}: ours ${of(ours).toFixed(1)} ${unit}, SqliteSaver ${theirs} ${unit} ${ratio}`);
  };
  console.log(`${turns} turns`);
  line("save all", "ms", ({ saveMs }) => saveMs, 100);
  line("save all, on the processor", "ms", ({ saveCpuMs }) => saveCpuMs, 100);
  line("disk", "MB", ({ bytes }) => bytes / 1e6, 300);
  line("load the latest, cold", "ms", ({ loadMs }) => loadMs, 2);
  console.log(`LangChain's loader alone: ${loaderMs.toFixed(1)} ms`);
}

await main();
