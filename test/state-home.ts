import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** One folder for the records of last writes that the stores of a run leave, instead of the user's own. */
export default function setup(): () => void {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-test-state-"));
  process.env["XDG_STATE_HOME"] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
