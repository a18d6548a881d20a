/**
 * Checks how much a hook and `holdfast status` of the published package load before they act. An agent waits
 * for that at every tool use. One wrong import could load half of the program, and no other test would
 * notice.
 *
 *     node cold-start.mjs <folder of the package>
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";

const [, , home = "."] = process.argv;

/**
 * The path of imports from the entry point, and how many bytes may be loaded at its end. `importsNode: false`: the
 * hook at every tool use gets Node's modules without an import, which would load the streams of `node:fs` too.
 */
const WAYS = [
  { name: "hook touched", by: ["hooks"], most: 61_000, importsNode: false },
  { name: "hook session-start", by: ["hooks", "briefing"], most: 342_000 },
  { name: "mcp until its first answers", by: ["fast-paths", "mcp-command", "front"], most: 180_000 },
  { name: "status", by: ["fast-paths", "status"], most: 386_000 },
];

const textOf = (file) => readFileSync(join(home, "dist", file), "utf8");
const importedBy = (text) =>
  [...text.matchAll(/^(?:import|export)\b[^"';]*["']([^"']+)["'];$/gm)].map(([, name]) => name);

/** Adds the file and its static imports. */
function load(file, loaded) {
  if (loaded.has(file)) return;
  const text = textOf(file);
  loaded.set(file, text);
  for (const name of importedBy(text)) {
    if (name.startsWith("./")) load(name.slice(2), loaded);
    else if (!name.startsWith("node:")) loaded.set(name, "");
  }
}

/** The file that a loaded file imports lazily. */
function lazily(stem, loaded) {
  for (const text of loaded.values()) {
    const found = new RegExp(`import\\("\\./(${stem}-[\\w-]{8}\\.js)"\\)`).exec(text);
    if (found) return found[1];
  }
  throw new Error(`nothing imports ${stem} any more: ${[...loaded.keys()].join(", ")}`);
}

for (const { name, by, most, importsNode = true } of WAYS) {
  const loaded = new Map();
  load("cli.js", loaded);
  for (const stem of by) load(lazily(stem, loaded), loaded);
  const files = [...loaded].map(([file, text]) => `${file} ${text.length}`).join(", ");
  const bytes = [...loaded.values()].reduce((sum, text) => sum + text.length, 0);
  console.log(`${name}: ${bytes} bytes in ${loaded.size} files`);
  const packages = [...loaded].filter(([, text]) => text === "").map(([file]) => file);
  if (packages.length > 0) throw new Error(`${name} loads ${packages.join(", ")} at its start (${files})`);
  const node = [...loaded.values()].flatMap(importedBy).filter((each) => each.startsWith("node:"));
  if (!importsNode && node.length > 0) throw new Error(`${name} imports ${node.join(", ")} (${files})`);
  if (bytes > most) throw new Error(`${name} loads ${bytes} bytes at its start, at most ${most} (${files})`);
}
