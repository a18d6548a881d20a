// Copies one store to another, and kills itself after so many rows, or before a phase.

import { copyStore } from "../../../../src/journal/index.ts";
import { openStore } from "../../../../src/open-store.ts";

const [from = "", to = "", where = "nowhere"] = process.argv.slice(2);

const die = (): void => {
  process.kill(process.pid, "SIGKILL");
};

const source = await openStore(from);
const target = await openStore(to);
for (const { moving } of [source, target]) {
  if (!moving) throw new Error("every store can be copied");
  const { reseal } = moving;
  moving.reseal = (expect, next) => {
    if (next?.phase === where) die();
    return reseal(expect, next);
  };
}
const { rows } = await copyStore(source, target, {
  onProgress: (count) => {
    if (count >= Number(where)) die();
  },
});
await source.close();
await target.close();
process.stdout.write(`${JSON.stringify(rows)}\n`);
