/**
 * Another user, for tests of access rights that run as root: root may read and write everything. For any
 * other user the tests run as that user itself.
 *
 * The clone may be where the other user cannot enter, such as root's home. Then Node, the programs and the
 * packages that they load are copied to the folder of the programs, once per run.
 */

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { NOT_BUNDLED } from "./program.ts";
import { quickFolder } from "./quick-folder.ts";

interface Account {
  readonly uid?: number;
  readonly gid?: number;
}

const packages = fileURLToPath(new URL("../node_modules", import.meta.url));

/** Empty unless the tests run as root. */
export const OTHER_USER: Account = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {};

/** False if the temporary folders are closed to that user. No copy helps then. */
export const hasOtherUser = canUse(quickFolder()) && canUse(programsFolder());

/** The command that runs a program of `programFile` as `OTHER_USER`. */
export function commandOfOther(program: string): [node: string, program: string] {
  if (canUse(process.execPath) && canUse(packages)) return [process.execPath, program];
  const folder = copied(dirname(program));
  return [join(folder, "node"), join(folder, "programs", basename(program))];
}

function programsFolder(): string {
  const folder = process.env["HOLDFAST_TEST_PROGRAMS"];
  if (folder === undefined) throw new Error("test/program-folder.ts has to be among the global set-ups");
  return folder;
}

function canUse(path: string): boolean {
  if (OTHER_USER.uid === undefined) return true;
  const look = ["-c", 'test -r "$1" && test -x "$1"', "sh", path];
  return spawnSync("sh", look, { ...OTHER_USER, cwd: "/", stdio: "ignore" }).status === 0;
}

/** Node, the programs of one set, and their packages. */
function copied(programs: string): string {
  const folder = join(programsFolder(), `${basename(programs)}-for-other`);
  if (existsSync(folder)) return folder;
  const making = mkdtempSync(join(programsFolder(), "making-"));
  chmodSync(making, 0o755);
  copyFileSync(process.execPath, join(making, "node"));
  copyFileSync(join(programsFolder(), "package.json"), join(making, "package.json"));
  cpSync(programs, join(making, "programs"), { recursive: true });
  for (const name of withDependencies(NOT_BUNDLED)) {
    cpSync(join(packages, name), join(making, "node_modules", name), { recursive: true });
  }
  try {
    renameSync(making, folder);
  } catch (error) {
    // Another worker was faster, with the same files.
    if (!existsSync(folder)) throw error;
    rmSync(making, { recursive: true, force: true });
  }
  return folder;
}

function withDependencies(names: readonly string[]): Set<string> {
  const all = new Set(names.filter((name) => existsSync(join(packages, name))));
  for (const name of all) {
    const manifest = readFileSync(join(packages, name, "package.json"), "utf8");
    for (const each of Object.keys(JSON.parse(manifest).dependencies ?? {})) {
      if (existsSync(join(packages, each))) all.add(each);
    }
  }
  return all;
}
