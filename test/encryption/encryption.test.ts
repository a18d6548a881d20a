// No file and no table of an encrypted store shows what a user wrote, and with the key everything reads back.

import { readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { aesGcm, type Holdfast, HoldfastError, open, type PayloadCodec } from "../../src/index.ts";
import { cipherOf, walkChain } from "../../src/journal/index.ts";
import { goalKind } from "../../src/model/goal/index.ts";
import { sessionKind } from "../../src/model/session/index.ts";
import { openSqlite } from "../../src/stores/sqlite/index.ts";
import {
  bytesBelow,
  encryptionOf,
  fill,
  KEY,
  LARGE,
  MARK,
  NEW_KEY,
  opened,
  PLACES,
  type Place,
} from "./places.ts";

const places: Place[] = [];
const open_: Holdfast[] = [];

function made(make: () => Place): Place {
  const place = make();
  places.push(place);
  return place;
}

async function use(place: Place, ...how: [ReturnType<typeof encryptionOf>?]): Promise<Holdfast> {
  const holdfast = await opened(place, ...how);
  open_.push(holdfast);
  return holdfast;
}

afterEach(async () => {
  await Promise.all(open_.splice(0).map((each) => each.close()));
  await Promise.all(places.splice(0).map((each) => each.remove()));
});

function keyFolders(ring: string): string[] {
  return readdirSync(ring).filter((name) => /^[0-9a-f]{40}$/.test(name));
}

async function codeOf(act: Promise<unknown>): Promise<string> {
  return act.then(
    () => "no error",
    (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
  );
}

/** Every message, result and title that a reader of the session gets. */
async function textOfSession({ journal }: Holdfast, id: string): Promise<string> {
  const { state } = await journal.load(sessionKind, id);
  return JSON.stringify(sessionKind.encode(state));
}

describe.each(PLACES.map((make) => [make.name.replace("Place", ""), make] as const))("%s", (_, make) => {
  test("shows the plain text without encryption, and nothing of it with", async () => {
    const plain = made(make);
    const before = await open(undefined, { store: await plain.store() });
    open_.push(before);
    await fill(before);
    for (const what of [
      "message",
      "title",
      "statement",
      "task",
      "decision",
      "result large",
      "upload",
      "label",
    ]) {
      expect(await plain.bytes()).toContain(`${MARK} ${what}`);
    }

    const place = made(make);
    const holdfast = await use(place);
    await fill(holdfast);
    for (let turn = 0; turn < 40; turn++) {
      // Enough for snapshots.
      await using session = await holdfast.session("long");
      await session.append({ role: "user", text: `${MARK} ${turn} ${"x".repeat(4_000)}` });
    }
    const stored = await place.bytes();
    expect(stored).toContain("checkout");
    expect(stored).not.toContain(MARK);
    expect(stored).not.toContain(Buffer.from(`${MARK} `).toString("hex"));
    expect(bytesBelow(place.ring)).not.toContain(MARK);
    await holdfast.close();
    expect(await place.bytes()).not.toContain(MARK);
  });

  test("reads everything back with the key, in another process's handle too", async () => {
    const place = made(make);
    const first = await use(place);
    const { upload } = await fill(first);
    await first.close();

    const holdfast = await use(place);
    const session = await textOfSession(holdfast, "alpha");
    for (const what of ["message", "argument", "result of", "error", "step", "label", "title"]) {
      expect(session).toContain(`${MARK} ${what}`);
    }
    const { state } = await holdfast.journal.load(sessionKind, "alpha");
    const large = state.calls.get("large")?.result;
    const artifact = large && "artifact" in large ? large.artifact : "";
    expect(JSON.parse(Buffer.from(await holdfast.getArtifact(artifact)).toString())).toBe(LARGE);
    expect(Buffer.from(await holdfast.getArtifact(upload)).toString()).toBe(`${MARK} upload`);

    const goal = JSON.stringify(goalKind.encode((await holdfast.journal.load(goalKind, "checkout")).state));
    for (const what of ["statement", "task", "decision", "reason", "fact", "blocker"]) {
      expect(goal).toContain(`${MARK} ${what}`);
    }
    const { sessions } = await holdfast.sessions.list({ metadata: { user: `${MARK}-user` } });
    expect(sessions.map(({ id, title }) => [id, title])).toEqual([["alpha", `${MARK} title of the session`]]);
    const tasks = await holdfast.journal.list<"items">({ of: "items", kind: "task", limit: 9 });
    expect(tasks.rows.map(({ name }) => name)).toEqual([`${MARK} task`]);
    expect(await holdfast.check()).toEqual([]);
  });

  test("hides no verb of the store", async () => {
    const place = made(make);
    const store = await place.store();
    const wrapped = encryptionOf(place).protect(store);
    const verbs = Object.getOwnPropertyNames(Object.getPrototypeOf(store));
    expect(verbs.filter((name) => name !== "constructor" && !(name in wrapped))).toEqual([]);
    await store.close();
  });

  test("two equal results have different names in the store", async () => {
    const holdfast = await use(made(make));
    const [one, two] = [
      await holdfast.putArtifact(Buffer.from("same")),
      await holdfast.putArtifact(Buffer.from("same")),
    ];
    expect(one.slice(0, 64)).not.toBe(two.slice(0, 64));
    expect(await holdfast.getArtifact(one)).toEqual(await holdfast.getArtifact(two));
  });

  test("a wrong or missing key is an error that names it, and lists still show the session", async () => {
    const place = made(make);
    const right = await use(place);
    await fill(right);
    await right.close();

    const wrong = await use(place, encryptionOf(place, { a: NEW_KEY }));
    expect(await codeOf(wrong.session("alpha"))).toBe("CODEC_FAILED");
    await expect(wrong.session("alpha")).rejects.toThrow(/key a is not the one/);
    expect(await codeOf(wrong.session("new"))).toBe("CODEC_FAILED");
    const { sessions } = await wrong.sessions.list();
    expect(sessions.map(({ id, title }) => [id, title])).toEqual([["alpha", null]]);

    const other = await use(place, encryptionOf(place, { b: NEW_KEY }));
    await expect(other.session("alpha")).rejects.toThrow(/made with key a, which is not given/);

    const without = await open(undefined, { store: await place.store() });
    open_.push(without);
    await expect(without.session("alpha")).rejects.toMatchObject({
      code: "CODEC_UNKNOWN",
      hint: expect.stringContaining("encryption"),
    });
  });

  test("a new master key wraps the keys anew, changes no record, and ends the old one", async () => {
    const place = made(make);
    const old = await use(place);
    await fill(old);
    const links = async ({ journal }: Holdfast): Promise<string[]> =>
      Promise.all(
        ["session/alpha", "goal/checkout"].map(async (each) => (await walkChain(journal, each)).link),
      );
    const before = await links(old);
    await old.close();

    const both = await use(place, encryptionOf(place, { a: KEY, b: NEW_KEY }, "b"));
    const report = cipherOf(both.journal.store)?.rewrap();
    expect(report?.rewrapped).toBe(report?.keys);
    expect(cipherOf(both.journal.store)?.rewrap().rewrapped).toBe(0);
    await both.close();

    const renewed = await use(place, encryptionOf(place, { b: NEW_KEY }));
    expect(await textOfSession(renewed, "alpha")).toContain(`${MARK} message`);
    expect(await links(renewed)).toEqual(before);
    const walks = await Promise.all(
      ["session/alpha", "goal/checkout"].map((each) => walkChain(renewed.journal, each)),
    );
    expect(walks.map(({ problem }) => problem)).toEqual([null, null]);
    await renewed.close();
    await expect((await use(place)).session("alpha")).rejects.toThrow(/made with key b, which is not given/);
  });

  test("erase destroys the keys of a session and of its forks, and only those", async () => {
    const place = made(make);
    const holdfast = await use(place);
    await fill(holdfast);
    await using kept = await holdfast.session("kept");
    await kept.append({ role: "user", text: `${MARK} kept` });
    await using parent = await holdfast.session("parent");
    await parent.append({ role: "user", text: `${MARK} parent` });
    const version = await parent.checkpoint();
    await parent.fork("child", { version });
    await parent.close();
    const count = (): number => bytesBelow(place.ring).split("\na ").length - 1;
    const before = count();

    await holdfast.sessions.erase("alpha");
    expect(count()).toBe(before - 1);
    // Its history goes with the fork that shares it.
    await holdfast.journal.remove("session/parent");
    await holdfast.sessions.erase("child");
    expect(count()).toBe(before - 3);
    expect(await textOfSession(holdfast, "kept")).toContain(`${MARK} kept`);

    await using again = await holdfast.session("alpha");
    await again.append({ role: "user", text: `${MARK} again` });
    await again.close();
    await holdfast.close();
    expect(await textOfSession(await use(place), "alpha")).toContain(`${MARK} again`);
  });
});

describe("a backup that is older than an erase", () => {
  test("does not show the erased session, and shows every other", async () => {
    const place = made(PLACES[0] as () => Place);
    const holdfast = await use(place);
    await fill(holdfast);
    await using kept = await holdfast.session("kept");
    await kept.append({ role: "user", text: `${MARK} kept` });
    const file = join(place.folder, "backup.db");
    await holdfast.journal.store.backup?.(file);
    const { state } = await holdfast.journal.load(sessionKind, "alpha");
    const result = state.calls.get("large")?.result;
    const artifact = result && "artifact" in result ? result.artifact : "";
    await holdfast.sessions.erase("alpha");

    const backup = await open(undefined, {
      store: await openSqlite({ path: file }),
      encryption: encryptionOf(place),
    });
    open_.push(backup);
    await expect(backup.session("alpha")).rejects.toThrow(/it was erased/);
    expect(await codeOf(backup.journal.load(sessionKind, "alpha"))).toBe("CODEC_FAILED");
    // Its bytes are there, but the secret that its key needs was in the events.
    expect(Buffer.from(await backup.getArtifact(artifact.slice(0, 64))).toString()).not.toContain(MARK);
    expect(await textOfSession(backup, "kept")).toContain(`${MARK} kept`);
    const { sessions } = await backup.sessions.list();
    expect(sessions.map(({ id, title }) => [id, title])).toContainEqual(["alpha", null]);
  });

  test("a session that was only removed is readable in it, until it is erased", async () => {
    const place = made(PLACES[0] as () => Place);
    const holdfast = await use(place);
    await fill(holdfast);
    const file = join(place.folder, "backup.db");
    await holdfast.journal.store.backup?.(file);
    await holdfast.journal.remove("session/alpha");
    const read = async (): Promise<string> => {
      const backup = await open(undefined, {
        store: await openSqlite({ path: file }),
        encryption: encryptionOf(place),
      });
      return textOfSession(backup, "alpha").finally(() => backup.close());
    };
    expect(await read()).toContain(`${MARK} message`);
    await holdfast.sessions.erase("alpha");
    expect(await codeOf(read())).toBe("CODEC_FAILED");
  });
});

describe("the key ring", () => {
  const sqlite = PLACES[0] as () => Place;

  test("an interrupted erase leaves a readable session, and is completed by the next", async () => {
    const place = made(sqlite);
    const holdfast = await use(place);
    await fill(holdfast);
    await holdfast.close();
    // The state after a crash between putting the keys aside and removing the stream.
    for (const stream of keyFolders(place.ring)) {
      for (const id of readdirSync(join(place.ring, stream))) {
        renameSync(join(place.ring, stream, id), join(place.ring, stream, `${id}.erased`));
      }
    }
    const next = await use(place);
    expect(await textOfSession(next, "alpha")).toContain(`${MARK} message`);
    await using session = await next.session("alpha");
    await session.append({ role: "user", text: "more" });
    await session.close();
    await next.sessions.erase("alpha");
    const left = keyFolders(place.ring).map((name) => readdirSync(join(place.ring, name)));
    expect(left.flat()).toHaveLength(1);
  });

  test("an erase that the store refuses keeps the keys", async () => {
    const place = made(sqlite);
    const holdfast = await use(place);
    await fill(holdfast);
    const { store, namespace } = holdfast.journal;
    const stream = "session/alpha";
    const request = {
      of: "stream",
      namespace,
      stream,
      expect: { generation: 1, seq: 1 },
      erase: true,
    } as const;
    expect(await store.remove(request)).toMatchObject({ outcome: "conflict" });
    await holdfast.close();
    expect(await textOfSession(await use(place), "alpha")).toContain(`${MARK} message`);
  });

  test("two handles that create the same goal at once both read it", async () => {
    const place = made(sqlite);
    const [one, two] = [await use(place), await use(place)];
    await Promise.all([one, two].map((each) => each.goal("shared", { statement: "both" })));
    await (await one.goal("shared")).fact({ key: "one", value: "1", source: "x" });
    await (await two.goal("shared")).fact({ key: "two", value: "2", source: "x" });
    const third = await use(place);
    expect([...(await third.goal("shared")).state.facts.keys()].sort()).toEqual(["one", "two"]);
  });

  test("a record moved to another place does not decrypt", async () => {
    const place = made(sqlite);
    const { journal } = await use(place);
    const codec = cipherOf(journal.store)?.codec as PayloadCodec;
    const at = { namespace: "default", stream: "session/a", seq: 1 };
    const sealed = codec.encode("[]", at);
    expect(codec.decode(sealed, at)).toBe("[]");
    for (const moved of [{ seq: 2 }, { stream: "session/b" }, { namespace: "other" }]) {
      expect(() => codec.decode(sealed, { ...at, ...moved })).toThrow();
    }
  });

  test("a redaction still runs before the encryption", async () => {
    const place = made(sqlite);
    const redacting: PayloadCodec = {
      name: "no-keys",
      encode: (text) => text.replaceAll(/sk-\w+/g, "sk-****"),
      decode: (payload) => payload as string,
    };
    const options = { encryption: encryptionOf(place), codecs: [redacting] };
    const holdfast = await open(undefined, { ...options, store: await place.store() });
    open_.push(holdfast);
    await using session = await holdfast.session("s");
    await session.append({ role: "user", text: "use sk-12345" });
    expect(await textOfSession(holdfast, "s")).toContain("use sk-****");
    expect(await place.bytes()).not.toContain("sk-");
  });

  test("a codec before the encryption is told the same place for every record, both ways", async () => {
    const place = made(sqlite);
    const seen = { encode: [] as string[], decode: [] as string[] };
    const noting: PayloadCodec = {
      name: "noting",
      encode: (text, at) => {
        seen.encode.push(JSON.stringify(at));
        return text;
      },
      decode: (payload, at) => {
        seen.decode.push(JSON.stringify(at));
        return payload as string;
      },
    };
    const options = { encryption: encryptionOf(place), codecs: [noting] };
    for (const text of ["first", "second"]) {
      const holdfast = await open(undefined, { ...options, store: await place.store() });
      open_.push(holdfast);
      await using session = await holdfast.session("s");
      await session.append({ role: "user", text });
    }
    expect(seen.decode.length).toBeGreaterThan(0);
    expect(seen.decode.filter((each) => !seen.encode.includes(each))).toEqual([]);
    expect(seen.decode.map((each) => (JSON.parse(each) as { stream: string }).stream)).toContain("session/s");
  });
});

test.each([
  [{ keys: {} }, /there is no key/],
  [{ keys: { a: undefined } }, /key a is not set/],
  [{ keys: { a: "short" } }, /key a is not 32 bytes/],
  [{ keys: { a: KEY, b: NEW_KEY } }, /current is undefined \(expected one of: a, b\)/],
  [{ keys: { a: KEY }, ring: "keys" }, /not an absolute path/],
])("aesGcm(%j) is refused", (options, why) => {
  expect(() => aesGcm(options)).toThrow(why);
});
