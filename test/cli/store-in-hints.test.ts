// A hint's commands reach the store that the command was typed for.

import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { COMMANDS } from "../../src/cli/commands.ts";
import { addStoreOption, openScreen } from "../../src/cli/screen.ts";
import { open } from "../../src/open.ts";
import { CommandLine } from "./command-line.ts";
import { runInside } from "./inside.ts";

let line: CommandLine;
beforeAll(async () => {
  line = await CommandLine.build();
  const holdfast = await open(join(line.project, "other", ".holdfast"));
  const goal = await holdfast.goal("g", { statement: "Ship it" });
  await goal.addTask({ title: "one" });
  await holdfast.close();
});
afterAll(async () => {
  await openScreen();
  line.remove();
});

test("a command in a hint works as printed, and names no store if none was given", async () => {
  const store = ["--store", "other/.holdfast"];
  const refused = await runInside(line.project, ["task", "claim", "99", ...store]);
  const [hinted = ""] = refused.err.match(/holdfast task list --store \S+/) ?? [];
  expect(hinted, refused.err).toBe("holdfast task list --store other/.holdfast");
  const followed = await runInside(line.project, hinted.split(" ").slice(1));
  expect(followed).toMatchObject({ code: 0, out: expect.stringContaining("T-001") });
  const asJson = await runInside(line.project, ["task", "claim", "99", "--json", ...store]);
  expect(asJson.err).toContain("holdfast task list --store other/.holdfast");
  const here = { HOLDFAST_STORE: join(line.project, "other", ".holdfast") };
  const plain = await runInside(line.project, ["task", "claim", "99"], here);
  expect(plain.err).toContain("holdfast task list");
  expect(plain.err).not.toContain("--store");
});

test("every command with a store option is recognised, and prose stays unchanged", async () => {
  const listeners = process.stdout.listeners("error");
  await openScreen({ store: "my store" });
  for (const each of process.stdout.listeners("error")) {
    if (!listeners.includes(each)) process.stdout.off("error", each as () => void);
  }
  // A move names both its stores, and the others need none.
  const without = ["move", "schema new", "new", "explain"];
  for (const { words } of COMMANDS.filter((command) => !without.includes(command.words))) {
    expect(addStoreOption(`See holdfast ${words}; then go on`)).toBe(
      `See holdfast ${words} --store 'my store'; then go on`,
    );
  }
  for (const prose of [
    "Bring holdfast to the release that wrote it",
    "holdfast --help",
    "Say where it is: holdfast status --store …",
    "holdfast next-door",
    "Finish it: holdfast move a.db b.db",
  ])
    expect(addStoreOption(prose)).toBe(prose);
});
