/** The person: answers every waiting call by the world's own log. */

import { open } from "../src/index.ts";
import { openStore } from "./store-under-test.ts";
import { post } from "./world/client.ts";
import { readEntries } from "./world/log.ts";

/** The person's answer for a call that did not happen. */
export type WhenNothingHappened = "retry" | "failed";

/** Returns how many calls were answered. */
export async function answerAll(dir: string, world: string, otherwise: WhenNothingHappened): Promise<number> {
  await post(world, "/quiet", { dir });
  const holdfast = await open(undefined, { store: await openStore(dir) });
  try {
    const { calls } = await holdfast.calls.list();
    const waiting = calls.filter((call) => call.status === "waiting");
    for (const { session, callId } of waiting) {
      const done = readEntries(dir).find((entry) => {
        return entry.kind === "effect" && entry.session === session && entry.callId === callId;
      });
      const said = { by: "person", why: "looked at the world" };
      if (done) {
        await holdfast.calls.resolve(
          { session, callId },
          { outcome: "landed", result: done.result, ...said },
        );
      } else {
        await holdfast.calls.resolve({ session, callId }, { outcome: otherwise, ...said });
      }
    }
    return waiting.length;
  } finally {
    await holdfast.close();
  }
}
