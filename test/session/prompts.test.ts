/** A prompt with an id has one answer: in its first run and in every later one. */

import { afterAll, describe, expect, test } from "vitest";
import type { Message, Model, Session } from "../../src/index.ts";
import { messageText } from "../../src/model/session/index.ts";
import { type Bench, callBlock, counting, fatal, openBench, script } from "../ledger/bench.ts";
import { sqliteForTest } from "../stores/conformance/sqlite-subject.ts";

const pay = { id: "p1", text: "Pay 4711" };
const refund = { id: "p2", text: "Refund 9999" };

function said(role: "user" | "assistant", text: string): Message {
  return { id: `put-${text}`, role, createdAt: new Date(0).toISOString(), blocks: [{ kind: "text", text }] };
}

const words = ({ messages }: { messages: readonly Message[] }): string[] =>
  messages.map((each) => `${each.role}: ${messageText(each)}`);

/** A model that acts during its first question and answers. It throws if it is asked again. */
function dyingAfter(during: () => Promise<unknown>): { model: Model; died: Promise<void> } {
  let asked = 0;
  let die = (): void => undefined;
  const died = new Promise<void>((resolve) => {
    die = resolve;
  });
  const model: Model = async () => {
    asked += 1;
    if (asked > 1) {
      die();
      return new Promise(() => undefined);
    }
    await during();
    return { message: { text: "will ship to Bob" } };
  };
  return { model, died };
}

describe.each([sqliteForTest()])("on $name", (subject) => {
  afterAll(() => subject.dispose());

  const withSession = async (work: (session: Session, bench: Bench) => Promise<void>): Promise<void> => {
    const bench = await openBench(subject);
    try {
      await work(await bench.first.session(), bench);
    } finally {
      await bench.dispose();
    }
  };

  test("a prompt that was compacted away unanswered does not get another's answer", () =>
    withSession(async (session) => {
      await session.run({ model: script(), prompt: pay, maxTurns: 0 });
      await session.compact([said("user", "pay 4711")]);
      expect(await session.run({ model: script("paid"), prompt: pay })).toMatchObject({ text: "paid" });
      expect(await session.run({ model: script("refunded"), prompt: refund })).toMatchObject({
        text: "refunded",
      });
      const model = script("nobody asks");
      const again = await session.run({ model, prompt: pay });
      expect(again).toMatchObject({ status: "done", text: "paid", replayed: ["p1"] });
      expect(model.asked).toBe(0);
    }));

  test.each([
    ["behind the model's own words", [said("assistant", "all is well")]],
    ["with everything else", []],
  ])("a prompt that was compacted away %s is appended again and answered", (_, left) =>
    withSession(async (session) => {
      await session.run({ model: script(), prompt: pay, maxTurns: 0 });
      await session.compact(left);
      const first = await session.run({ model: script("paid"), prompt: pay });
      expect(first).toMatchObject({ status: "done", text: "paid", replayed: [] });
      expect(words(session)).toEqual([...words({ messages: left }), "user: Pay 4711", "assistant: paid"]);
      expect(await session.run({ model: script(), prompt: pay })).toMatchObject({ text: "paid" });
    }),
  );

  test("a prompt that was compacted away with everything is not answered by a later prompt's answer", () =>
    withSession(async (session, bench) => {
      await session.run({ model: script(), prompt: pay, maxTurns: 0 });
      await session.compact([]);
      await session.run({ model: script("refunded"), prompt: refund });
      await bench.first.holdfast.sessions.prompt("alpha", { text: "what time?" }, { by: "eve" });
      const model = script("paid, and it is noon");
      const first = await session.run({ model, prompt: pay });
      expect(first).toMatchObject({ status: "done", text: "paid, and it is noon", replayed: [] });
      expect(words(session).slice(2, 4)).toEqual(["user: Pay 4711", "user: what time?"]);
      expect(await session.run({ model, prompt: pay })).toMatchObject({ text: first.text, replayed: ["p1"] });
      expect(model.asked).toBe(1);
    }));

  test("a prompt keeps its answer after that was removed from the transcript", () =>
    withSession(async (session) => {
      await session.run({ model: script("paid"), prompt: pay });
      await session.run({ model: script("refunded"), prompt: refund });
      await session.compact(session.messages.filter((each) => messageText(each) !== "paid"));
      expect(await session.run({ model: script(), prompt: pay })).toMatchObject({ text: "paid" });
    }));

  test("a prompt that arrived during an answer is not answered by it, also after a compaction", () =>
    withSession(async (session) => {
      const stop = { id: "stop", text: "stop" };
      let asked = 0;
      const model: Model = async () => {
        if (asked++ === 0) await session.append({ ...stop, role: "user" });
        return { message: { text: `answer ${asked}` } };
      };
      expect(await session.run({ model, prompt: pay })).toMatchObject({ text: "answer 1" });
      await session.compact([said("user", "paid and stopped")]);
      expect(await session.run({ model, prompt: stop })).toMatchObject({ text: "answer 2" });
      expect(asked).toBe(2);
    }));

  test("queued prompts are answered, and the result is the prompt's own answer, at first and again", () =>
    withSession(async (session, bench) => {
      let asked = 0;
      const model: Model = async () => {
        asked += 1;
        if (asked === 1)
          await bench.first.holdfast.sessions.prompt("alpha", { text: "what time?" }, { by: "eve" });
        return { message: { text: asked === 1 ? "paid" : "noon" } };
      };
      expect(await session.run({ model, prompt: pay })).toMatchObject({ text: "paid", replayed: [] });
      expect(words(session).at(-1)).toBe("assistant: noon");
      expect(await session.run({ model, prompt: pay })).toMatchObject({ text: "paid", replayed: ["p1"] });
      expect(asked).toBe(2);
    }));

  test.each(["said", "queued"])(
    "a prompt %s meanwhile is answered after a crash by the same program",
    (how) =>
      withSession(async (session, bench) => {
        const stop = { id: "m2", text: "stop, wrong customer!" };
        const { model, died } = dyingAfter(() =>
          how === "said"
            ? session.append({ ...stop, role: "user" })
            : bench.first.holdfast.sessions.prompt("alpha", stop, { by: "ann" }),
        );
        session.run({ model, prompt: pay }).catch(() => undefined);
        await died;
        const next = await (await bench.afterCrash()).session();
        const again = script("stopped");
        expect(await next.run({ model: again, prompt: pay })).toMatchObject({
          status: "done",
          text: "will ship to Bob",
          replayed: ["p1"],
        });
        expect(again.asked).toBe(1);
        expect(words(next).slice(-2)).toEqual(["user: stop, wrong customer!", "assistant: stopped"]);
      }),
  );

  test("a prompt that is queued while no run is active is answered by the next run", () =>
    withSession(async (session, bench) => {
      await session.run({ model: script("paid"), prompt: pay });
      await bench.first.holdfast.sessions.prompt("alpha", { text: "and the receipt?" }, { by: "ann" });
      const model = script("sent");
      expect(await session.run({ model, prompt: pay })).toMatchObject({ status: "done", text: "paid" });
      expect(words(session).at(-1)).toBe("assistant: sent");
    }));

  test("the work of a later run is left to that run and its tools", () =>
    withSession(async (session, bench) => {
      await session.run({ model: script("paid"), prompt: pay });
      await session.compact([said("user", "it was paid")]);
      const world = { effects: [] };
      const dying = fatal(world, "refund", { idempotent: true });
      const asks = script([callBlock("c1", "refund")]);
      session.run({ model: asks, tools: [dying.tool], prompt: refund }).catch(() => undefined);
      await dying.reached;
      const next = await (await bench.afterCrash()).session();
      const first = await next.run({ model: script("nobody asks"), prompt: pay });
      expect(first).toMatchObject({ status: "done", text: "paid", replayed: ["p1"] });
      const tools = [counting(world, "refund", { idempotent: true })];
      const second = await next.run({ model: script("refunded"), tools, prompt: refund });
      expect(second).toMatchObject({ status: "done", text: "refunded" });
    }));

  test("after a compaction the original words count", () =>
    withSession(async (session) => {
      await session.run({ model: script("paid"), prompt: pay });
      await session.compact([said("user", "summary")]);
      const other = session.run({ model: script(), prompt: { ...pay, text: "Refund 9999" } });
      await expect(other).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
      expect(await session.run({ model: script(), prompt: pay })).toMatchObject({ text: "paid" });
    }));

  test("a prompt that was shortened in the transcript is resumed with its original words only", () =>
    withSession(async (session) => {
      const long = { id: "p1", text: `Read this: ${"x".repeat(50)}` };
      await session.run({ model: script(), prompt: long, maxTurns: 0 });
      const cut = { kind: "text", text: "Read this: [cut]" } as const;
      await session.compact(session.messages.map((each) => ({ ...each, blocks: [cut] })));
      const other = session.run({ model: script(), prompt: { ...long, text: "Read that" } });
      await expect(other).rejects.toMatchObject({ code: "PROMPT_DIVERGED" });
      expect(await session.run({ model: script("read"), prompt: long })).toMatchObject({ text: "read" });
    }));

  test("a queued prompt is not replaced by other words", () =>
    withSession(async (session, bench) => {
      const { sessions } = bench.first.holdfast;
      const by = { by: "ann" };
      const diverged = { code: "PROMPT_DIVERGED" };
      const other = { ...pay, text: "Pay 1" };
      await sessions.prompt("alpha", pay, by);
      expect(await sessions.prompt("alpha", pay, by)).toBe("p1");
      await expect(sessions.prompt("alpha", other, by)).rejects.toThrow("Nothing was queued");
      await expect(session.run({ model: script(), prompt: other })).rejects.toMatchObject(diverged);
      expect(await session.run({ model: script("paid"), prompt: pay })).toMatchObject({ text: "paid" });
      expect(words(session)).toEqual(["user: Pay 4711", "assistant: paid"]);
      await session.compact([said("user", "it was paid")]);
      expect(await sessions.prompt("alpha", pay, by)).toBe("p1");
      await expect(sessions.prompt("alpha", other, by)).rejects.toMatchObject(diverged);
      await session.refresh();
      expect(session.prompts).toEqual([]);
    }));
});
