// Vacuums a store again and again, and says so before each time.

import { openStore } from "../../../src/open-store.ts";

const [address = ""] = process.argv.slice(2);
const store = await openStore(address);
for (;;) {
  process.stdout.write("vacuuming\n");
  await store.vacuum?.();
}
