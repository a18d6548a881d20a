/**
 * Failing tools. `DefiniteFailure` says that nothing happened. `NotFinished` says that the work continues
 * elsewhere. Any other error leaves the outcome unknown, and a person decides. Errors of the library have a
 * stable code and a hint.
 */

import {
  canonicalJson,
  DefiniteFailure,
  HoldfastError,
  isHoldfastError,
  NotFinished,
  open,
  tool,
} from "holdfast";
import { z } from "zod";
import { temporaryFolder } from "./temporary-folder.ts";

const holdfast = await open(temporaryFolder());
const session = await holdfast.session("failures");

let shipped = false;
const ship = tool({
  name: "ship",
  description: "Ship a parcel",
  effect: "mutate",
  idempotent: true,
  input: z.object({ parcel: z.string() }),
  execute: ({ parcel }) => {
    if (parcel === "too-big") throw new DefiniteFailure("it does not fit");
    if (parcel === "by-boat" && !shipped) throw new NotFinished("the boat is still at sea");
    return `${parcel} arrived`;
  },
});
const show = async (parcel: string): Promise<void> => {
  const outcome = await session.call({ tool: ship, args: { parcel } });
  const why =
    outcome.status === "failed" ? outcome.error.message : "why" in outcome ? outcome.why : outcome.value;
  console.log(`${parcel.padEnd(8)} ${outcome.status}: ${why}`);
};
await show("too-big");
await show("by-boat");
shipped = true;
const { settled } = await session.settle([ship]);
console.log(`settled by a later run: ${settled.length}`);
await show("by-boat");

// Calls are compared by canonical JSON: the order of members does not matter, and nothing is guessed.
console.log(canonicalJson({ b: [1, -0], a: "é" }));
for (const more of [{ at: new Date(0) }, { n: Number.NaN }]) {
  try {
    await session.call({ tool: ship, args: { parcel: "odd", ...more } });
  } catch (error) {
    if (!isHoldfastError(error)) throw error;
    console.log(`${error.code}: ${error.message}`);
  }
}

// Your own integrations can use the same errors.
const own = new HoldfastError("INPUT_INVALID", "a parcel needs a name", { hint: "Give it one." });
console.log(`${own.code}, retryable ${own.retryable}: ${own.message}. ${own.hint}`);
await holdfast.close();
