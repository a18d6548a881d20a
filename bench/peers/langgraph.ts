/**
 * HoldfastSaver against LangGraph's own savers, in one run, on one disk: turns of about 4 KB in a `messages` channel, a
 * checkpoint after every turn, then the latest loaded by a saver that has just been opened.
 *
 *     node --import tsx bench/peers/langgraph.ts [--turns 1000] [--delta-turns 499] [--only sqlite|postgres] [--json]
 *
 * With `HOLDFAST_PEERS=<folder>` the peers are installed there once and used again. They run as they were published, so ours
 * is bundled first, as it is published: what a loader puts around every function to keep its name would be measured, too.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
process.chdir(root);
const folder = mkdtempSync(join(root, "node_modules", ".bench-"));
try {
  const outfile = join(folder, "langgraph.mjs");
  await build({
    entryPoints: ["bench/peers/langgraph-comparison.ts"],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    logLevel: "warning",
  });
  await import(pathToFileURL(outfile).href);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
