/** The command line as published, built once for the measures that start it cold. */

import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "tsdown";
import type { Scratch } from "./scratch.ts";

const built = new Map<Scratch, Promise<string>>();

export function builtCommandLine(scratch: Scratch): Promise<string> {
  const outDir = resolve(scratch.path, "dist");
  const making =
    built.get(scratch) ??
    build({ outDir, dts: false, sourcemap: false, clean: false, logLevel: "silent" }).then(() => {
      // The package has this too: without it Node would have to detect the module type of each file.
      writeFileSync(join(outDir, "package.json"), '{ "type": "module" }\n');
      return join(outDir, "cli.js");
    });
  built.set(scratch, making);
  return making;
}

/** One process from its start to its end. */
export function live(args: readonly string[], options: { cwd?: string; input?: string } = {}): void {
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: "utf8", ...options });
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr}`);
}
