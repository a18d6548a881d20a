// The quickstart is the first example a user runs. It is bundled, because each start through a TypeScript
// loader costs a second.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { programFile } from "../program.ts";
import { quickFolder } from "../quick-folder.ts";
import { root, run } from "./running.ts";

const scratch = mkdtempSync(join(quickFolder(), "holdfast-quickstart-test-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const FILE = join("examples", "quickstart.ts");

test("a killed quickstart continues where it stopped when it is run again", async () => {
  const store = join(scratch, "store.db");
  const program = programFile(join(root, FILE), "quickstart");
  for (const point of ["message.appended", "call.executed", "call.recorded"]) {
    const env = { HOLDFAST_STORE: store, HOLDFAST_FAILPOINT: point };
    const killed = await run([program], scratch, env);
    expect({ point, signal: killed.signal }).toEqual({ point, signal: "SIGKILL" });
  }
  const { output } = await run([program], scratch, { HOLDFAST_STORE: store });
  expect(output).toContain("done: Order 4711 is paid.");
});
