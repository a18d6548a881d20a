/**
 * One durable step against DBOS's, in one run, on one server: a function that returns about 4 KB, run once, ever. Ours is
 * a call of the ledger, which makes the intent durable before the function starts and the result after it: two commits. A
 * DBOS step makes the result durable: one commit; a step that stands alone is a workflow of its own, with two more.
 * Measured with one session (one workflow) and with sixteen at once, in rounds by turns.
 *
 *     node --import tsx bench/peers/dbos.ts [--steps 200] [--rounds 5] [--json]
 *
 * With `HOLDFAST_PEERS=<folder>` the peer is installed there once and used again. It runs as it was published, so ours is
 * bundled first, as it is published: what a loader puts around every function to keep its name would be measured, too.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = fileURLToPath(new URL("../..", import.meta.url));
process.chdir(root);
const folder = mkdtempSync(join(root, "node_modules", ".bench-"));
try {
  const outfile = join(folder, "dbos.mjs");
  await build({
    entryPoints: ["bench/peers/dbos-comparison.ts"],
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
// The peer leaves timers behind.
process.exit(0);
