// A user's test with fake timers runs its graph on any store: stores wait with the timers of Node.

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { storeSubjects } from "../../subjects.ts";

const State = Annotation.Root({ name: Annotation<string> });

describe.each(storeSubjects())("on $name", (subject) => {
  afterEach(() => void vi.useRealTimers());
  afterAll(() => subject.dispose());

  test("a graph runs to its end while all timers are fake", async () => {
    const made = await subject.open();
    const holdfast = await open(undefined, { store: made.store });
    const graph = new StateGraph(State)
      .addNode("one", ({ name }) => ({ name: `${name} > one` }))
      .addEdge(START, "one")
      .addEdge("one", END)
      .compile({ checkpointer: new HoldfastSaver(holdfast) });
    vi.useFakeTimers();
    for (const thread_id of ["a", "b", "a"])
      expect(await graph.invoke({ name: "start" }, { configurable: { thread_id } })).toEqual({
        name: "start > one",
      });
    vi.useRealTimers();
    await holdfast.close();
    await made.dispose();
  });
});
