/** Messages that arrive while the model works. */

import { afterAll, describe, expect, test } from "vitest";
import type { Message, Session } from "../../src/index.ts";
import { messageText } from "../../src/model/session/index.ts";
import { callBlock, counting, openBench } from "../ledger/bench.ts";
import { storeSubjects } from "../subjects.ts";

const words = ({ messages }: { messages: readonly Message[] }): string[] =>
  messages.map((each) => `${each.role}: ${messageText(each)}`);

/** A model whose user interrupts it during its first answer. It keeps the requests that it got. */
function interrupted(session: Session, answer: object) {
  const asked: string[][] = [];
  const model = async (request: { messages: readonly Message[] }) => {
    asked.push(words(request));
    if (asked.length > 1) return { message: { text: `answer ${asked.length}` } };
    await session.append({ id: "m2", role: "user", text: "wait, blue" });
    return { message: answer as { text: string } };
  };
  return { model, asked };
}

describe.each(storeSubjects())("on $name", (subject) => {
  afterAll(() => subject.dispose());

  test("the run does not end before the model has answered it", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    const { model, asked } = interrupted(session, { text: "answer 1" });
    const result = await session.run({ model, prompt: { id: "m1", text: "a car" } });
    expect(result).toMatchObject({ status: "done", text: "answer 1" });
    const heard = ["user: a car", "assistant: answer 1", "user: wait, blue"];
    expect(asked).toEqual([["user: a car"], heard]);
    expect(words(session)).toEqual([...heard, "assistant: answer 2"]);
    await bench.dispose();
  });

  test("a paused run leaves it unanswered for the next process", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    const { model } = interrupted(session, { text: "answer 1" });
    const result = await session.run({ model, prompt: "a car", maxTurns: 1 });
    expect(result).toMatchObject({ status: "paused", reason: "turns" });
    const next = await (await bench.afterCrash()).session();
    const prompt = { id: "m2", text: "wait, blue" };
    const again = await next.run({ model: async () => ({ message: { text: "a blue one" } }), prompt });
    expect(again).toMatchObject({ status: "done", text: "a blue one" });
    await bench.dispose();
  });

  test("if the answer has calls, the model reads it with their results", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    const { model, asked } = interrupted(session, { blocks: [callBlock("c1", "paint")] });
    const tools = [counting({ effects: [] }, "paint")];
    expect(await session.run({ model, tools, prompt: "a car" })).toMatchObject({ status: "done" });
    expect(asked[1]?.slice(0, 2)).toEqual(["user: a car", "user: wait, blue"]);
    expect(asked).toHaveLength(2);
    await bench.dispose();
  });

  test("a finished session that continues with a queued prompt is active again", async () => {
    const bench = await openBench(subject);
    const session = await bench.first.session();
    await session.run({ model: async () => ({ message: { text: "hello" } }), prompt: "hello" });
    await session.complete();
    await bench.first.holdfast.sessions.prompt("alpha", { text: "one more" }, { by: "ada" });
    const seen: string[] = [];
    const model = async () => {
      seen.push((await bench.first.holdfast.sessions.get("alpha")).status);
      return { message: { text: "here it is" } };
    };
    expect(await session.run({ model })).toMatchObject({ status: "done", text: "here it is" });
    expect(seen).toEqual(["active"]);
    await bench.dispose();
  });
});
