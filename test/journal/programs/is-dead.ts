/** Prints whether the holder in its argument is provably dead: first normally, then unable to open files. */

import { openSync } from "node:fs";
import { isProvablyDead } from "../../../src/journal/index.ts";

const holder = JSON.parse(process.argv[2] ?? "");
const withFiles = isProvablyDead(holder);
let failed: unknown;
while (failed === undefined) {
  try {
    openSync("/dev/null", "r");
  } catch (error) {
    failed = error;
  }
}
if ((failed as { code?: unknown }).code !== "EMFILE") throw failed;
process.stdout.write(`with files: ${withFiles}, without: ${isProvablyDead(holder)}\n`);
