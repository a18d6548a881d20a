#!/usr/bin/env node
import { createRequire } from "node:module";

// The package resolves its own name, so this holds for src/cli/main.ts and dist/cli.js alike.
const { version } = createRequire(import.meta.url)("holdfast/package.json") as { version: string };

const usage = `holdfast: durable state for AI agents

  holdfast --help       show this text
  holdfast --version    show the version
`;

const [argument] = process.argv.slice(2);
switch (argument) {
  case "--version":
    console.log(version);
    break;
  case "--help":
    process.stdout.write(usage);
    break;
  default:
    console.error(
      argument === undefined
        ? "holdfast: no command given. Try: holdfast --help"
        : `holdfast: unknown command "${argument}". Try: holdfast --help`,
    );
    process.exitCode = 2;
}
