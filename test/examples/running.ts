/** Runs one example as a process and returns its output. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Run {
  readonly code: number | null;
  readonly signal: string | null;
  readonly output: string;
  readonly errors: string;
}

/** With the arguments of Node. `temporary`: the folder for its temporary files. */
export async function run(
  args: readonly string[],
  temporary: string,
  env: Readonly<Record<string, string>>,
): Promise<Run> {
  const { HOLDFAST_STORE: _store, HOLDFAST_FAILPOINT: _failpoint, ...inherited } = process.env;
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...inherited, NO_COLOR: "1", TMPDIR: temporary, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  let errors = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    output += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    errors += chunk;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, string | null];
  return { code, signal, output, errors };
}
