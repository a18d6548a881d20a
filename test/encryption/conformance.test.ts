// An encrypted store keeps every promise of the port.

import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll } from "vitest";
import { aesGcm } from "../../src/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { runStoreSuite } from "../stores/conformance/run.ts";
import { sqliteForTest } from "../stores/conformance/sqlite-subject.ts";
import { KEY } from "./places.ts";

const home = mkdtempSync(join(quickFolder(), "holdfast-rings-"));
const plain = sqliteForTest();
let rings = 0;

runStoreSuite({
  name: "encrypted sqlite",
  async open() {
    const { store, another, reopen, ...rest } = await plain.open();
    const { protect } = aesGcm({ keys: { a: KEY }, ring: join(home, String(++rings)) });
    return {
      ...rest,
      store: protect(store),
      another: async () => protect(await another()),
      reopen: async () => protect(await reopen()),
    };
  },
});

afterAll(async () => {
  await plain.dispose();
  rmSync(home, { recursive: true, force: true });
});
