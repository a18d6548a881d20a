// A supervisor starts no worker for the session of a thread's effects: its graph drives it.

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { expect, test } from "vitest";
import { durableNode, HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { Sweeper, superviseOnce, Workers } from "../../../src/supervisor/index.ts";
import { ENDS, Place } from "../../supervisor/fixture.ts";

test("a thread whose process died within an effect gets no worker", async () => {
  const place = new Place();
  const dying = place.another();
  const saver = new HoldfastSaver(dying);
  const state = Annotation.Root({ log: Annotation<string[]>() });
  let isReached = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    isReached = resolve;
  });
  const graph = new StateGraph(state)
    .addNode(
      "work",
      durableNode(saver, async (_state: typeof state.State, { effect }) => {
        await effect("mail", () => {
          isReached();
          return new Promise<string>(() => undefined);
        });
        return {};
      }),
    )
    .addEdge(START, "work")
    .addEdge("work", END)
    .compile({ checkpointer: saver });
  graph.invoke({ log: [] }, { configurable: { thread_id: "t" } }).catch(() => undefined);
  await reached;
  dying.journal.leases.stop();
  place.nowMs += 3_600_000;
  const { journal } = place.another();
  expect((await superviseOnce(journal)).crashed).toEqual(["langgraph.t"]);
  const workers = new Workers(new Sweeper(journal, {}), {
    start: ENDS,
    signal: new AbortController().signal,
  });
  expect(await workers.wanted()).toEqual([]);
  expect(await place.workers()).toEqual({ "session langgraph.t": "idle" });
  await place.dispose();
});
