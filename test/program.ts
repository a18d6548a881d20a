/**
 * Programs of the tests in plain JavaScript. A start through a TypeScript loader costs ten times what a start of Node
 * does, and the suites start hundreds of processes. A program is made by whoever needs it first, together with those of its
 * set, which share most of what they import; the whole run shares it, and the folder it stands in goes with the run.
 */

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** What is bundled in is loaded at once; a native module cannot be. */
const NATIVE = ["@photostructure/sqlite", "pg-native", "rolldown"];
/** In the old format and imported when needed: in a file of their own, bundled, they would lose the names they export. */
const LAZY = ["ajv", "yaml"];

interface Programs {
  /** Files, and folders whose files are all programs. */
  readonly of: readonly string[];
  /** What the programs get in place of a file that they import. */
  readonly instead?: Readonly<Record<string, string>>;
}

const STORE = { of: ["test/crash/programs", "test/stores/sqlite/programs", "test/journal/programs"] };

/** What is bundled at once. More in one set is less to bundle, in more files that each start has to load. */
const SETS = {
  store: STORE,
  // The programs that are made to die for SQLite: where they open an SQLite file they open a folder of plain files.
  files: { ...STORE, instead: { "src/stores/sqlite/index.ts": "test/stores/files/programs/as-sqlite.ts" } },
  command: { of: ["src/cli/main.ts", "test/cli/programs", "test/mcp/programs"] },
  demo: { of: ["demo/main.ts"] },
  // The calls of examples are recorded in the module that the recorder imports as well.
  examples: { of: ["examples", "test/examples/recorder.ts", "test/examples/together.ts"] },
  // By itself, without the frameworks that others of them bring along.
  quickstart: { of: ["examples/quickstart.ts"] },
  servers: { of: ["test/stores/postgres/programs", "test/fleet/programs", "torture/world/main.ts"] },
  agents: {
    of: ["ai-sdk", "langgraph", "openai-agents"].map((each) => `test/integrations/${each}/programs`),
  },
  others: {
    of: [
      "test/journal/copy/programs",
      "test/stores/files/programs/artifact-putter.ts",
      "test/goal/run-child.ts",
      "test/projections/programs",
      "test/state-files/programs",
      "test/supervisor/programs",
    ],
  },
} satisfies Record<string, Programs>;

/** The file of one program, whose source is given by a path or URL. `set`: where it is in two of them. */
export function programFile(source: URL | string, set?: keyof typeof SETS): string {
  const path = relative(root, typeof source === "string" ? source : fileURLToPath(source));
  const names = Object.keys(SETS) as (keyof typeof SETS)[];
  const found = set ?? names.find((each) => sourcesOf(SETS[each]).includes(path));
  if (found === undefined) throw new Error(`${path} is in none of the sets of programs`);
  return join(made(found), `${nameOf(path)}.mjs`);
}

const sourcesOf = ({ of }: Programs): string[] =>
  of.flatMap((path) =>
    path.endsWith(".ts") ? [path] : readdirSync(join(root, path)).map((name) => `${path}/${name}`),
  );

const nameOf = (path: string): string => path.replaceAll("/", "-").replace(/\.ts$/, "");

/** The folder of a set. */
function made(set: keyof typeof SETS): string {
  const home = process.env["HOLDFAST_TEST_PROGRAMS"];
  if (home === undefined) throw new Error("test/program-folder.ts has to be among the global set-ups");
  const folder = join(home, set);
  if (existsSync(folder)) return folder;
  const making = mkdtempSync(join(home, "making-"));
  chmodSync(making, 0o755);
  const { instead = {}, ...programs }: Programs = SETS[set];
  const inRoot = (path: string): string => join(root, path);
  const asked = {
    folder: making,
    programs: Object.fromEntries(sourcesOf(programs).map((path) => [nameOf(path), inRoot(path)])),
    external: [...NATIVE, ...LAZY],
    instead: Object.fromEntries(Object.entries(instead).map((each) => each.map(inRoot))),
  };
  execFileSync(process.execPath, [inRoot("scripts/bundle-programs.mjs"), JSON.stringify(asked)]);
  try {
    renameSync(making, folder);
  } catch (error) {
    // Somebody was faster, with the same sources.
    if (!existsSync(folder)) throw error;
    rmSync(making, { recursive: true, force: true });
  }
  return folder;
}
