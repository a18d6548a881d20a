import { afterAll, describe, expect, test } from "vitest";
import { storeSubjects } from "../subjects.ts";
import { callBlock, counting, openBench, script } from "./bench.ts";

const subjects = storeSubjects();
afterAll(() => Promise.all(subjects.map((subject) => subject.dispose())));

describe.each(subjects)("on '$name'", (subject) => {
  test("the model learns which of its reads failed", async () => {
    const bench = await openBench(subject);
    const world = { effects: [] as string[] };
    const failing = {
      effect: "read",
      execute: () => {
        throw new Error("no such file");
      },
    } as const;
    const tools = [counting(world, "look", { effect: "read" }), counting(world, "miss", failing)];
    const session = await bench.first.session();
    const model = script([callBlock("c1", "look"), callBlock("c2", "miss")], "done");
    await session.run({ model, tools, prompt: "go" });
    const results = session.messages.flatMap(({ blocks }) =>
      blocks.flatMap((block) => (block.kind === "tool_result" ? [block] : [])),
    );
    expect(results.map(({ callId, isError = false }) => [callId, isError])).toEqual([
      ["c1", false],
      ["c2", true],
    ]);
    expect(JSON.stringify(results[1])).toContain("no such file");
    await bench.dispose();
  });
});
