import {
  chmodSync,
  copyFileSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const PREFIX = "holdfast-test-programs-";
const OLD_MS = 24 * 3_600_000;

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * One folder for the bundled programs of a run, in which they find packages, and ours by its name, as if they stood in
 * this repository. Some are run as another user, who has to be able to read them.
 */
export default function setup(): () => void {
  // `npm test` has one for all its runs: what is bundled is the same on every Node.
  const shared = process.env["HOLDFAST_TEST_PROGRAMS"];
  if (shared === undefined) removeOld();
  const folder = shared ?? realpathSync(mkdtempSync(join(tmpdir(), PREFIX)));
  fill(folder);
  process.env["HOLDFAST_TEST_PROGRAMS"] = folder;
  // Programs that start more than once are compiled once, where Node can keep that (22 and later). A process writes what it has
  // compiled when it ends, which may be after this folder is gone, and would make it again: `npm test` has a place that stays longer.
  process.env["NODE_COMPILE_CACHE"] = process.env["HOLDFAST_COMPILED"] ?? join(folder, "compiled");
  // Each starts with four threads for V8, which most never use: starting them costs a tenth of a short life, a fifth under strace.
  process.env["NODE_OPTIONS"] = `${process.env["NODE_OPTIONS"] ?? ""} --v8-pool-size=1`.trimStart();
  return () => {
    if (shared === undefined) rmSync(folder, { recursive: true, force: true });
  };
}

function fill(folder: string): void {
  chmodSync(folder, 0o755);
  copyFileSync(join(root, "package.json"), join(folder, "package.json"));
  try {
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"), "junction");
  } catch (error) {
    // Another run of those that share it was faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** A run that was killed could not take its folder with it. */
function removeOld(): void {
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(PREFIX))) {
    const path = join(tmpdir(), name);
    try {
      if (Date.now() - statSync(path).mtimeMs > OLD_MS) rmSync(path, { recursive: true, force: true });
    } catch {
      // Another run was faster, or it belongs to somebody else.
    }
  }
}
