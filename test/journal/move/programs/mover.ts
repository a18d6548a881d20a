// Moves one store to another, and kills itself after so many rows, or before a phase. With `open`, it only
// has the first store open.

import { moveStore } from "../../../../src/journal/index.ts";
import { openStore } from "../../../../src/open-store.ts";

const [from = "", to = "", where = "nowhere"] = process.argv.slice(2);

const pause = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 50));

const die = (): void => {
  process.kill(process.pid, "SIGKILL");
};

const source = await openStore(from);
if (where === "open") {
  process.stdout.write("open\n");
  // A worker on Postgres has a connection while it works.
  for (;;) await source.read({ namespace: "default", stream: "session/none", after: 0 }).then(pause);
}
const target = await openStore(to);
for (const { moving } of [source, target]) {
  if (!moving) throw new Error("every store can be moved");
  const { reseal } = moving;
  moving.reseal = (expect, next) => {
    if (next?.phase === where) die();
    return reseal(expect, next);
  };
}
const { rows } = await moveStore(source, target, {
  onProgress: (count) => {
    if (count >= Number(where)) die();
  },
});
await source.close();
await target.close();
process.stdout.write(`${JSON.stringify(rows)}\n`);
