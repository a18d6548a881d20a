// `npm run bench`: bundles the bench first, so that it measures the code as a user's program gets it, and not the
// helpers that a loader puts around every function to keep its name.

import { mkdtempSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
const folder = mkdtempSync(join(root, "node_modules", ".bench-"));
try {
  const outfile = join(folder, "bench.mjs");
  await build({
    entryPoints: ["bench/main.ts"],
    outfile,
    bundle: true,
    platform: "node",
    format: "esm",
    target: "node20",
    packages: "external",
    logLevel: "warning",
  });
  await import(outfile);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
