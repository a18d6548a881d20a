/**
 * Callers that do not await, repeat themselves, or pass invalid amounts: nothing is lost, and nothing hangs.
 */

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { agentTool, type Holdfast, type Model, open, type Session, tool } from "../../src/index.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { altered } from "../journal/places.ts";
import { callBlock, counting, script } from "../ledger/bench.ts";

let holdfast: Holdfast;
let session: Session;
let warnings: unknown[];

beforeEach(async () => {
  warnings = [];
  holdfast = await open("memory:", { warn: (error) => void warnings.push(error) });
  session = await holdfast.session("s");
});

afterEach(() => holdfast.close());

describe("append", () => {
  test("keeps the first of several messages with one id", async () => {
    const twice = await session.append([
      { id: "m", role: "user", text: "pay" },
      { id: "m", role: "user", text: "pay" },
      { id: "n", role: "user", text: "now" },
    ]);
    expect(twice.map(({ id }) => id)).toEqual(["m", "m", "n"]);
    expect(session.messages.map(({ id }) => id)).toEqual(["m", "n"]);
  });
});

describe("close", () => {
  test("waits for work that was started and not awaited", async () => {
    const begun = [
      ...["a", "b", "c"].map((id) => session.append({ id, role: "user", text: id })),
      session.checkpoint(),
      session.complete(),
    ];
    await session.close();
    await Promise.all(begun);
    const { messages, version, status } = await holdfast.sessions.get("s");
    expect(messages.map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect({ version, status }).toEqual({ version: 1, status: "completed" });
  });

  test("makes every method reject, and none throw synchronously", async () => {
    await session.append({ role: "user", text: "go" });
    const message = await session.append({ role: "assistant", blocks: [callBlock("c", "pay")] });
    await session.close();
    const pay = counting({ effects: [] }, "pay");
    const acts: Record<string, () => Promise<unknown>> = {
      run: () => session.run({ model: script("hi"), prompt: "go" }),
      call: () => session.call({ tool: pay, args: {} }),
      calls: () => session.calls(message, [pay]),
      settle: () => session.settle([pay]),
      append: () => session.append({ role: "user", text: "x" }),
      complete: () => session.complete(),
      cancel: () => session.cancel(),
      reopen: () => session.reopen(),
    };
    for (const [name, act] of Object.entries(acts)) {
      const error = await act().catch((thrown: unknown) => thrown);
      expect({ name, error }).toMatchObject({ name, error: { code: "SESSION_CLOSED" } });
    }
  });
});

describe("a run from within a run of the same session", () => {
  test.each(["tool", "model", "listener"] as const)("is rejected from a %s", async (where) => {
    let refused: unknown;
    const inner = async (): Promise<void> => {
      // Not in the first turn: an act that a tool starts later still belongs to that tool.
      await Promise.resolve();
      refused = await session
        .run({ model: script("never"), prompt: "inner" })
        .catch((error: unknown) => error);
    };
    const again = counting({ effects: [] }, "again", { execute: () => where === "tool" && inner() });
    const answers = script([callBlock("c", "again")], "done");
    const model: Model = async (request) => {
      if (where === "model" && answers.asked === 0) await inner();
      return answers(request);
    };
    let heard: Promise<void> | undefined;
    const on = () => {
      if (where === "listener") heard ??= inner();
    };
    const result = await session.run({ model, tools: [again], prompt: "go", on });
    await heard;
    expect(result).toMatchObject({ status: "done", text: "done" });
    expect(refused).toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringMatching(/within a run of the same session/),
    });
  });

  test("is rejected through a sub-agent, whose own run is not", async () => {
    let refused: unknown;
    const back = tool({
      name: "back",
      description: "back",
      input: z.any(),
      effect: "mutate",
      execute: async () => {
        refused = await session.run({ model: script("never") }).catch((error: unknown) => error);
        return "back";
      },
    });
    const helper = agentTool({
      name: "helper",
      description: "helper",
      input: z.any(),
      run: (_args, child) =>
        child.run({ model: script([callBlock("b", "back")], "helped"), tools: [back], prompt: "help" }),
    });
    const model = script([callBlock("h", "helper")], "done");
    expect(await session.run({ model, tools: [helper], prompt: "go" })).toMatchObject({ status: "done" });
    expect(refused).toMatchObject({ code: "INPUT_INVALID" });
  });

  test("is accepted once that run is over, and from outside it", async () => {
    let goOn = (): void => undefined;
    let later: Promise<unknown> | undefined;
    const leave = counting({ effects: [] }, "leave", {
      execute: () => {
        const told = new Promise<void>((resolve) => {
          goOn = resolve;
        });
        later = told.then(() => session.run({ model: script("later"), prompt: "later" }));
        return "left";
      },
    });
    const first = session.run({
      model: script([callBlock("c", "leave")], "first"),
      tools: [leave],
      prompt: "1",
    });
    const second = session.run({ model: script("second"), prompt: "2" });
    expect(await Promise.all([first, second])).toMatchObject([{ text: "first" }, { text: "second" }]);
    goOn();
    expect(await later).toMatchObject({ status: "done", text: "later" });
  });
});

describe("usage that is not an amount", () => {
  test.each([
    [{ usd: Number.NaN }, {}],
    [{ usd: -1 }, { usd: 0.5 }],
    [{ usd: Number.POSITIVE_INFINITY, tokens: "many" }, { tokens: 7 }],
  ] as const)("%o: the paid answer is kept, and counted as far as it can be", async (usage, perCall) => {
    const model: Model = async () => ({ message: { text: "an expensive answer" }, usage: usage as never });
    const prompt = { id: "p", text: "go" };
    const result = await session.run({ model, prompt, budget: { turns: 10, perCall } });
    expect(result).toMatchObject({ status: "done", text: "an expensive answer" });
    const named = Object.fromEntries(Object.keys(usage).map((unit) => [unit, 0]));
    expect(session.budget).toMatchObject({ spent: { ...named, ...perCall, turns: 1 }, reserved: {} });
    expect(warnings).toMatchObject([{ code: "INPUT_INVALID", data: { units: Object.keys(usage) } }]);
  });

  test("amounts that are too large to add stay numbers", async () => {
    const model: Model = async () => ({ message: { text: "hi" }, usage: { tokens: Number.MAX_VALUE } });
    for (const prompt of ["one", "two"]) await session.run({ model, prompt });
    expect(session.budget.spent).toEqual({ tokens: Number.MAX_VALUE, turns: 2 });
    expect(warnings).toEqual([]);
  });
});

describe("a prompt from outside", () => {
  test.each([42, undefined, null, { text: "x" }])(
    "is rejected when its text is %o, and nothing hangs",
    async (text) => {
      const prompted = holdfast.sessions.prompt("s", { text: text as never }, { by: "web" });
      await expect(prompted).rejects.toMatchObject({ code: "INPUT_INVALID" });
      expect(await session.run({ model: script("hi"), prompt: "go" })).toMatchObject({ status: "done" });
    },
  );
});

describe("events for a session while it is erased", () => {
  const card = "my card is 4711";
  const said: Readonly<Record<string, (outside: Holdfast) => Promise<unknown>>> = {
    "a prompt": ({ sessions }) => sessions.prompt("gone", { text: card }, { by: "ann" }),
    "a cancellation": ({ sessions }) => sessions.cancel("gone", { by: "ann", why: card }),
    "a larger budget": ({ sessions }) => sessions.raiseBudget("gone", { usd: 4711 }, { by: "ann" }),
  };

  test.each(Object.entries(said))("%s does not revive it", async (_name, say) => {
    const data = memoryData();
    const owner = await open(undefined, { store: openMemory({ data }) });
    const mine = await owner.session("gone");
    await mine.limit({ usd: 1 });
    await mine.close();
    let isErased = false;
    const store = altered(openMemory({ data }), {
      append: async (append, batch) => {
        if (!isErased) await owner.sessions.erase("gone");
        isErased = true;
        return append(batch);
      },
    });
    const outside = await open(undefined, { store });
    await expect(say(outside)).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
    expect(isErased).toBe(true);
    expect((await owner.sessions.list()).sessions).toEqual([]);
  });

  test("do not reach the next session of that name", async () => {
    const data = memoryData();
    const owner = await open(undefined, { store: openMemory({ data }) });
    await (await owner.session("gone")).close();
    let isErased = false;
    const store = altered(openMemory({ data }), {
      append: async (append, batch) => {
        if (!isErased) {
          isErased = true;
          await owner.sessions.erase("gone");
          await (await owner.session("gone")).close();
        }
        return append(batch);
      },
    });
    const outside = await open(undefined, { store });
    const prompted = outside.sessions.prompt("gone", { text: card }, { by: "ann" });
    await expect(prompted).rejects.toMatchObject({ code: "STREAM_NOT_FOUND" });
    expect((await owner.session("gone")).prompts).toEqual([]);
  });
});
