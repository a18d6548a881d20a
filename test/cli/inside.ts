// Runs the command line inside this process, for tables with many rows. It skips only the first lines of
// `main.ts` and the start of Node.

import { reportFailure } from "../../src/cli/failure.ts";
import { runProgram } from "../../src/cli/program.ts";
import { environment, type Ran } from "./command-line.ts";

let isRunning = false;

export async function runInside(
  cwd: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  // Two at once would each restore what the other one has set.
  if (isRunning)
    throw new Error(`holdfast ${args.join(" ")}: another command still runs inside this process`);
  isRunning = true;
  const before = { cwd: process.cwd(), env: process.env, exitCode: process.exitCode };
  const { stdout, stderr } = process;
  const listeners = stdout.listeners("error");
  const [writeOut, writeErr] = [stdout.write, stderr.write];
  const said = { out: "", err: "" };
  const heard = (name: "out" | "err") => (chunk: unknown) => {
    said[name] += String(chunk);
    return true;
  };
  process.chdir(cwd);
  process.env = environment(env);
  process.exitCode = 0;
  stdout.write = heard("out");
  stderr.write = heard("err");
  try {
    await runProgram(args);
  } catch (error) {
    reportFailure(error, args.includes("--json"));
  } finally {
    stdout.write = writeOut;
    stderr.write = writeErr;
    for (const each of stdout.listeners("error")) {
      if (!listeners.includes(each)) stdout.off("error", each as () => void);
    }
  }
  isRunning = false;
  const code = Number(process.exitCode ?? 0);
  process.chdir(before.cwd);
  process.env = before.env;
  process.exitCode = before.exitCode;
  return { code, ...said };
}
