// Adds one to a state in a file, three times, and says a line of JSON about each.

import { StateManager } from "../../../src/state-files/index.ts";

const [path = ""] = process.argv.slice(2);
const spec = { schema: { type: "object" }, initial: { schema_version: 1, n: 0 } };

for (let times = 0; times < 3; times++) {
  const state = StateManager.onFile<{ schema_version: number; n: number }>(path, spec);
  await state.update((value) => ({ ...value, n: value.n + 1 }));
  const said = await state.commit().catch(({ code, message }) => ({ code, message }));
  process.stdout.write(`${JSON.stringify(said)}\n`);
}
