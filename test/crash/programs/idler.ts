// Only watches the clock and syncs a file now and then: its delays are the machine's. Arguments: the file to
// sync, the duration.

import { once } from "node:events";
import { fsyncSync, openSync, writeSync } from "node:fs";
import { Gaps } from "../gaps.ts";

const [path = "", lastsMs = ""] = process.argv.slice(2);
const descriptor = openSync(path, "w");
process.stdout.write("ready\n");
await once(process.stdin, "data");

const loop = new Gaps();
loop.begin();
const end = performance.now() + Number(lastsMs);
const probe = setInterval(() => {
  loop.beat();
  if (loop.count % 4 === 0) {
    writeSync(descriptor, "x");
    fsyncSync(descriptor);
  }
  if (performance.now() < end) return;
  clearInterval(probe);
  process.stdout.write(`done ${JSON.stringify({ loopGapMs: loop.longest })}\n`);
  process.exit(0);
}, 5);
