/**
 * Programs of the tests in plain JavaScript. A start through a TypeScript loader costs ten times what a start of Node
 * does, and the suites start hundreds of processes. A program is made by whoever needs it first, and the whole run
 * shares it; the folder it stands in goes with the run.
 */

import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";

const root = fileURLToPath(new URL("..", import.meta.url));

/** What is bundled in is loaded at once; a native module cannot be. */
const NATIVE = ["@photostructure/sqlite", "pg-native"];
/** In the old format and imported when needed: in a file of their own, bundled, they would lose the names they export. */
const LAZY = ["ajv", "yaml"];
/** Packages in the old format call `require` for what Node brings along. */
const REQUIRE = `import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);`;

/** The file of one program, whose source is given by a path or URL. */
export function programFile(source: URL | string): string {
  const name = basename(fileOf(source), ".ts");
  return join(programFolder({ [name]: source }), `${name}.mjs`);
}

/** The folder of several programs that share what they both import, as `<name>.mjs`. */
export function programFolder(sources: Readonly<Record<string, URL | string>>): string {
  const home = process.env["HOLDFAST_TEST_PROGRAMS"];
  if (home === undefined) throw new Error("test/program-folder.ts has to be among the global set-ups");
  const entryPoints = Object.fromEntries(
    Object.entries(sources).map(([name, source]) => [name, fileOf(source)]),
  );
  const folder = join(
    home,
    createHash("sha256").update(JSON.stringify(entryPoints)).digest("hex").slice(0, 16),
  );
  if (existsSync(folder)) return folder;
  const making = mkdtempSync(join(home, "making-"));
  chmodSync(making, 0o755);
  buildSync({
    entryPoints,
    absWorkingDir: root,
    outdir: making,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    // What is imported when needed stays in files of its own. In one file with all else it could not be told from what is needed
    // at once, and each start would run the whole model: twice the time.
    splitting: true,
    platform: "node",
    format: "esm",
    target: "node20",
    tsconfig: join(root, "tsconfig.json"),
    external: [...NATIVE, ...LAZY],
    banner: { js: REQUIRE },
    // For NODE_OPTIONS=--enable-source-maps; by itself Node does not look at them.
    sourcemap: "linked",
    sourcesContent: false,
    logLevel: "warning",
  });
  try {
    renameSync(making, folder);
  } catch (error) {
    // Somebody was faster, with the same sources.
    if (!existsSync(folder)) throw error;
    rmSync(making, { recursive: true, force: true });
  }
  return folder;
}

function fileOf(source: URL | string): string {
  return typeof source === "string" ? source : fileURLToPath(source);
}
