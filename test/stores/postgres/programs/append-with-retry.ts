// Opens the store, waits for a line, then appends events to one stream, with retries after conflicts.

import { once } from "node:events";
import { openPostgres } from "../../../../src/stores/postgres/index.ts";
import { append, headSeq, write } from "../../sqlite/acts.ts";

async function main(): Promise<void> {
  const [url = "", schema = "", name = "", count = "0"] = process.argv.slice(2);
  const store = await openPostgres({ url, schema });
  process.stdout.write("opened\n");
  await once(process.stdin, "data");
  for (let done = 0; done < Number(count); ) {
    const seq = await headSeq(store, "session/shared");
    const { outcome } = await append(store, write("session/shared", seq, [`${name} ${done}`]));
    if (outcome === "ok") done += 1;
  }
  await store.close();
  process.stdout.write("done\n");
  process.exit(0);
}

main().catch((error) => {
  process.stdout.write(`failed: ${error}\n`);
  process.exit(1);
});
