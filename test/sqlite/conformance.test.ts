import type { Opened } from "../../src/testing/index.ts";
import { runStoreSuite } from "../conformance/run.ts";
import { TestFolder } from "./folder.ts";

async function openForTest(): Promise<Opened> {
  const folder = await TestFolder.make();
  let upMs = 1_000_000;
  const clock = { boot: "this one", nowMs: () => upMs };
  const store = await folder.open({ clock });
  return {
    store,
    another: () => folder.open({ clock }),
    reopen: async () => {
      await store.close();
      return folder.open({ clock });
    },
    advanceMs: (ms) => {
      upMs += ms;
    },
    dispose: () => folder.dispose(),
  };
}

runStoreSuite({ name: "sqlite", open: openForTest });
