import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder for the stores of an example, deleted when the program ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-example-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
