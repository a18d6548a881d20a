// An agent with a planted bug: it pays before it records its intent. Killed in between, it pays again.

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
