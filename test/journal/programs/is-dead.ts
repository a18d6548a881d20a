/** Says of the holder in its argument whether it is provably dead: first as it is, then without a file that it could open. */

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
