// A backup that is put back over the folder restores the journal and leaves newer files. Snapshots of events
// that no longer exist must not be found, also not once the streams have grown as long again.

import { cpSync, existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Store } from "../../../src/store.ts";
import { append, NAMESPACE, write } from "../sqlite/acts.ts";
import { TestFolder } from "./folder.ts";

let folder: TestFolder;

beforeEach(async () => {
  folder = await TestFolder.makeQuick();
  const store = await folder.open();
  await append(store, write("session/a", 0, [1, 2, 3]));
  await put(store, "session/a", 2);
  await store.close();
  const backup = join(folder.path, "backup");
  cpSync(folder.file(), backup, { recursive: true });
  const later = await folder.open();
  await append(later, write("session/a", 3, [4, 5, 6]));
  await append(later, write("session/b", 0, [1, 2, 3]));
  await put(later, "session/a", 6);
  await put(later, "session/b", 2);
  await later.close();
  cpSync(backup, folder.file(), { recursive: true, force: true });
});

afterEach(() => folder.dispose());

const FOLD = "session@1";

async function put(store: Store, stream: string, seq: number): Promise<void> {
  const place = { namespace: NAMESPACE, stream, generation: 1, seq, fold: FOLD };
  await store.put({ of: "snapshot", ...place, payload: JSON.stringify(`${stream} at ${seq}`), codec: null });
}

/** The seq of the snapshot that each kind of request finds, and all that are listed. */
async function found(store: Store, stream: string) {
  const asked = { namespace: NAMESPACE, stream };
  const alone = await store.get({ of: "snapshot", ...asked, fold: FOLD, upTo: 100 });
  const { snapshot, writes } = await store.read({ ...asked, after: 0, fold: FOLD });
  const { rows } = await store.list<"snapshots">({ of: "snapshots", ...asked });
  const listed = rows.map(({ seq }) => seq);
  return { alone: alone?.seq, read: snapshot?.seq, last: writes.at(-1)?.last, listed };
}

const files = () =>
  readdirSync(folder.file("snapshots"), { recursive: true }).filter((name) => String(name).endsWith(".json"));

test("a reader sees only snapshots of events that its journal has", async () => {
  const reader = await folder.open({ readOnly: true });
  expect(await found(reader, "session/a")).toEqual({ alone: 2, read: 2, last: 3, listed: [2] });
  expect(files(), "nothing is changed").toHaveLength(3);
});

test("snapshots of lost events are not found when other events have taken their seqs", async () => {
  const note = folder.file("snapshots", "note.txt");
  writeFileSync(note, "of somebody else");
  const store = await folder.open({ despiteRewind: true });
  expect(existsSync(note)).toBe(true);
  expect(await found(store, "session/a")).toEqual({ alone: 2, read: 2, last: 3, listed: [2] });
  expect(files()).toHaveLength(1);
  await append(store, write("session/a", 3, ["other", "other", "other", "other"]));
  await append(store, write("session/b", 0, ["other", "other", "other"]));
  expect(await found(store, "session/a")).toEqual({ alone: 2, read: 2, last: 7, listed: [2] });
  expect(await found(store, "session/b")).toEqual({ alone: undefined, read: undefined, last: 3, listed: [] });
});
