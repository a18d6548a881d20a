/**
 * The agent and the world as plain JavaScript, made once before the show: a restart then costs a fifth of a second
 * instead of one, and what is seen is the recovery, not the loader.
 */

import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { rolldown } from "rolldown";

export async function buildPrograms(folder: string): Promise<void> {
  // Where `scripts/run.mjs` has put us.
  const root = process.cwd();
  const made = await rolldown({
    cwd: root,
    input: { agent: "demo/agent.ts", world: "demo/world.ts" },
    platform: "node",
    external: [/^node:/, /^@photostructure\/sqlite(\/|$)/, /^(pg|ajv|yaml)(\/|$)/],
    transform: { target: "node20" },
    logLevel: "silent",
  });
  await made.write({
    dir: folder,
    format: "esm",
    entryFileNames: "[name].mjs",
    chunkFileNames: "[name]-[hash].mjs",
  });
  await made.close();
  // The programs find their packages as if they stood in this repository.
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "junction");
}
