import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The examples clean up after themselves: their stores live here and go when the program ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "holdfast-example-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
