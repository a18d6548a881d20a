// A supervisor to be killed: starts a worker that writes its pid and then sleeps.

import { open } from "../../../src/index.ts";

const [store = "", pids = ""] = process.argv.slice(2);
const holdfast = await open(store);
const script = `require("fs").appendFileSync(${JSON.stringify(pids)}, process.pid + "\\n"); setInterval(() => {}, 1000)`;
await holdfast.supervise({
  signal: new AbortController().signal,
  start: { command: [process.execPath, "-e", script], output: "ignore" },
  onEvent: ({ type }) => process.stdout.write(`${type}\n`),
});
