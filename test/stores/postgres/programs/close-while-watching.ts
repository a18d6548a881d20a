// Opens the store, watches it, waits for a line, then closes it.

import { once } from "node:events";
import { openPostgres } from "../../../../src/stores/postgres/index.ts";

const [url = "", schema = ""] = process.argv.slice(2);
const store = await openPostgres({ url, schema });
store.watch({ namespace: "default" }, () => undefined);
process.stdout.write("watching\n");
await once(process.stdin, "data");
// From here on, only the store can keep this process alive.
process.stdin.destroy();
await store.close();
process.stdout.write("closed\n");
