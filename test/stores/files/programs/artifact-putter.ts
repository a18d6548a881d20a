/** Puts an artifact, then appends, and prints a line of JSON about each. */

import { sha256 } from "../../../../src/model/digest.ts";
import { openFiles } from "../../../../src/stores/files/index.ts";
import { append, NAMESPACE, write } from "../../sqlite/acts.ts";

const [path = ""] = process.argv.slice(2);
const store = await openFiles({ path });
const bytes = Buffer.alloc(3_000_000, "A");

async function tell(step: string, act: () => Promise<object>): Promise<void> {
  const said = await act().catch(({ code, message }) => ({ code, message }));
  process.stdout.write(`${JSON.stringify({ step, ...said })}\n`);
}

await tell("put", async () => {
  await store.put({ of: "artifact", namespace: NAMESPACE, hash: sha256(bytes), bytes, at: 1_000 });
  return { ok: true };
});
await tell("append", () => append(store, write("session/a", 0, [1])));
await store.close();
