// `npm run bench`, and with the name of a file `npm run bench -- bench/peers/dbos.ts`, which compares with a peer. What is
// run is bundled first, so that it measures the code as a user's program gets it, and not the helpers that a loader puts
// around every function to keep its name.

import { mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
const entry = process.argv[2]?.endsWith(".ts") ? process.argv.splice(2, 1)[0] : "bench/main.ts";
const folder = mkdtempSync(join(root, "node_modules", ".bench-"));
// Also when what is run ends the process by itself.
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const outfile = join(folder, "bench.mjs");
await build({
  entryPoints: [entry],
  outfile,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  packages: "external",
  logLevel: "warning",
});
await import(outfile);
