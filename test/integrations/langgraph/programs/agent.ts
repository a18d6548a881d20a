// A graph whose tool has three effects on the world. Restarted after a kill, it resumes its thread. It runs
// its jobs in sequence and prints each result.
//
//     agent.ts <jobs as JSON>

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { AIMessage, HumanMessage, isToolMessage, type ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { landed, never, open } from "../../../../src/index.ts";
import { durableTool, HoldfastSaver } from "../../../../src/integrations/langgraph/index.ts";

export interface Job {
  readonly how: "durable" | "bare";
  readonly store: string;
  readonly world: string;
  readonly kill?: "between" | "inside";
}

const fields = { name: "ship", description: "Ships an order", schema: z.object({ order: z.string() }) };
const steps = ["1", "2", "3"];
const call = { id: "call-1", name: "ship", args: { order: "4711" } };

function seen({ world }: Job, line: string): boolean {
  return existsSync(world) && readFileSync(world, "utf8").split("\n").includes(line);
}

function act({ world, kill }: Job, line: string): string {
  appendFileSync(world, `${line}\n`);
  if (line === "2" && kill === "inside") process.kill(process.pid, "SIGKILL");
  return `did ${line}`;
}

function dieBefore({ kill }: Job, line: string): void {
  if (line === "3" && kill === "between") process.kill(process.pid, "SIGKILL");
}

const durable = (saver: HoldfastSaver, job: Job) =>
  durableTool(
    saver,
    async (_args, { effect }) => {
      const done: string[] = [];
      for (const line of steps) {
        dieBefore(job, line);
        const verify = () => (seen(job, line) ? landed(`did ${line}`) : never());
        done.push(await effect("act", () => act(job, line), { args: { line }, verify }));
      }
      return done.join(", ");
    },
    fields,
  );

const bare = (job: Job) =>
  tool(() => {
    for (const line of steps) {
      dieBefore(job, line);
      act(job, line);
    }
    return "done";
  }, fields);

async function work(job: Job): Promise<string | undefined> {
  const holdfast = await open(job.store);
  const saver = new HoldfastSaver(holdfast);
  const graph = new StateGraph(MessagesAnnotation)
    .addNode("agent", ({ messages }) => {
      const answer = messages.at(-1);
      return isToolMessage(answer as ToolMessage)
        ? { messages: [new AIMessage(`The tool said: ${answer?.text}`)] }
        : { messages: [new AIMessage({ content: "", tool_calls: [call] })] };
    })
    .addNode("tools", new ToolNode([job.how === "bare" ? bare(job) : durable(saver, job)]))
    .addEdge(START, "agent")
    .addConditionalEdges("agent", ({ messages }) =>
      (messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END,
    )
    .addEdge("tools", "agent")
    .compile({ checkpointer: saver });
  const config = { configurable: { thread_id: "order 4711/ü" } };
  const isNew = (await graph.getState(config)).next.length === 0;
  const state = await graph.invoke(isNew ? { messages: [new HumanMessage("Ship it")] } : null, config);
  await holdfast.close();
  return state.messages.at(-1)?.text;
}

for (const job of JSON.parse(process.argv[2] ?? "[]") as Job[]) console.log(await work(job));
