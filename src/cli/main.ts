#!/usr/bin/env node
/** The entry of the command line. Fast paths load little: `hook`, `status`, `mcp`, `--version`. */

import module from "node:module";

const argv = process.argv.slice(2);

// Node 22 and later cache compiled code for the next start.
(module as { enableCompileCache?: () => void }).enableCompileCache?.();

async function main(): Promise<void> {
  if (argv[0] === "hook" && !argv.includes("--help") && !argv.includes("-h")) {
    const { runHook } = await import("../hooks/index.ts");
    await runHook(argv.slice(1));
    return;
  }
  if (argv[0] === "status" || argv[0] === "mcp") {
    const { takeFastPath } = await import("./fast-paths.ts");
    if (await takeFastPath(argv)) return;
  }
  if (argv[0] === "--version") {
    const { createRequire } = await import("node:module");
    // The package resolves its own name, so this holds for src/cli/main.ts and dist/cli.js alike.
    const { version } = createRequire(import.meta.url)("holdfast/package.json") as { version: string };
    process.stdout.write(`${version}\n`);
    return;
  }
  const { runProgram } = await import("./program.ts");
  await runProgram(argv);
}

try {
  await main();
} catch (error) {
  const { reportFailure } = await import("./failure.ts");
  reportFailure(error, argv.includes("--json"));
}
