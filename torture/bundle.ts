/** Bundles the agent and the world as JavaScript once, because hundreds of processes start from them. */

import { readFileSync, symlinkSync } from "node:fs";
import { join, relative } from "node:path";
import { type Plugin, rolldown } from "rolldown";

/** `scripts/run.mjs` and the tests run in the root of the repository. */
const ROOT = process.cwd();

/** A change to a source file in one bundle only: a planted bug in a place that no wrapper reaches. */
export interface Mutation {
  /** Relative to the root of the repository. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export interface Bundle {
  readonly agent: string;
  readonly world: string;
  /** For the power cut: the writer, and the opener of the resulting images. */
  readonly writer: string;
  readonly opener: string;
}

/**
 * A native driver cannot be bundled. CommonJS modules that are imported lazily would lose their export
 * names.
 */
const OUTSIDE = [/^node:/, /^@photostructure\/sqlite(\/|$)/, /^ajv(\/|$)/, /^yaml(\/|$)/];

/** Bundles programs by name. Lazy imports stay in files of their own and do not slow each start. */
export async function writePrograms(
  programs: Readonly<Record<string, string>>,
  folder: string,
  plugin?: Plugin,
): Promise<void> {
  const made = await rolldown({
    cwd: ROOT,
    input: programs,
    platform: "node",
    external: OUTSIDE,
    transform: { target: "node20" },
    plugins: [plugin],
    logLevel: "warn",
  });
  await made.write({
    dir: folder,
    format: "esm",
    entryFileNames: "[name].mjs",
    chunkFileNames: "[name]-[hash].mjs",
  });
  await made.close();
}

/** Native drivers stay outside of bundles and are found through this link. */
export function linkModules(folder: string): void {
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "junction");
}

/**
 * Bundles one generated program to `<name>.mjs` in `folder`. Its imports are relative to the repository's
 * root.
 */
export async function bundleProgram(text: string, folder: string, name: string): Promise<string> {
  const place = join(ROOT, `${name}.ts`);
  await writePrograms({ [name]: place }, folder, {
    name: "written-on-the-spot",
    resolveId: (id) => (id === place ? place : null),
    load: (id) => (id === place ? text : null),
  });
  return join(folder, `${name}.mjs`);
}

const PROGRAMS: Bundle = {
  agent: "agent/main.ts",
  world: "world/main.ts",
  writer: "power-cut/writer/main.ts",
  opener: "power-cut/opener/main.ts",
};
const ALL = Object.keys(PROGRAMS) as (keyof Bundle)[];

/** Bundles the `wanted` programs into `folder`. Default: all. */
export async function bundle(
  folder: string,
  mutations: readonly Mutation[] = [],
  wanted: readonly (keyof Bundle)[] = ALL,
): Promise<Bundle> {
  linkModules(folder);
  const programs = Object.fromEntries(wanted.map((name) => [name, join(ROOT, "torture", PROGRAMS[name])]));
  await writePrograms(programs, folder, mutating(mutations));
  const file = (name: keyof Bundle): string => join(folder, `${name}.mjs`);
  return { agent: file("agent"), world: file("world"), writer: file("writer"), opener: file("opener") };
}

function mutating(mutations: readonly Mutation[]): Plugin {
  const applied = new Set<Mutation>();
  return {
    name: "planted-bugs",
    load(path) {
      const mine = mutations.filter(({ file }) => file === relative(ROOT, path));
      for (const each of mine) applied.add(each);
      return mine.length === 0 ? null : mine.reduce(mutate, readFileSync(path, "utf8"));
    },
    buildEnd() {
      const missed = mutations.find((each) => !applied.has(each));
      if (missed)
        throw new Error(`the planted bug for ${missed.file} does not apply: the file is not loaded`);
    },
  };
}

/** Throws if a planted bug no longer fits its file, because it would plant nothing. */
function mutate(source: string, { file, from, to }: Mutation): string {
  if (!source.includes(from)) {
    throw new Error(`the planted bug for ${file} does not apply: ${JSON.stringify(from)} is not there`);
  }
  return source.replaceAll(from, to);
}
