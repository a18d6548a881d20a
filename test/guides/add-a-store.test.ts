// The store of docs/guides/add-a-store.md passes the conformance suite, survives torn lines, and is the
// code in the guide.

import { appendFileSync, mkdtempSync, readFileSync, rmSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { open, type Store } from "../../src/index.ts";
import type { Opened } from "../../src/testing/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { runStoreSuite } from "../stores/conformance/run.ts";
import { openLogStore } from "./log-store.ts";

const folders: string[] = [];

function newFolder(): string {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-log-store-"));
  folders.push(folder);
  return folder;
}

async function openForTest(): Promise<Opened> {
  const folder = newFolder();
  const handles: Store[] = [];
  let now = 1_000;
  const another = async (): Promise<Store> => {
    const store = openLogStore(join(folder, "store.log"), () => now);
    handles.push(store);
    return store;
  };
  const store = await another();
  return {
    store,
    another,
    reopen: async () => {
      await store.close();
      return another();
    },
    advanceMs: (ms) => {
      now += ms;
    },
    dispose: async () => {
      await Promise.all(handles.map((handle) => handle.close()));
      rmSync(folder, { recursive: true });
    },
  };
}

runStoreSuite({ name: "the log store of the guide", open: openForTest });

describe("a crash", () => {
  afterEach(() => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
  });

  test("that cuts the last line short loses that line only, and the store can be written again", async () => {
    const file = join(newFolder(), "store.log");
    const write = async (title: string): Promise<void> => {
      const holdfast = await open(undefined, { store: openLogStore(file) });
      await (await holdfast.session("a")).append({ role: "user", text: title });
      await holdfast.close();
    };
    await write("first");
    const whole = readFileSync(file);
    await write("second");
    truncateSync(file, whole.length + 20);
    await write("third");
    const holdfast = await open(undefined, { store: openLogStore(file) });
    const { messages } = await holdfast.session("a");
    expect(messages.map(({ blocks }) => blocks)).toMatchObject([[{ text: "first" }], [{ text: "third" }]]);
    await holdfast.close();
  });

  test("leaves lines of other programs and garbage without effect", async () => {
    const file = join(newFolder(), "store.log");
    appendFileSync(file, '{"id":"x","now":1,"ver');
    const store = openLogStore(file);
    await store.put({
      of: "artifact",
      namespace: "default",
      hash: "0".repeat(64),
      bytes: Buffer.from("a"),
      at: 1,
    });
    expect(await store.get({ of: "artifact", namespace: "default", hash: "0".repeat(64) })).not.toBeNull();
    await store.close();
  });
});

test("the guide shows exactly this store", () => {
  const guide = readFileSync(new URL("../../docs/guides/add-a-store.md", import.meta.url), "utf8");
  const source = readFileSync(new URL("./log-store.ts", import.meta.url), "utf8")
    .replace("../../src/index.ts", "holdfast")
    .replace("../../src/testing/index.ts", "holdfast/testing");
  const blocks = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code]) => code);
  expect(blocks).toContain(source);
});
