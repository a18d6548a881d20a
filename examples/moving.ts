/**
 * Moving to another store: all data is copied, completed calls stay completed, and a program that still opens
 * the old store can no longer write to it.
 */

import { join } from "node:path";
import { abandonMove, isHoldfastError, move, open, tool, undoMove } from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const folder = temporaryFolder();
const [old, next] = [join(folder, "laptop.db"), join(folder, "server.db")];
let charged = 0;
const charge = tool({
  name: "charge",
  description: "Charge the customer's card",
  input: z.object({ order: z.string() }),
  effect: "mutate",
  dedupe: "global",
  execute: ({ order }) => {
    charged += 1;
    return `paid ${order}`;
  },
});

const holdfast = await open(old);
const session = await holdfast.session("order-4711");
await session.call({ callId: "pay", tool: charge, args: { order: "4711" } });

// A store with an active worker cannot be moved.
try {
  await move(old, next);
} catch (error) {
  if (!isHoldfastError(error, "STREAM_BUSY")) throw error;
  console.log(`${error.code}: ${error.hint}`);
}
await holdfast.close();

// A killed move leaves a store that rejects writes. This would open it again.
await abandonMove(old);

const { rows } = await move(old, next);
console.log(`moved ${rows.stream.count} stream and ${rows.key.count} key`);

// Until something is written to the new store, there is a way back.
await undoMove(old, next);
console.log("undone: laptop.db takes writes again");
await move(old, next);

const forgotten = await open(old);
try {
  await forgotten.session("order-4711");
} catch (error) {
  if (!isHoldfastError(error)) throw error;
  console.log(`a forgotten worker: ${error.message.replaceAll(`${folder}/`, "")}`);
}
await forgotten.close();

const moved = await open(next);
const again = await moved.session("order-4712");
const repeat = await again.call({ callId: "pay", tool: charge, args: { order: "4711" } });
const replayed = repeat.status === "completed" && repeat.replayed;
console.log(`asked again there: ${repeat.status}, replayed ${replayed}; charged ${charged}×`);
await moved.close();
