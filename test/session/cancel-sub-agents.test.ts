/** Sub-agents whose parent is cancelled: before they have started, and after their process died. */

import { afterAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, Holdfast, Journal, type Tool, tool } from "../../src/index.ts";
import { altered } from "../journal/places.ts";
import { callBlock, counting, fatal, openBench, script, type World } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

function research(...tools: Tool[]): Tool {
  const model = () => script([callBlock("s1", "pay")]);
  return tool(
    agentTool({
      name: "research",
      description: "research",
      input: z.looseObject({}),
      run: (_args, child) => child.run({ model: model(), tools, prompt: "go" }),
    }),
  );
}

const asking = () => script([callBlock("c1", "research")]);

describe.each(storeSubjects())("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("a sub-agent that has not started is cancelled, too", async () => {
    const opened = await subject.open();
    const outside = new Holdfast(new Journal({ store: await opened.another() }));
    let isFirst = true;
    let leave = (): void => undefined;
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const store = altered(opened.store, {
      append: async (append, batch) => {
        if (isFirst && batch.writes[0]?.stream.startsWith("session/sub-")) {
          isFirst = false;
          await outside.sessions.cancel("alpha", { by: "ada" });
        }
        return append(batch);
      },
      lease: async (lease, request) => {
        const outcome = await lease(request);
        if (request.act === "release" && request.lease.lease.startsWith("session/sub-")) leave();
        return outcome;
      },
    });
    const world: World = { effects: [] };
    const parent = await new Holdfast(new Journal({ store })).session("alpha");
    await parent.run({ model: asking(), tools: [research(counting(world, "pay"))], prompt: "go" });
    await left;
    expect(world.effects).toEqual([]);
    const { sessions } = await outside.sessions.list();
    expect(sessions.map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
    await parent.close();
    await opened.dispose();
  });

  test("calls of a sub-agent whose process died wait for a person", async () => {
    const bench = await openBench(subject);
    const dying = fatal({ effects: [] }, "pay");
    const parent = await bench.first.session();
    parent.run({ model: asking(), tools: [research(dying.tool)], prompt: "go" }).catch(() => undefined);
    await dying.reached;
    const { holdfast } = await bench.afterCrash();
    await holdfast.sessions.cancel("alpha", { by: "ada" });
    const { calls } = await holdfast.calls.list();
    expect(calls.map(({ tool: name, status }) => [name, status]).sort()).toEqual([
      ["pay", "waiting"],
      ["research", "waiting"],
    ]);
    await bench.dispose();
  });
});
