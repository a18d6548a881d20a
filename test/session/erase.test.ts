// Erasing a session leaves nothing that only it referred to, and sessions are found and erased by metadata.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Holdfast, open, type PayloadCodec } from "../../src/index.ts";
import { sha256 } from "../../src/model/digest.ts";
import type { Store } from "../../src/store.ts";
import type { Opened } from "../../src/testing/index.ts";
import { quickFolder } from "../quick-folder.ts";
import { storeSubjects } from "../subjects.ts";

const subjects = storeSubjects();
afterAll(async () => {
  await Promise.all(subjects.map((subject) => subject.dispose()));
});

/** Every act has a time of its own, so that the order of a list is known. */
let clock = Date.now();

describe.each(subjects)("on $name", (subject) => {
  let place: Opened;
  let holdfast: Holdfast;
  beforeEach(async () => {
    place = await subject.open();
    holdfast = await open(undefined, { store: place.store, now: () => ++clock });
  });
  afterEach(async () => {
    await place.dispose();
  });

  async function say(id: string, options: Parameters<Holdfast["session"]>[1], file?: string): Promise<void> {
    const session = await holdfast.session(id, options);
    const blocks = [{ kind: "text" as const, text: `hello from ${id}` }];
    const files = file === undefined ? [] : [await fileBlock(file)];
    await session.append({ role: "user", blocks: [...blocks, ...files] });
    await session.close();
  }

  async function fileBlock(text: string) {
    const artifact = await holdfast.putArtifact(Buffer.from(text));
    return { kind: "file" as const, artifact, mediaType: "text/plain" };
  }

  const has = async (text: string): Promise<boolean> => {
    const hash = sha256(Buffer.from(text));
    return (await place.store.get({ of: "artifact", namespace: "default", hash })) !== null;
  };

  test("its artifacts go at once, those that others share stay", async () => {
    await say("ann", {}, "of ann alone");
    const session = await holdfast.session("ann");
    await session.append({ role: "user", blocks: [await fileBlock("shared")] });
    await session.close();
    await say("bob", {}, "shared");
    expect(await holdfast.sessions.erase("ann")).toEqual({ erased: ["ann"], spared: [] });
    expect([await has("of ann alone"), await has("shared")]).toEqual([false, true]);
    await holdfast.sessions.erase("bob");
    expect(await has("shared")).toBe(false);
  });

  test("an artifact that another session is about to refer to survives the erase", async () => {
    await say("ann", {}, "the same bytes");
    const other = await holdfast.session("bob");
    const block = await fileBlock("the same bytes");
    await holdfast.sessions.erase("ann");
    await other.append({ role: "user", blocks: [block] });
    await other.close();
    expect(Buffer.from(await holdfast.getArtifact(block.artifact)).toString()).toBe("the same bytes");
  });

  test("an artifact that an erase took in between is put again by the append", async () => {
    const other = await holdfast.session("bob");
    const block = await fileBlock("the same bytes");
    await say("ann", {}, "the same bytes");
    await eraseBehind(place.store, "ann");
    expect(await has("the same bytes")).toBe(false);
    await other.append({ role: "user", blocks: [block] });
    await other.close();
    expect(await has("the same bytes")).toBe(true);
  });

  /** Another process, whose journal knows nothing of the bytes that this one holds. */
  async function eraseBehind(store: Store, id: string): Promise<void> {
    const another = await open(undefined, { store });
    await another.sessions.erase(id);
  }

  test("sessions are listed by metadata, latest change first, in pages", async () => {
    for (const id of ["a1", "a2", "a3"]) await say(id, { metadata: { user: "ann@example.com", plan: 7 } });
    await say("b1", { metadata: { user: "bob", plan: 7 } });
    await say("none", {});
    const ids = async (filter: Parameters<Holdfast["sessions"]["list"]>[0]) =>
      (await holdfast.sessions.list(filter)).sessions.map(({ id }) => id);
    expect(await ids({ metadata: { user: "ann@example.com" } })).toEqual(["a3", "a2", "a1"]);
    expect((await ids({ metadata: { plan: "7" } })).sort()).toEqual(["a1", "a2", "a3", "b1"]);
    expect(await ids({ metadata: { plan: 7, user: "bob" } })).toEqual(["b1"]);
    expect(await ids({ metadata: { user: "eve" } })).toEqual([]);
    const first = await holdfast.sessions.list({ metadata: { user: "ann@example.com" }, limit: 2 });
    const second = await ids({ metadata: { user: "ann@example.com" }, cursor: first.cursor ?? "" });
    expect([...first.sessions.map(({ id }) => id), ...second]).toEqual(["a3", "a2", "a1"]);
    await expect(holdfast.sessions.list({ metadata: {} })).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });

  test("a changed value is found by the new one only, and a fork by its parent's", async () => {
    await say("s", { metadata: { user: "ann", kept: true } });
    await holdfast.sessions.fork("s", "fork");
    const session = await holdfast.session("s");
    await session.describe({ metadata: { user: "bob" } });
    await session.close();
    const ids = async (metadata: Record<string, string | boolean>) =>
      (await holdfast.sessions.list({ metadata })).sessions.map(({ id }) => id).sort();
    expect(await ids({ user: "ann" })).toEqual(["fork"]);
    expect(await ids({ user: "bob" })).toEqual(["s"]);
    expect(await ids({ kept: true })).toEqual(["fork", "s"]);
  });

  test("erase by metadata takes all of a user's sessions, names those that are busy, and can be tried", async () => {
    for (const id of ["a1", "a2"]) await say(id, { metadata: { user: "ann" } }, `file of ${id}`);
    await say("b1", { metadata: { user: "bob" } });
    const held = await holdfast.session("a3", { metadata: { user: "ann" } });
    const dry = await holdfast.sessions.erase({ metadata: { user: "ann" } }, { dryRun: true });
    expect([...dry.erased].sort()).toEqual(["a1", "a2", "a3"]);
    const report = await holdfast.sessions.erase({ metadata: { user: "ann" } });
    expect([...report.erased].sort()).toEqual(["a1", "a2"]);
    expect(report.spared).toEqual([{ id: "a3", why: "a process holds it" }]);
    expect([await has("file of a1"), await has("file of a2")]).toEqual([false, false]);
    const left = (await holdfast.sessions.list()).sessions.map(({ id }) => id).sort();
    expect(left).toEqual(["a3", "b1"]);
    await held.close();
  });

  test("the index shows no value that a codec encrypts", async () => {
    const hiding: PayloadCodec = {
      name: "hex",
      encode: (text) => Buffer.from(text).toString("hex"),
      decode: (payload) => Buffer.from(String(payload), "hex").toString(),
    };
    const encrypted = await open(undefined, { store: place.store, codecs: [hiding] });
    await (await encrypted.session("s", { metadata: { user: "ann@example.com" } })).close();
    const { rows } = await encrypted.journal.list<"items">({ of: "items", kind: "metadata", limit: 10 });
    expect(rows).toHaveLength(1);
    expect(JSON.stringify(rows)).not.toContain("ann");
    expect((await encrypted.sessions.list({ metadata: { user: "ann@example.com" } })).sessions).toHaveLength(
      1,
    );
  });
});

test.each(["state.db", "state/"])("no byte of an erased artifact stays in %s", async (name) => {
  const folder = mkdtempSync(join(quickFolder(), "holdfast-erase-"));
  const holdfast = await open(join(folder, name));
  const session = await holdfast.session("ann");
  const artifact = await holdfast.putArtifact(Buffer.from("SECRETARTIFACT".repeat(50_000)));
  await session.append({ role: "user", blocks: [{ kind: "file", artifact, mediaType: "text/plain" }] });
  await session.close();
  const holds = (): boolean =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .some((entry) => readFileSync(join(entry.parentPath, entry.name)).includes("SECRETARTIFACT"));
  expect(holds()).toBe(true);
  await holdfast.sessions.erase("ann");
  expect(holds()).toBe(false);
  await holdfast.close();
  expect(holds()).toBe(false);
  rmSync(folder, { recursive: true });
});
