// An agent with a planted bug: it pays, and only then notes that it is about to. Killed in between, it pays again.

import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failpoint } from "holdfast";

const [folder = "."] = process.argv.slice(2);
const note = join(folder, "noted");
if (!existsSync(note)) {
  appendFileSync(join(folder, "payments.log"), "4711\n");
  failpoint("call.executed");
  writeFileSync(note, "");
}
failpoint("run.done");
