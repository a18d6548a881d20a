// The next action of STATE.md is that of `holdfast next` and of the briefing.

import { afterEach, beforeEach, expect, test } from "vitest";
import { storeSubjects } from "../subjects.ts";
import { FolderBench } from "./folder-bench.ts";

const [subject] = storeSubjects();
if (!subject) throw new Error("there is no store");
let bench: FolderBench;
beforeEach(async () => {
  bench = await FolderBench.open(subject, {
    tasks: [{ title: "one" }, { title: "two" }],
    verification: "self",
  });
});
afterEach(() => bench.dispose());

function nextAction(): string {
  return /^## Next Action\n([^#]*)/m.exec(bench.read())?.[1]?.trim() ?? "";
}

async function finish(task: string): Promise<void> {
  const claim = await bench.goal.claim(task);
  await claim.submit({ summary: "done" });
}

/** The task that the briefing names. */
const briefed = (): string | undefined => /^NEXT (T-\d+)/m.exec(bench.goal.briefing())?.[1];

test("a noted task is named until it is done, then the one that is ready, then none", async () => {
  expect(nextAction()).toBe("Ready: T-001: one");
  await bench.goal.setNext({ next: "T-002" });
  expect(nextAction()).toBe("T-002: two");
  expect(briefed()).toBe("T-002");
  await finish("T-002");
  expect(nextAction()).toBe("Ready: T-001: one");
  expect(briefed()).toBe("T-001");
  await finish("T-001");
  expect(nextAction()).toBe("");
  expect(briefed()).toBeUndefined();
});

test("a noted text is shown beside the next task", async () => {
  await bench.goal.setNext({ next: "call Bob" });
  expect(nextAction()).toBe("call Bob\n\nReady: T-001: one");
  await bench.goal.setNext({ next: { task: "T-001", text: "by noon" } });
  expect(nextAction()).toBe("T-001: one — by noon");
});

test.each([
  ["written above it", "## Next Action\n", "## Next Action\n\ncall Bob\n", { text: "call Bob", task: null }],
  ["in its place", "Ready: T-001: one", "T-002", { text: null, task: "T-002" }],
  ["changed in it", "Ready: T-001: one", "Ready: T-002: two", { text: null, task: "T-002" }],
  ["its number alone", "Ready: T-001: one", "Ready: T-002: one", { text: null, task: "T-002" }],
  [
    "words behind it",
    "Ready: T-001: one",
    "Ready: T-001: one, but ask Bob first",
    { text: "but ask Bob first", task: "T-001" },
  ],
  [
    "words in place of its title",
    "Ready: T-001: one",
    "Ready: T-001: once Bob is back",
    { text: "once Bob is back", task: "T-001" },
  ],
  [
    "above it and in it",
    /Ready: T-001: one/,
    "call Bob\n\nReady: T-002: two",
    { text: "call Bob", task: "T-002" },
  ],
] as const)("what a person says is taken in: %s", async (_, from, to, next) => {
  bench.edit("STATE.md", from, to);
  const [edit] = (await bench.folder.sync()).edits;
  expect(edit).toMatchObject({ left: [], conflicts: [] });
  expect(bench.goal.state.next).toMatchObject(next);
});

test("progress of the goal during an edit is no conflict, and an old page changes nothing", async () => {
  const old = bench.read();
  await finish("T-001");
  bench.save("STATE.md", old.replace("## Open Questions\n", "## Open Questions\n\n- why?\n"));
  const [edit] = (await bench.folder.sync()).edits;
  expect(edit).toMatchObject({ taken: ["new question: why?"], conflicts: [], left: [] });
  expect(bench.goal.state.next).toBeNull();
  expect(nextAction()).toBe("Ready: T-002: two");
});

test("the noted text stays with the task that a person names in the computed line", async () => {
  await bench.goal.setNext({ next: "call Bob" });
  bench.edit("STATE.md", "Ready: T-001: one", "Ready: T-002: two");
  const [edit] = (await bench.folder.sync()).edits;
  expect(edit).toMatchObject({ left: [], conflicts: [] });
  expect(bench.goal.state.next).toMatchObject({ task: "T-002", text: "call Bob" });
});

test("of two tasks that a person names, the upper one counts, and the file is backed up", async () => {
  bench.edit("STATE.md", "Ready: T-001: one", "T-001: one\n\nReady: T-002: two");
  const [edit] = (await bench.folder.sync()).edits;
  expect(edit?.left).toEqual([expect.stringContaining("two lines")]);
  expect(bench.goal.state.next).toMatchObject({ task: "T-001", text: null });
  expect(bench.beside()).toHaveLength(1);
});
