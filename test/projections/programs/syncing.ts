// Syncs the files of a goal, and kills itself with SIGKILL right before, or after, the n-th call to the
// file system below the folder. Says how many calls there were when it comes to its end.

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const [store = "", root = "", at = "0", when = "before"] = process.argv.slice(2);
const CALLS = ["open", "rename", "rm", "mkdir", "readdir", "link"] as const;
let count = 0;

function arm(): void {
  for (const name of CALLS) {
    const original = fs.promises[name] as unknown as (...args: unknown[]) => Promise<unknown>;
    const wrapped = async (...args: unknown[]): Promise<unknown> => {
      const isOurs = String(args[0]).startsWith(root);
      if (isOurs && ++count === Number(at) && when === "before") process.kill(process.pid, "SIGKILL");
      const mine = count;
      const made = await original(...args);
      if (isOurs && mine === Number(at) && when === "after") process.kill(process.pid, "SIGKILL");
      return made;
    };
    Object.assign(fs.promises, { [name]: wrapped });
  }
  syncBuiltinESMExports();
}

arm();
const { open } = await import("../../../src/open.ts");
const { projectGoal } = await import("../../../src/projections/index.ts");
const holdfast = await open(store);
const goal = await holdfast.goal("checkout", { root, by: { name: "w", role: "orchestrator" } });
const folder = await projectGoal(goal, { quietMs: 0 });
await goal.fact({ key: "last", value: 1, source: "x" });
await folder.close();
await holdfast.close();
process.stdout.write(`${count}\n`);
