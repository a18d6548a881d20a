/**
 * A LangGraph graph that survives a crash. `HoldfastSaver` stores its checkpoints. `durableNode` runs each
 * effect once: an interrupted node runs again from its start and gets the recorded results of its earlier
 * effects.
 */

import { Annotation, Command, END, interrupt, START, StateGraph } from "@langchain/langgraph";
import { open } from "holdfast";
import { durableNode, HoldfastSaver } from "holdfast/langgraph";
import { temporaryFolder } from "./temporary-folder.ts";

const Order = Annotation.Root({
  order: Annotation<string>,
  paidAt: Annotation<Date | null>,
  log: Annotation<string[]>({ reducer: (left, right) => [...left, ...right], default: () => [] }),
});

const holdfast = await open(temporaryFolder());
const saver = new HoldfastSaver(holdfast, { ttlMs: 30 * 24 * 3_600_000 });
let charges = 0;

const graph = new StateGraph(Order)
  .addNode(
    "pay",
    durableNode(saver, async ({ order }: typeof Order.State, { effect }) => {
      const receipt = await effect("charge", ({ key }) => `receipt ${++charges} for key ${key.slice(0, 3)}`, {
        args: { order },
        idempotent: true,
      });
      const answer: string = interrupt(`ship ${order}?`);
      return { paidAt: new Date(0), log: [receipt, answer] };
    }),
  )
  .addEdge(START, "pay")
  .addEdge("pay", END)
  .compile({ checkpointer: saver });

const thread = { configurable: { thread_id: "order/4711" } };
await graph.invoke({ order: "4711" }, thread);
console.log(`waiting for an answer; charged ${charges} time`);
const state = await graph.invoke(new Command({ resume: "yes, ship it" }), thread);
console.log(`${state.log.join(", ")}; charged ${charges} time`);

// Another program that opens the same store finds the thread unchanged, dates included.
const later = await new HoldfastSaver(holdfast).getTuple(thread);
console.log(`paid at a ${later?.checkpoint.channel_values["paidAt"]?.constructor.name}`);
console.log(`checkpoints dropped: ${await saver.pruneThread("order/4711", { keepLast: 1 })}`);
console.log(`threads expired: ${(await saver.removeExpired()).length}`);
await saver.deleteThread("order/4711");
console.log(`after deleting: ${await saver.getTuple(thread)}`);
await holdfast.close();
