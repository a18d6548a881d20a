/** Agent and world as plain JavaScript, made once: hundreds of processes start from them. */

import { readFileSync, symlinkSync } from "node:fs";
import { join, relative } from "node:path";
import { type Plugin, rolldown } from "rolldown";

/** Where `scripts/run.mjs` and the tests run. */
const ROOT = process.cwd();

/** A change to a source file for one bundle only: a planted bug in a place that no wrapper reaches. */
export interface Mutation {
  /** From the root of the repository. */
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

export interface Bundle {
  readonly agent: string;
  readonly world: string;
  /** Of the power cut: who writes, and who opens what is left. */
  readonly writer: string;
  readonly opener: string;
}

/** A native driver cannot be bundled, and what is imported when needed, and in the old format, would lose the names it exports. */
const OUTSIDE = [/^node:/, /^@photostructure\/sqlite(\/|$)/, /^ajv(\/|$)/, /^yaml(\/|$)/];

/** By name, their files. What is imported when needed stays in files of its own, and is not run at each start. */
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

/** The native driver stays outside of bundles and is found through this link. */
export function linkModules(folder: string): void {
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"), "junction");
}

/** One program that was written on the spot, `<name>.mjs` in `folder`; its imports count from the root of the repository. */
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

/** Bundles into `folder` what is `wanted`, which is everything unless it is said. */
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
  return {
    name: "planted-bugs",
    load(path) {
      const mine = mutations.filter(({ file }) => file === relative(ROOT, path));
      return mine.length === 0 ? null : mine.reduce(mutate, readFileSync(path, "utf8"));
    },
  };
}

/** A planted bug that no longer fits its file plants nothing: that must show. */
function mutate(source: string, { file, from, to }: Mutation): string {
  if (!source.includes(from)) {
    throw new Error(`the planted bug for ${file} does not apply: ${JSON.stringify(from)} is not there`);
  }
  return source.replaceAll(from, to);
}
