// Takes a lease, and prints the outcome.

import { openSqlite } from "../../../../src/stores/sqlite/index.ts";
import { holder, NAMESPACE } from "../acts.ts";

const [path = "", owner = "", ttlMs = ""] = process.argv.slice(2);
const store = await openSqlite({ path });
const asked = { name: "session/a", holder: holder(owner), ttlMs: Number(ttlMs) };
process.stdout.write(
  `${JSON.stringify(await store.lease({ act: "take", namespace: NAMESPACE, ...asked }))}\n`,
);
await store.close();
