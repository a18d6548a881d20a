// A supervisor to be killed: starts a worker that writes its pid and then sleeps.

import { open } from "../../../src/index.ts";

const [store = "", pids = ""] = process.argv.slice(2);
const holdfast = await open(store);
const script = `echo $$ >> "${pids}"; exec sleep 100`;
await holdfast.supervise({
  signal: new AbortController().signal,
  start: { command: ["sh", "-c", script], output: "ignore" },
  onEvent: ({ type }) => process.stdout.write(`${type}\n`),
});
