import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { Journal } from "../../src/journal/index.ts";
import { sha256 } from "../../src/model/digest.ts";
import { altered, PLACES, type Place } from "./places.ts";
import { said, words } from "./words.ts";

const DAY_MS = 24 * 3_600_000;

describe.each(Object.entries(PLACES))("artifacts on %s", (_, makePlace) => {
  let place: Place;
  let journal: Journal;
  let nowMs: number;

  beforeEach(async () => {
    place = await makePlace();
    nowMs = 10 * DAY_MS;
    journal = new Journal({ store: place.store, now: () => nowMs });
  });

  afterEach(() => place.dispose());

  const bytes = (text: string) => new TextEncoder().encode(text);

  test("are named by their hash, and come back unchanged", async () => {
    const all = Uint8Array.from({ length: 256 }, (_each, index) => index);
    const hash = await journal.putArtifact(all);
    expect(hash).toBe(sha256(all));
    expect(await journal.putArtifact(all)).toBe(hash);
    expect([...(await journal.getArtifact(hash))]).toEqual([...all]);
    const empty = await journal.putArtifact(new Uint8Array());
    expect(await journal.getArtifact(empty)).toHaveLength(0);
  });

  test("a missing one is an error", async () => {
    const hash = sha256("never stored");
    await expect(journal.getArtifact(hash)).rejects.toMatchObject({
      code: "ARTIFACT_MISSING",
      data: { hash },
    });
  });

  test("a damaged one is not returned", async () => {
    const hash = await journal.putArtifact(bytes("contract"));
    const store = altered(place.store, {
      get: async (get, request) => ({ ...(await get(request)), payload: bytes("contrast") }),
    });
    const damaged = new Journal({ store }).getArtifact(hash);
    await expect(damaged).rejects.toMatchObject({ code: "ARTIFACT_CORRUPT", data: { hash } });
  });

  test("an event cannot refer to one that is not stored", async () => {
    const log = await journal.open(words, "w");
    const hash = sha256(bytes("late"));
    const refer = () => log.commit(() => said(`artifact:${hash}`));
    expect(await refer()).toEqual({ outcome: "missing", artifact: hash });
    await journal.putArtifact(bytes("late"));
    expect(await refer()).toMatchObject({ outcome: "ok" });
  });

  test("collection spares young and referenced ones", async () => {
    const old = await journal.putArtifact(bytes("old"));
    const used = await journal.putArtifact(bytes("used"));
    const log = await journal.open(words, "w");
    await log.commit(() => said(`artifact:${used}`));
    nowMs += DAY_MS / 2;
    const young = await journal.putArtifact(bytes("young"));
    nowMs += DAY_MS / 2 + 1;
    expect(await journal.collectArtifacts()).toBe(1);
    await expect(journal.getArtifact(old)).rejects.toMatchObject({ code: "ARTIFACT_MISSING" });
    expect(await journal.getArtifact(used)).toEqual(bytes("used"));
    expect(await journal.getArtifact(young)).toEqual(bytes("young"));
  });

  test("putting one again makes it young again", async () => {
    const hash = await journal.putArtifact(bytes("again"));
    nowMs += 2 * DAY_MS;
    await journal.putArtifact(bytes("again"));
    expect(await journal.collectArtifacts()).toBe(0);
    expect(await journal.getArtifact(hash)).toEqual(bytes("again"));
  });

  test("those of a removed stream are collected, unless a fork shares its history", async () => {
    const hash = await journal.putArtifact(bytes("shared"));
    const log = await journal.open(words, "w");
    await log.commit(() => said(`artifact:${hash}`));
    const { log: forked, fork } = await journal.fork(words, "w", 1, "f");
    await forked.commit(() => ({ ...said("own"), fork }));
    nowMs += 2 * DAY_MS;
    expect(await journal.remove("words/w")).toBe("hidden");
    expect(await journal.collectArtifacts()).toBe(0);
    expect(await journal.remove("words/f")).toBe("removed");
    expect(await journal.collectArtifacts()).toBe(1);
  });
});
