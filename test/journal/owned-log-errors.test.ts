// A commit that wrote nothing: its error names the holder of the lease or of the key, or what is missing.

import { expect, test } from "vitest";
import { commitResult, Journal, Lease, OwnedLog } from "../../src/journal/index.ts";
import { openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "./places.ts";
import { said, words } from "./words.ts";

async function owned(): Promise<{ journal: Journal; own: OwnedLog<{ list: string[] }> }> {
  const journal = new Journal({ store: openMemory() });
  const lease = await journal.leases.take("words/w", "me", { label: "me", waitMs: 0 });
  if (!(lease instanceof Lease)) throw new Error("it is held");
  return { journal, own: new OwnedLog(await journal.open(words, "w"), lease) };
}

test("a reference to bytes that are not stored is ARTIFACT_MISSING, and the log goes on", async () => {
  const { own } = await owned();
  const missing = "f".repeat(64);
  await expect((async () => own.write(() => said(`artifact:${missing}`)))()).rejects.toMatchObject({
    code: "ARTIFACT_MISSING",
    message: expect.stringContaining(missing),
    data: { artifact: missing },
  });
  await own.write(() => said("next"));
  expect(own.state.list).toEqual(["next"]);
});

test("a commit without a lease of its own that is fenced names the holder", async () => {
  const { journal } = await owned();
  const log = await journal.open(words, "w");
  const outcome = await log.commit(() => said("late"), { lease: "words/w", token: 99 });
  const error = await Promise.resolve()
    .then(() => commitResult(outcome))
    .catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: "LEASE_LOST", message: expect.stringContaining("to me (") });
});

test("a key that another call has is named, with the stream that has it", async () => {
  const { journal, own } = await owned();
  await (await journal.open(words, "first")).commit(() => said("key:k"));
  await expect((async () => own.write(() => said("key:k")))()).rejects.toMatchObject({
    message: expect.stringContaining("k"),
    data: expect.objectContaining({ key: "k" }),
  });
  expect(own.state.list).toEqual([]);
});

test("commits that meet others at every attempt end with STREAM_BUSY, and write nothing", async () => {
  const plain = new Journal({ store: openMemory() });
  const other = await plain.open(words, "w");
  let met = 0;
  const store = altered(plain.store, {
    append: async (append, batch) => {
      met += 1;
      await other.commit(() => said(`other ${met}`));
      return append(batch);
    },
  });
  const log = await new Journal({ store }).open(words, "w");
  await expect(log.commit(() => said("mine"))).rejects.toMatchObject({ code: "STREAM_BUSY" });
  const { list } = (await plain.load(words, "w")).state;
  expect(list).toHaveLength(met);
  expect(list).not.toContain("mine");
});
