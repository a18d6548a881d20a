/** A store that is opened read-only shows everything and accepts no writes. */

import { afterAll, describe, expect, test } from "vitest";
import { open } from "../../src/index.ts";
import { storeSubjects } from "../subjects.ts";

describe.each(storeSubjects())("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("a read-only store shows everything and rejects writes", async () => {
    const { store, dispose } = await subject.open();
    const writer = await open(undefined, { store });
    const session = await writer.session("alpha");
    await session.append([{ role: "user", text: "hello" }], { checkpoint: true });
    const before = session.messages;

    const reader = await open(undefined, { store, readOnly: true });
    const refused = { code: "STORE_READONLY", message: expect.stringContaining("open for reading only") };
    expect((await reader.sessions.get("alpha")).messages).toHaveLength(1);
    expect((await reader.sessions.list()).sessions).toMatchObject([{ id: "alpha" }]);
    await expect(reader.session("beta")).rejects.toMatchObject(refused);
    await expect(reader.session("alpha", { ifHeld: "throw" })).rejects.toMatchObject(refused);
    await expect(reader.sessions.cancel("alpha", { by: "ann", why: "no more" })).rejects.toMatchObject(
      refused,
    );
    await expect(reader.sessions.fork("alpha", "gamma")).rejects.toMatchObject(refused);
    await expect(reader.putArtifact(Buffer.from("some bytes"))).rejects.toMatchObject(refused);
    expect(await reader.check()).toEqual([]);

    expect((await writer.sessions.list()).sessions).toMatchObject([{ id: "alpha", status: "active" }]);
    expect(session.messages).toEqual(before);
    await session.close();
    await writer.close();
    await dispose();
  });
});
