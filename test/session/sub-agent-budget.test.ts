/** A cancelled sub-agent costs its parent what it spent, not what was reserved. */

import { afterAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, Holdfast, Journal, type Tool, tool } from "../../src/index.ts";
import { altered } from "../journal/places.ts";
import { callBlock, openBench, script } from "../ledger/bench.ts";
import { sqliteForTest } from "../stores/conformance/sqlite-subject.ts";

function research(meanwhile: (child: string) => Promise<unknown>): Tool {
  return tool(
    agentTool({
      name: "research",
      description: "research",
      input: z.looseObject({}),
      run: (_args, child) => {
        const model = async () => {
          await meanwhile(child.id);
          return { message: { text: "found" } };
        };
        return child.run({ model, prompt: "go" });
      },
    }),
  );
}

describe.each([sqliteForTest()])("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("cancelled by a person while it works", async () => {
    const bench = await openBench(subject);
    const { sessions } = bench.first.holdfast;
    const session = await bench.first.session();
    const result = await session.run({
      model: script([callBlock("c1", "research")], "without it"),
      tools: [research((child) => sessions.cancel(child, { by: "ada" }))],
      prompt: "go",
      budget: { turns: 10 },
    });
    // Two turns of the parent, and one that the sub-agent had started.
    expect(result).toMatchObject({ status: "done", text: "without it", spent: { turns: 3 } });
    expect(session.budget.reserved).toEqual({});
    await bench.dispose();
  });

  test("cancelled with its parent before it has started", async () => {
    const opened = await subject.open();
    const outside = new Holdfast(new Journal({ store: await opened.another() }));
    let isFirst = true;
    const store = altered(opened.store, {
      append: async (append, batch) => {
        if (isFirst && batch.writes[0]?.stream.startsWith("session/sub-")) {
          isFirst = false;
          await outside.sessions.cancel("alpha", { by: "ada" });
        }
        return append(batch);
      },
    });
    const session = await new Holdfast(new Journal({ store })).session("alpha");
    await session.limit({ turns: 10 });
    const told = await session.call({ tool: research(async () => undefined), args: {} });
    expect(told).toMatchObject({ status: "failed" });
    expect(session.budget).toEqual({ spent: {}, limit: { turns: 10 }, reserved: {} });
    await session.close();
    await opened.dispose();
  });
});
