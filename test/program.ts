/**
 * Programs of the tests, bundled as JavaScript. A start through a TypeScript loader takes ten times as long,
 * and the suites start hundreds of processes. The first test that needs a program bundles its whole set,
 * which shares most imports. The folder is shared by the run and removed with it.
 */

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Native modules cannot be bundled. */
const NATIVE = ["@photostructure/sqlite", "pg-native", "rolldown"];
/** CommonJS modules that are imported lazily: bundled, they would lose their named exports. */
const LAZY = ["ajv", "yaml"];
/** Packages that every start of a program may load. */
export const NOT_BUNDLED = [...NATIVE, ...LAZY];

interface Programs {
  /** Files, and folders whose files are all programs. */
  readonly of: readonly string[];
  /** Files that the programs import, and what they get instead. */
  readonly instead?: Readonly<Record<string, string>>;
  /** Packages that all our modules import, and what they get instead. */
  readonly packages?: Readonly<Record<string, string>>;
}

const STORE = { of: ["test/crash/programs", "test/stores/sqlite/programs", "test/journal/programs"] };

/** Each set is bundled at once. A larger set means less bundling, but more files to load per start. */
const SETS = {
  store: STORE,
  // The crash programs of SQLite, which here open a folder of files instead of a SQLite file.
  files: { ...STORE, instead: { "src/stores/sqlite/index.ts": "test/stores/files/programs/as-sqlite.ts" } },
  command: { of: ["src/cli/main.ts", "test/cli/programs", "test/mcp/programs", "test/web/programs"] },
  demo: { of: ["demo/main.ts"] },
  // Examples and recorder must share the module that records the calls.
  examples: { of: ["examples", "test/examples/recorder.ts", "test/examples/together.ts"] },
  chat: { of: ["examples/chat/server.ts"] },
  worker: { of: ["templates/worker/agent.mjs"] },
  // Alone, without the frameworks of the other examples.
  quickstart: { of: ["examples/quickstart.ts"] },
  servers: { of: ["test/stores/postgres/programs", "test/fleet/programs", "torture/world/main.ts"] },
  agents: {
    of: ["ai-sdk", "langgraph", "openai-agents"].map((each) => `test/integrations/${each}/programs`),
  },
  "ai-sdk-7": {
    of: ["test/integrations/ai-sdk/programs"],
    packages: { ai: "ai-7", "ai/test": "ai-7/test" },
  },
  others: {
    of: [
      // For configuration files, which import another copy than the command line has.
      "src/encryption/index.ts",
      "test/journal/move/programs",
      "test/stores/programs",
      "test/stores/files/programs/artifact-putter.ts",
      "test/goal/run-child.ts",
      "test/projections/programs",
      "test/session/programs",
      "test/state-files/programs",
      "test/supervisor/programs",
    ],
  },
} satisfies Record<string, Programs>;

/** The bundled file of a program, by its source. `set` is needed if two sets have it. */
export function programFile(source: URL | string, set?: keyof typeof SETS): string {
  const path = relative(root, typeof source === "string" ? source : fileURLToPath(source));
  const names = Object.keys(SETS) as (keyof typeof SETS)[];
  const found = set ?? names.find((each) => sourcesOf(SETS[each]).includes(path));
  if (found === undefined) throw new Error(`${path} is in none of the sets of programs`);
  return join(made(found), `${nameOf(path)}.mjs`);
}

const sourcesOf = ({ of }: Programs): string[] =>
  of.flatMap((path) => (/\.(ts|mjs)$/.test(path) ? [path] : filesIn(path).map((name) => `${path}/${name}`)));

const filesIn = (path: string): string[] =>
  readdirSync(join(root, path)).filter((name) => name.endsWith(".ts"));

const nameOf = (path: string): string => path.replaceAll("/", "-").replace(/\.(ts|mjs)$/, "");

/** The folder of a set. */
function made(set: keyof typeof SETS): string {
  const home = process.env["HOLDFAST_TEST_PROGRAMS"];
  if (home === undefined) throw new Error("test/program-folder.ts has to be among the global set-ups");
  const folder = join(home, set);
  if (existsSync(folder)) return folder;
  const making = mkdtempSync(join(home, "making-"));
  chmodSync(making, 0o755);
  const { instead = {}, packages = {}, ...programs }: Programs = SETS[set];
  const inRoot = (path: string): string => join(root, path);
  const asked = {
    folder: making,
    programs: Object.fromEntries(sourcesOf(programs).map((path) => [nameOf(path), inRoot(path)])),
    external: NOT_BUNDLED,
    instead: Object.fromEntries(Object.entries(instead).map((each) => each.map(inRoot))),
    packages,
  };
  execFileSync(process.execPath, [inRoot("scripts/bundle-programs.mjs"), JSON.stringify(asked)]);
  try {
    renameSync(making, folder);
  } catch (error) {
    // Another process was faster, with the same sources.
    if (!existsSync(folder)) throw error;
    rmSync(making, { recursive: true, force: true });
  }
  return folder;
}
