/**
 * The agent and the world as plain JavaScript, made once before the show: a restart then costs a fifth of a second
 * instead of one, and what is seen is the recovery, not the loader.
 */

import { symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "tsdown";

const root = fileURLToPath(new URL("..", import.meta.url));

export async function buildPrograms(folder: string): Promise<void> {
  await build({
    cwd: root,
    config: false,
    entry: { agent: "demo/agent.ts", world: "demo/world.ts" },
    outDir: folder,
    format: "esm",
    platform: "node",
    dts: false,
    logLevel: "silent",
    deps: { neverBundle: [/^node:/] },
  });
  // The programs find their packages as if they stood in this repository.
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "junction");
}
