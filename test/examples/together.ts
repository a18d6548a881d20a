// Runs examples one after another in one process, which saves starting Node and loading shared imports. For
// each it records the output and the public methods that it called.

import { appendFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { called } from "./recorder.ts";

export interface Shown {
  readonly file: string;
  readonly output: string;
  readonly calls: readonly string[];
}

const [, , notes = "", ...files] = process.argv;
// Each removes its folder when the process ends.
process.setMaxListeners(files.length + process.getMaxListeners());
const write = process.stdout.write;
let output = "";
process.stdout.write = (chunk: unknown) => {
  output += String(chunk);
  return true;
};
for (const file of files) {
  output = "";
  called.clear();
  await import(pathToFileURL(file).href);
  const shown: Shown = { file, output, calls: [...called] };
  appendFileSync(notes, `${JSON.stringify(shown)}\n`);
}
process.stdout.write = write;
