/**
 * Records which configuration files a person has allowed on this machine. A record is a file in
 * `~/.config/holdfast/trusted/`, outside every repository. Its name is a digest of
 *
 *     the repository's path   the same text in another clone is not trusted
 *     the file's name, text   and those of every module that it imports by a relative path
 *
 * All worktrees of a repository share a record. A changed file is a new file: it has to be allowed again.
 * Modules of packages (`import "zod"`) are not covered; they are as trusted as the rest of `node_modules`.
 */

import { existsSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join, relative, resolve } from "node:path";
import { sha256 } from "../model/digest.ts";
import { HoldfastError } from "../model/errors.ts";

const MAX_BYTES = 1 << 20;
const MAX_MODULES = 200;
const MODULE = /\.([cm]?[jt]s|json)$/;
/** Any relative path in quotes: an import, a require, a dynamic import. */
const RELATIVE = /["'`](\.{1,2}\/[^"'`\n]{1,500})["'`]/g;

/** A configuration file and the folder that all worktrees of its repository share. */
export interface ConfigPlace {
  readonly file: string;
  readonly home: string;
}

export function isTrusted(place: ConfigPlace): boolean {
  return existsSync(recordOf(place));
}

/** Records that the file as it is now may run. */
export function trust(place: ConfigPlace): void {
  const record = recordOf(place);
  mkdirSync(dirname(record), { recursive: true, mode: 0o700 });
  writeFileSync(record, `${place.file}\n`, { mode: 0o600 });
}

export function distrust(place: ConfigPlace): void {
  rmSync(recordOf(place), { force: true });
}

/** The files that a record covers: the configuration, and the modules that it imports by a relative path. */
export function coveredFiles(file: string): string[] {
  const found = new Set([realpathSync(file)]);
  for (const each of found) {
    if (each.endsWith(".json")) continue;
    for (const [, specifier = ""] of textOf(each).matchAll(RELATIVE)) {
      const module = moduleAt(resolve(dirname(each), specifier));
      if (module !== null) found.add(module);
    }
    if (found.size > MAX_MODULES) throw refusal(file, `it imports more than ${MAX_MODULES} files`);
  }
  return [...found];
}

function recordOf({ file, home }: ConfigPlace): string {
  const folder = dirname(realpathSync(file));
  const parts = coveredFiles(file).map((each) => [relative(folder, each), sha256(textOf(each))]);
  const repository = existsSync(dirname(home)) ? realpathSync(dirname(home)) : dirname(home);
  return join(recordsFolder(), sha256(JSON.stringify([repository, basename(file), parts])));
}

function recordsFolder(): string {
  const { XDG_CONFIG_HOME: named = "" } = process.env;
  return join(isAbsolute(named) ? named : join(homedir(), ".config"), "holdfast", "trusted");
}

function moduleAt(path: string): string | null {
  const candidates = [path, ...[".js", ".cjs", ".json", "/index.js"].map((end) => path + end)];
  const found = candidates.find(
    (each) => MODULE.test(each) && statSync(each, { throwIfNoEntry: false })?.isFile(),
  );
  return found === undefined ? null : realpathSync(found);
}

/** The text of a small regular file. A pipe would block, and a large file is no configuration. */
export function textOf(file: string): string {
  const stats = statSync(file);
  if (!stats.isFile() || stats.size > MAX_BYTES) throw refusal(file, "not a file of at most 1 MB");
  return readFileSync(file, "utf8");
}

function refusal(file: string, what: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `${file}: ${what}`, {
    hint: "Keep the configuration small, or remove the file.",
    data: { file },
  });
}
