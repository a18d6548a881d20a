// Events that git brings into `.planning/events/` are merged before a command answers.

import { chmodSync, cpSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { open } from "../../src/open.ts";
import { projectGoal } from "../../src/projections/index.ts";
import { Connection } from "../../src/stores/sqlite/index.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
const endings: (() => unknown)[] = [];
beforeAll(async () => {
  line = await CommandLine.build();
});
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});
afterAll(() => line.remove());

/** Another user's clone. `pull` adds a task there and copies its event files to a folder, like git. */
async function colleague(name: string): Promise<{ pull(title: string, to: string): Promise<void> }> {
  const root = line.newProject();
  const holdfast = await open("memory:");
  const goal = await holdfast.goal(name, { statement: `Ship ${name}`, root });
  const folder = await projectGoal(goal, { auto: false });
  endings.push(
    () => holdfast.close(),
    () => folder.close(),
  );
  return {
    async pull(title, to) {
      await goal.addTask({ title });
      await folder.sync();
      cpSync(join(root, ".planning/events"), join(to, ".planning/events"), { recursive: true });
    },
  };
}

test("status, next, brief and the hook include pulled events", async () => {
  const ours = line.newProject();
  /** Only a process takes the fast path of status in `main.ts`. */
  const here = (...args: string[]) =>
    args[0] === "status" ? line.run(args, { cwd: ours }) : runInside(ours, args);
  const ann = await colleague("checkout");
  await ann.pull("Build the cart", ours);
  const cloned = await here("status", "--json");
  expect(JSON.parse(cloned.out).data.goals).toMatchObject([{ goal: "checkout", tasks: 1 }]);

  await ann.pull("Build the till", ours);
  const status = await here("status", "--json");
  expect(status).toMatchObject({ code: 0, err: "" });
  expect(JSON.parse(status.out).data.goals).toMatchObject([{ goal: "checkout", tasks: 2 }]);
  await ann.pull("Print the receipt", ours);
  expect((await here("next")).out).toContain("T-003");
  await ann.pull("Greet the customer", ours);
  expect((await here("brief")).out).toContain("Greet the customer");
  await ann.pull("Sweep the floor", ours);
  const input = JSON.stringify({ cwd: ours, session_id: "a", source: "startup" });
  const begun = await line.run(["hook", "codex", "session-start"], { cwd: ours, input });
  expect(begun.out).toContain("Sweep the floor");

  await (await colleague("search")).pull("Find things", ours);
  expect((await here("goal", "list")).out, "a goal that is new in this clone").toContain("search");
});

test("a failed merge is reported, and the store answers without it", async () => {
  const ours = line.newProject();
  const ann = await colleague("checkout");
  await ann.pull("one", ours);
  await line.run(["status"], { cwd: ours });
  const before = readdirSync(join(ours, ".planning/events")).length;
  await ann.pull("two", ours);
  expect(readdirSync(join(ours, ".planning/events")).length, "a new event file exists").toBeGreaterThan(
    before,
  );
  // Root may write everywhere, so the store itself rejects the write.
  const store = await Connection.open(join(ours, ".holdfast/store.db"), false);
  const seal = { phase: "left", move: "m", other: "elsewhere.db" };
  store.run("INSERT INTO meta (name, value) VALUES ('seal', ?)", JSON.stringify(seal));
  await store.close();
  for (const command of ["status", "next", "brief"]) {
    const isShort = command === "status";
    const ran = isShort ? line.run([command], { cwd: ours }) : runInside(ours, [command]);
    const { code, out, err } = await ran;
    expect(code, err).toBe(0);
    expect(out).toContain(command === "status" ? "checkout" : "T-001");
    expect(err).toContain("is not merged into the store");
  }
});

test.skipIf(process.getuid?.() === 0)(
  "a read-only folder still answers (root may write everywhere)",
  async () => {
    const ours = line.newProject();
    await (await colleague("checkout")).pull("one", ours);
    await line.run(["status"], { cwd: ours });
    chmodSync(join(ours, ".holdfast/store.db"), 0o400);
    for (const command of ["status", "next", "brief"])
      expect((await line.run([command], { cwd: ours })).code).toBe(0);
  },
);
