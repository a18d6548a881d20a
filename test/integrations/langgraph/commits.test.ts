/** The cost of effects in commits, counted by the store (decision 029). */

import { Annotation, END, START, StateGraph } from "@langchain/langgraph";
import { afterAll, expect, test } from "vitest";
import { z } from "zod";
import { Holdfast, Journal } from "../../../src/index.ts";
import { durableTool, HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";
import { countCommits } from "../../count-commits.ts";
import { storeSubjects } from "../../subjects.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((each) => each.dispose())));

const State = Annotation.Root({ log: Annotation<string> });

test.each(subjects)(
  "three effects of a durableTool take two commits fewer if each is settled with the next: $name",
  async (subject) => {
    const opened = await subject.open();
    const { store, count } = countCommits(opened.store);
    const holdfast = new Holdfast(new Journal({ store }));
    const saver = new HoldfastSaver(holdfast);
    const run = async (settle: "now" | "with-next"): Promise<number> => {
      let effects = 0;
      const schema = z.object({});
      const pay = durableTool(
        saver,
        async (_args, { effect }) => {
          for (const n of [1, 2, 3]) await effect("pay", () => ++effects, { args: { n }, settle });
          return "paid";
        },
        { name: "pay", schema },
      );
      const graph = new StateGraph(State)
        .addNode("work", async (_state, config) => ({ log: await pay.invoke({}, config) }))
        .addEdge(START, "work")
        .addEdge("work", END)
        .compile({ checkpointer: saver });
      const before = count();
      await graph.invoke({ log: "" }, { configurable: { thread_id: settle } });
      expect(effects).toBe(3);
      const { sessions } = await holdfast.sessions.list({ openCalls: true });
      expect(sessions).toEqual([]);
      return count() - before;
    };
    const now = await run("now");
    expect(await run("with-next")).toBe(now - 2);
    await holdfast.close();
    await opened.dispose();
  },
);
