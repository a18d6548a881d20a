// Runs a program of this repository: `node scripts/run.mjs demo/main.ts`. It is bundled first: that takes a tenth of the time that
// a loader needs for hundreds of files, and a bench measures the code as a user's program gets it, without the helpers that
// a loader puts around every function to keep its name. What is imported late stays in files of its own, as in the package: put
// into one file, every module becomes a function, and its constants variables, which V8 cannot build into the code that reads
// them. The program finds itself at the root of the repository.

import { mkdtempSync, rmSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);
// Where several are named the last counts: `npm run bench -- bench/peers/dbos.ts` names a second.
let entry;
while (process.argv[2]?.endsWith(".ts")) [entry] = process.argv.splice(2, 1);
if (entry === undefined) throw new Error("Name the program: node scripts/run.mjs demo/main.ts");
const folder = mkdtempSync(join(root, "node_modules", ".run-"));
// Also when what is run ends the process by itself.
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const bundle = await rolldown({
  cwd: root,
  input: entry,
  platform: "node",
  // Packages stay where they are.
  external: (id) => !id.startsWith(".") && !isAbsolute(id),
  transform: { target: "node20" },
  logLevel: "warn",
});
await bundle.write({
  dir: folder,
  format: "esm",
  entryFileNames: "program.mjs",
  chunkFileNames: "[name].mjs",
});
await bundle.close();
await import(join(folder, "program.mjs"));
