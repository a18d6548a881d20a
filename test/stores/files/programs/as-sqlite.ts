// For programs that open an SQLite file: they get a folder of plain files, which is compacted often.

import type { Store } from "../../../../src/store.ts";
import { openFiles } from "../../../../src/stores/files/index.ts";

export { Connection } from "../../../../src/stores/sqlite/index.ts";

const WASTE_BYTES = 20_000;

export function openSqlite({ path }: { path: string }): Promise<Store> {
  return openFiles({ path, wasteBytes: WASTE_BYTES });
}
