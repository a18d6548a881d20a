// Runs a program of this repository: `node scripts/run.mjs demo/main.ts`.
//
// The program is bundled first, which takes a tenth of the time that a loader needs for hundreds of files. A
// bench then measures the code that users get, without the name-keeping helpers that a loader adds to every
// function.
//
// Lazy imports stay in separate files, as in the package. In a single file every module would become a
// function and its constants variables, which V8 cannot inline. The program runs in the root of the
// repository.

import { mkdtempSync, rmSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";
import { buildPage } from "./build-page.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
// If several programs are named, the last counts: `npm run bench -- bench/peers/dbos.ts` names a second one.
let entry;
while (process.argv[2]?.endsWith(".ts")) [entry] = process.argv.splice(2, 1);
if (entry === undefined) throw new Error("Name the program: node scripts/run.mjs demo/main.ts");
const folder = mkdtempSync(join(root, "node_modules", ".run-"));
// Also if the program ends the process itself.
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const bundle = await rolldown({
  cwd: root,
  input: entry,
  platform: "node",
  // Packages are not bundled. Examples import this one by its name, which tsconfig.json maps to the sources.
  external: (id) => !id.startsWith(".") && !isAbsolute(id) && !/^holdfast(\/|$)/.test(id),
  transform: { target: "node20" },
  logLevel: "warn",
  // A lazy import of a module that this program needs at once anyway is no mistake.
  onLog: (level, log, report) => {
    if (log.code !== "INEFFECTIVE_DYNAMIC_IMPORT") report(level, log);
  },
});
await bundle.write({
  dir: folder,
  format: "esm",
  entryFileNames: "program.mjs",
  chunkFileNames: "[name].mjs",
});
await bundle.close();
// A program that serves the page finds it beside itself.
if (process.argv.includes("--ui")) await buildPage(join(folder, "ui"));
// A program that starts itself again, such as a supervisor's worker, finds its own file there.
process.argv[1] = join(folder, "program.mjs");
await import(process.argv[1]);
