// A graph whose tool has three effects on the world. Started again after it was killed, it resumes its thread.
//
//     agent.ts <store> <world log> <how: durable | bare> [<kill: between | inside>]

import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { AIMessage, HumanMessage, isToolMessage, type ToolMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import { ToolNode } from "@langchain/langgraph/prebuilt";
import { z } from "zod";
import { landed, never, open } from "../../../../src/index.ts";
import { durableTool, HoldfastSaver } from "../../../../src/integrations/langgraph/index.ts";

const [address = "", world = "", how = "", kill = ""] = process.argv.slice(2);

const holdfast = await open(address);
const saver = new HoldfastSaver(holdfast);
const fields = { name: "ship", description: "Ships an order", schema: z.object({ order: z.string() }) };

function seen(line: string): boolean {
  return existsSync(world) && readFileSync(world, "utf8").split("\n").includes(line);
}

function act(line: string): string {
  appendFileSync(world, `${line}\n`);
  if (line === "2" && kill === "inside") process.kill(process.pid, "SIGKILL");
  return `did ${line}`;
}

const steps = ["1", "2", "3"];

function dieBefore(line: string): void {
  if (line === "3" && kill === "between") process.kill(process.pid, "SIGKILL");
}

const durable = durableTool(
  saver,
  async (_args, { effect }) => {
    const done: string[] = [];
    for (const line of steps) {
      dieBefore(line);
      const verify = () => (seen(line) ? landed(`did ${line}`) : never());
      done.push(await effect("act", () => act(line), { args: { line }, verify }));
    }
    return done.join(", ");
  },
  fields,
);

const bare = tool(() => {
  for (const line of steps) {
    dieBefore(line);
    act(line);
  }
  return "done";
}, fields);

const call = { id: "call-1", name: "ship", args: { order: "4711" } };
const graph = new StateGraph(MessagesAnnotation)
  .addNode("agent", ({ messages }) => {
    const answer = messages.at(-1);
    return isToolMessage(answer as ToolMessage)
      ? { messages: [new AIMessage(`The tool said: ${answer?.text}`)] }
      : { messages: [new AIMessage({ content: "", tool_calls: [call] })] };
  })
  .addNode("tools", new ToolNode([how === "bare" ? bare : durable]))
  .addEdge(START, "agent")
  .addConditionalEdges("agent", ({ messages }) =>
    (messages.at(-1) as AIMessage).tool_calls?.length ? "tools" : END,
  )
  .addEdge("tools", "agent")
  .compile({ checkpointer: saver });

const config = { configurable: { thread_id: "order 4711/ü" } };
const isNew = (await graph.getState(config)).next.length === 0;
const state = await graph.invoke(isNew ? { messages: [new HumanMessage("Ship it")] } : null, config);
console.log(state.messages.at(-1)?.text);
await holdfast.close();
