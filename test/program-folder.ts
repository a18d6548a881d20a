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
 * One folder for the bundled programs of a run. They find packages there as if they were in this repository,
 * our own by its name included. Some run as another user, who must be able to read them.
 */
export default function setup(): () => void {
  // `npm test` shares one between its runs: bundles are the same on every Node.
  const shared = process.env["HOLDFAST_TEST_PROGRAMS"];
  if (shared === undefined) removeOld();
  const folder = shared ?? realpathSync(mkdtempSync(join(tmpdir(), PREFIX)));
  fill(folder);
  process.env["HOLDFAST_TEST_PROGRAMS"] = folder;
  // Node 22 and later cache compiled programs. A process writes its cache when it ends, maybe after this
  // folder is removed, and would create it again: `npm test` passes a place that stays longer.
  process.env["NODE_COMPILE_CACHE"] = process.env["HOLDFAST_COMPILED"] ?? join(folder, "compiled");
  // Node starts four threads for V8, which short programs never use: a tenth of their time, a fifth under
  // strace.
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
    // Another run that shares the folder was faster.
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
}

/** A killed run could not remove its folder. */
function removeOld(): void {
  for (const name of readdirSync(tmpdir()).filter((each) => each.startsWith(PREFIX))) {
    const path = join(tmpdir(), name);
    try {
      if (Date.now() - statSync(path).mtimeMs > OLD_MS) rmSync(path, { recursive: true, force: true });
    } catch {
      // Another run was faster, or the folder belongs to another user.
    }
  }
}
