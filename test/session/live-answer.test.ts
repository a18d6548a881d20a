// Chunks of an answer under way: seen by another process, never truth, gone with the answer or the session.

import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast } from "../../src/index.ts";
import { followLiveAnswer, LiveAnswerKeeper, type Session, sessionCore } from "../../src/session/index.ts";
import { type Bench, openBench } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const ANSWER = { attempt: "a1", prompt: "p1" };
const ID = "chat";

/** The first answer that a follower in another process sees, or null once the session is free. */
async function seenBy({ journal }: Holdfast): Promise<unknown> {
  const gone = new AbortController();
  for await (const live of followLiveAnswer(journal, ID, gone.signal)) if (live) return live;
  return null;
}

async function openChat(holdfast: Holdfast): Promise<Session> {
  const session = await holdfast.session(ID);
  await session.append({ id: "p1", role: "user", text: "Count." });
  return session;
}

describe.each(storeSubjects())("on $name", (subject) => {
  let bench: Bench;

  beforeEach(async () => {
    bench = await openBench(subject);
  });
  afterEach(() => bench.dispose());
  afterAll(() => subject.dispose());

  test("another process sees the chunks, and none once the answer is durable", async () => {
    const [{ holdfast: one }, { holdfast: other }] = [bench.first, await bench.another()];
    const session = await openChat(one);
    const chunks = [{ type: "text-delta", id: "1", delta: "one" }];
    const keeper = new LiveAnswerKeeper(sessionCore(session), ANSWER, () => chunks);
    keeper.changed();
    expect(await seenBy(other)).toMatchObject({ ...ANSWER, chunks });
    expect(await one.check()).toEqual([]);
    await session.append({ role: "assistant", text: "one" });
    await keeper.end();
    const left = seenBy(other);
    await session.close();
    expect(await left).toBeNull();
    expect(await other.check()).toEqual([]);
  });

  test("chunks of an owner that was replaced are not shown, and an erase takes them", async () => {
    const [{ holdfast: one }, { holdfast: other }] = [bench.first, await bench.another()];
    const first = await openChat(one);
    const keeper = new LiveAnswerKeeper(sessionCore(first), ANSWER, () => [{ type: "text-delta" }]);
    keeper.changed();
    expect(await seenBy(other)).not.toBeNull();
    // As after a kill: the row stays, and the lease goes to the next owner.
    await first.close();
    const second = await other.session(ID);
    const seen = seenBy(one);
    await second.close();
    expect(await seen).toBeNull();
    const { journal } = other;
    const folds = async () => {
      const stream = `session/${ID}`;
      const { rows } = await journal.list<"snapshots">({ of: "snapshots", stream });
      return rows.map(({ fold }) => fold);
    };
    expect(await folds()).toContain("answer@1");
    await other.sessions.erase(ID);
    expect(await folds()).toEqual([]);
  });
});
