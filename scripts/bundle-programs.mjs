// Bundles programs of the tests, for `test/program.ts`, which waits for it: the bundler itself cannot be waited for.
//
//     node scripts/bundle-programs.mjs '{ "folder": …, "programs": { name: file }, "external": [package], "instead": { file: other } }'
//
// `instead`: what the programs themselves, and nothing below them, get in place of a file that they import.

import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const { folder, programs, external, instead = {} } = JSON.parse(process.argv[2]);
const files = new Set(Object.values(programs));

const replacing = {
  name: "instead",
  resolveId(source, importer) {
    if (!files.has(importer) || !source.startsWith(".")) return null;
    return instead[resolve(dirname(importer), source)] ?? null;
  },
};

// What is imported when needed stays in files of its own, and what one program does not use of a folder's `index.ts` is not
// loaded by it because another program does. Else each start would run the whole model: twice the time.
const bundle = await rolldown({
  cwd: root,
  input: programs,
  platform: "node",
  external: [/^node:/, ...external.map((name) => new RegExp(`^${name}(/|$)`))],
  tsconfig: join(root, "tsconfig.json"),
  resolve: { mainFields: ["module", "main"] },
  transform: { target: "node20" },
  plugins: [replacing],
  logLevel: "warn",
});
await bundle.write({
  dir: folder,
  format: "esm",
  entryFileNames: "[name].mjs",
  chunkFileNames: "[name]-[hash].mjs",
  // For NODE_OPTIONS=--enable-source-maps; by itself Node does not look at them.
  sourcemap: true,
});
await bundle.close();
