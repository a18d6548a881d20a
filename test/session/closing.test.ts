/** Closing a session while something is under way. */

import { expect, test } from "vitest";
import { z } from "zod";
import { Holdfast, Journal, type Session, tool } from "../../src/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";

async function reading(execute: (session: Session, signal: AbortSignal) => Promise<string>) {
  const session = await new Holdfast(new Journal({ store: openMemory() })).session("alpha");
  const look = tool({
    name: "look",
    description: "look",
    input: z.object({}),
    effect: "read",
    execute: (_args, { signal }) => execute(session, signal),
  });
  return { session, told: session.call({ tool: look, args: {} }) };
}

test("a read that waits is stopped, and not waited for", async () => {
  const { session, told } = await reading(
    (_session, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
  );
  await Promise.all([expect(told).rejects.toMatchObject({ code: "SESSION_CLOSED" }), session.close()]);
});

test("nor does one that closes its own session wait for itself", async () => {
  const { told } = await reading((session) => session.close().then(() => "closed"));
  await expect(told).rejects.toMatchObject({ code: "SESSION_CLOSED" });
});
