// Commits to a state file as fast as it can; says on stdout what was acknowledged.

import { StateManager } from "../../../src/state-files/index.ts";

const [file = "", name = "", count = "0"] = process.argv.slice(2);
const schema = { type: "object", properties: { schema_version: { const: 1 }, items: { type: "array" } } };
const manager = StateManager.onFile<{ schema_version: number; items: string[] }>(file, {
  schema,
  initial: { schema_version: 1, items: [] },
});
process.stdout.write("ready\n");
for (let index = 0; index < Number(count); index++) {
  const item = `${name}-${index}`;
  await manager.update((state) => {
    state.items.push(item);
    return undefined;
  });
  await manager.commit();
  process.stdout.write(`${item}\n`);
}
