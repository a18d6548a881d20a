// Bundles programs of the tests for `test/program.ts`, which runs this as a process because the bundler is
// asynchronous.
//
//     node scripts/bundle-programs.mjs '{ "folder": …, "programs": { name: file }, "external": [package],
//         "instead": { file: other }, "packages": { name: other } }'
//
// `instead` replaces a file that the programs import themselves. Imports of deeper modules are not replaced.
// `packages` replaces a package in all our modules.

import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { rolldown } from "rolldown";

const root = fileURLToPath(new URL("..", import.meta.url));
const { folder, programs, external, instead = {}, packages = {} } = JSON.parse(process.argv[2]);
const files = new Set(Object.values(programs));

const replacing = {
  name: "instead",
  resolveId(source, importer) {
    if (packages[source] && !importer.includes("node_modules"))
      return this.resolve(packages[source], importer);
    if (!files.has(importer) || !source.startsWith(".")) return null;
    return instead[resolve(dirname(importer), source)] ?? null;
  },
};

// Lazy imports stay in separate files. A program loads only the exports of a folder's `index.ts` that it uses
// itself. Otherwise each start would load the whole model, which doubles its time.
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
  // For NODE_OPTIONS=--enable-source-maps. Node ignores them by default.
  sourcemap: true,
});
await bundle.close();
