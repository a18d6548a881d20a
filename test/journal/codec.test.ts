import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PayloadCodec, PayloadPlace } from "../../src/journal/index.ts";
import { Journal } from "../../src/journal/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import { sessionCore } from "../../src/session/index.ts";
import { altered, PLACES, type Place } from "./places.ts";
import { said, words } from "./words.ts";

/** AES-256-GCM, bound to the place: a record that was moved elsewhere does not decrypt. */
function encryption(name: string, key = randomBytes(32)): PayloadCodec {
  const label = ({ namespace, stream, seq }: PayloadPlace) => Buffer.from(`${namespace} ${stream} ${seq}`);
  return {
    name,
    encode(text, place) {
      const nonce = randomBytes(12);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(label(place));
      const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]);
    },
    decode(payload, place) {
      const bytes = Buffer.from(payload as Uint8Array);
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12)).setAAD(label(place));
      decipher.setAuthTag(bytes.subarray(12, 28));
      return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString("utf8");
    },
  };
}

const redaction: PayloadCodec = {
  name: "redact-1",
  encode: (text) => text.replaceAll(/sk-\w+/g, "[redacted]"),
  decode: (payload) => payload as string,
};

describe.each(Object.entries(PLACES))("payload codecs on %s", (name, makePlace) => {
  let place: Place;

  beforeEach(async () => {
    place = await makePlace();
  });

  afterEach(() => place.dispose());

  const holdfast = (...codecs: PayloadCodec[]): Promise<Holdfast> =>
    open(undefined, { store: place.store, codecs });

  test("an encrypted text cannot be read from the file, and comes back exactly", async () => {
    const codec = encryption("aes-1");
    const secret = "the vault opens at nine";
    const session = await (await holdfast(codec)).session("s", {
      metadata: { note: `${secret} (metadata)` },
    });
    await session.append({ role: "user", text: `${secret} \0 😀 \ud800` });
    await session.setPlan({
      steps: [{ id: "1", description: secret, status: "pending", postconditions: [], evidence: [] }],
    });
    // Long enough that a snapshot is taken, which must not be readable either.
    for (let count = 0; count < 8; count++) {
      await session.append({ id: `long-${count}`, role: "assistant", text: `${secret} `.repeat(800) });
    }
    await session.compact([session.messages[0]]);
    const stream = "session/s";
    const snapshots = await sessionCore(session).journal.list<"snapshots">({ of: "snapshots", stream });
    expect(snapshots.rows).toHaveLength(1);
    const detail = await (await holdfast(codec)).sessions.get("s");
    expect(detail.messages.map(({ blocks }) => blocks)).toEqual([
      [{ kind: "text", text: `${secret} \0 😀 \ud800` }],
    ]);
    expect(detail.plan?.steps[0]?.description).toBe(secret);
    const bytes = await place.bytes();
    if (name === "sqlite") expect(bytes).toContain("SQLite format 3");
    expect(bytes).not.toContain("vault");
  });

  test("a record that was moved to another place does not decrypt", async () => {
    const codecs = [encryption("aes-1")];
    const journal = new Journal({ store: place.store, codecs });
    for (const id of ["w", "v"]) await (await journal.open(words, id)).commit(() => said(id));
    const store = altered(place.store, {
      read: async (read, request) => {
        const other = await read({ ...request, stream: "words/v" });
        return { ...(await read(request)), writes: other.writes };
      },
    });
    await expect(new Journal({ store, codecs }).load(words, "w")).rejects.toThrow();
    expect((await journal.load(words, "w")).state.list).toEqual(["w"]);
  });

  test("after a redaction, memory holds the redacted text", async () => {
    const first = await holdfast(redaction);
    const session = await first.session("s", { title: "with sk-title" });
    const message = await session.append({ role: "user", text: "my key is sk-12345, thanks" });
    const redacted = [{ kind: "text", text: "my key is [redacted], thanks" }];
    expect(message.blocks).toEqual(redacted);
    expect(session.messages[0]?.blocks).toEqual(redacted);
    expect(session.title).toBe("with [redacted]");
    const { rows } = await sessionCore(session).journal.list<"streams">({
      of: "streams",
      kind: "session",
      limit: 1,
    });
    expect(rows[0]?.facets.title).toBe("with [redacted]");
    const again = await (await holdfast()).sessions.get("s").catch((error: unknown) => error);
    expect(again).toMatchObject({ code: "CODEC_UNKNOWN" });
    expect((await (await holdfast(redaction)).sessions.get("s")).messages[0]?.blocks).toEqual(redacted);
    expect(await place.bytes()).not.toContain("sk-12345");
  });

  test("an unknown codec is an error that names it", async () => {
    const journal = new Journal({ store: place.store, codecs: [encryption("aes-1")] });
    await (await journal.open(words, "w")).commit(() => said("a"));
    const without = new Journal({ store: place.store });
    const error = {
      code: "CODEC_UNKNOWN",
      message: expect.stringContaining('"aes-1"'),
      data: { codec: "aes-1" },
    };
    await expect(without.load(words, "w")).rejects.toMatchObject(error);
    await expect(without.open(words, "w")).rejects.toMatchObject(error);
  });

  test("records of several codecs are read together; the first one writes", async () => {
    const [old, recent] = [encryption("aes-1"), encryption("aes-2")];
    const write = async (word: string, ...codecs: PayloadCodec[]) => {
      const log = await new Journal({ store: place.store, codecs }).open(words, "w");
      await log.commit(() => said(word));
    };
    await write("plain");
    await write("old", old);
    await write("recent", recent, old);
    const journal = new Journal({ store: place.store, codecs: [recent, old] });
    expect((await journal.load(words, "w")).state.list).toEqual(["plain", "old", "recent"]);
    const page = await place.store.read({ namespace: "default", stream: "words/w", after: 0 });
    expect(page.writes.map(({ codec }) => codec)).toEqual([null, "aes-1", "aes-2"]);
    expect(await place.store.check()).toEqual([]);
  });
});
