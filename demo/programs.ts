/**
 * The agent and the world as plain JavaScript, made once before the show: a restart then costs a fifth of a second
 * instead of one, and what is seen is the recovery, not the loader.
 */

import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";

export async function buildPrograms(folder: string): Promise<void> {
  // Where `scripts/run.mjs` has put us.
  const root = process.cwd();
  await build({
    absWorkingDir: root,
    entryPoints: { agent: "demo/agent.ts", world: "demo/world.ts" },
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "node20",
    external: ["@photostructure/sqlite", "pg", "ajv", "yaml"],
    logLevel: "silent",
  });
  // The programs find their packages as if they stood in this repository.
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "junction");
}
