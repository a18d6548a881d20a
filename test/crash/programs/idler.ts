// Does nothing but look at the clock and sync a file now and then: what it is kept waiting, the machine is to blame for.
// Arguments: the file to sync, for how long.

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
