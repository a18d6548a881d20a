// Unusual tools, listeners and callers: the effect is recorded all the same.

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import {
  type Call,
  Holdfast,
  HoldfastError,
  Journal,
  type Json,
  type Session,
  tool,
} from "../../src/index.ts";
import { draftIssued } from "../../src/model/session/index.ts";
import { sessionCore } from "../../src/session/index.ts";
import type { Store } from "../../src/store.ts";
import { openMemory } from "../../src/testing/index.ts";
import { skipWaits } from "../skip-waits.ts";
import { callBlock, counting, script, type World } from "./bench.ts";

let world: World;
let warnings: unknown[];
let holdfast: Holdfast;
/** How many of the next requests of each kind the store answers with a transient error. */
let failing: { put: number; append: number };

beforeEach(() => {
  world = { effects: [] };
  warnings = [];
  failing = { put: 0, append: 0 };
  holdfast = new Holdfast(
    new Journal({ store: shaky(openMemory()), warn: (error) => warnings.push(error), leaseMs: 60_000 }),
  );
});
afterEach(() => holdfast.close());

function shaky(store: Store): Store {
  return new Proxy(store, {
    get(target, name: keyof Store) {
      const value = target[name];
      if (typeof value !== "function") return value;
      return (...args: never[]) => {
        if ((name === "put" || name === "append") && failing[name] > 0) {
          failing[name] -= 1;
          throw new HoldfastError("STORE_BUSY", "others have kept it locked", { hint: "Try again." });
        }
        return (value as (...args: never[]) => unknown).apply(target, args);
      };
    },
  });
}

async function callsOf(id: string): Promise<readonly Call[]> {
  return (await holdfast.sessions.get(id)).calls;
}

const BAD_IDS = [
  ["a control character", "order\n4711"],
  ["300 characters", "x".repeat(300)],
  ["nothing in it", ""],
] as const;

describe.each(BAD_IDS)("an id with %s", (_what, id) => {
  test("is rejected before anything is written or run", async () => {
    const session = await holdfast.session("a");
    const direct = session.call({ tool: counting(world, "charge"), args: {}, callId: id });
    await expect(direct).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringMatching(/call id/),
    });
    await expect(
      session.call({ tool: counting(world, "look", { effect: "read" }), args: {}, callId: id }),
    ).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(world.effects).toEqual([]);
    expect(await callsOf("a")).toEqual([]);
    const blocks = [callBlock(id, "charge")];
    await expect(session.append({ role: "assistant", blocks })).rejects.toMatchObject({
      code: "INPUT_INVALID",
    });
    expect((await session.run({ model: script("fine"), prompt: "go" })).status).toBe("done");
  });

  test("that is already recorded does not keep the call from being settled", async () => {
    const first = await holdfast.session("a");
    await plant(first, id);
    await first.close();
    const session = await holdfast.session("a");
    const charge = counting(world, "charge");
    expect(await session.call({ tool: charge, args: {}, callId: id })).toMatchObject({ status: "waiting" });
    await holdfast.calls.resolve(
      { session: "a", callId: id },
      { outcome: "retry", by: "ann", why: "no trace" },
    );
    expect((await session.settle([charge])).open).toEqual([]);
    expect(world.effects).toEqual(["charge {}"]);
    expect(await session.call({ tool: charge, args: {}, callId: id })).toMatchObject({ status: "completed" });
  });
});

/** Plants the intent of an earlier release, with an id that is invalid now. */
async function plant(session: Session, callId: string, args: Json = {}): Promise<void> {
  const { token } = sessionCore(session).own.lease;
  const key = `k-${callId}`;
  const of = { callId, messageId: null, tool: "charge", effect: "mutate", scope: "session" } as const;
  const draft = draftIssued({ ...of, args, key, vendorKey: key, failures: 0, attempt: 1, token });
  await sessionCore(session).own.write(() => ({ events: [draft], result: undefined }));
}

describe("an effect that landed is recorded as completed, whatever the tool returned", () => {
  const strict = () =>
    new Proxy(
      { id: 1 },
      {
        get: (target, name) => {
          if (name === "then") return undefined;
          if (name in target) return target[name as "id"];
          throw new Error(`no field ${String(name)}`);
        },
        getPrototypeOf: () => class Strict {}.prototype,
      },
    );

  test.each([{}, { idempotent: true }, { interrupted: "fail" }] as const)("with %o", async (spec) => {
    const session = await holdfast.session("a");
    const pay = counting(world, "pay", {
      ...spec,
      execute: () => {
        world.effects.push("paid");
        return strict();
      },
    });
    const outcome = await session.call({ tool: pay, args: {}, callId: "c1" });
    expect(outcome).toMatchObject({ status: "completed", value: { id: 1 }, note: expect.any(String) });
    expect(await session.call({ tool: pay, args: {}, callId: "c1" })).toEqual({ ...outcome, replayed: true });
    expect(world.effects).toEqual(["paid"]);
  });
});

describe("any thrown value is recorded as an error", () => {
  const thrown: readonly [string, "failed" | "waiting", () => unknown][] = [
    ["a name that is an object", "failed", () => Object.assign(refused(), { name: { kind: "x" } })],
    ["a name that is null", "failed", () => Object.assign(refused(), { name: null })],
    [
      "a response that cannot be read",
      "waiting",
      () => Object.defineProperty(new Error("reset"), "response", { get: () => fail("body used") }),
    ],
    [
      "a cause that cannot be read",
      "waiting",
      () => Object.defineProperty(new Error("x"), "cause", { get: fail }),
    ],
    ["a prototype that cannot be read", "waiting", () => new Proxy({}, { getPrototypeOf: () => fail("no") })],
  ];

  test.each(thrown)("%s", async (_what, status, make) => {
    const session = await holdfast.session("a");
    const pay = counting(world, "pay", {
      execute: () => {
        world.effects.push("paid");
        throw make();
      },
    });
    const outcome = await session.call({ tool: pay, args: {}, callId: "c1" });
    expect(outcome.status).toBe(status);
    expect(await session.call({ tool: pay, args: {}, callId: "c1" })).toEqual(outcome);
    expect(world.effects).toEqual(["paid"]);
  });

  test.each([
    { code: -32_800, message: Symbol("cancelled") },
    {
      code: "X",
      get message() {
        return fail("boom in the reason");
      },
    },
  ])("an abort reason without a message (%#)", async (reason) => {
    const session = await holdfast.session("a");
    const stopping = new AbortController();
    let finish: (value: string) => void = () => undefined;
    const deaf = counting(world, "pay", {
      execute: () => {
        setImmediate(() => stopping.abort(reason));
        return new Promise((resolve) => {
          finish = resolve;
        });
      },
    });
    const call = session.call({ tool: deaf, args: {}, callId: "c1", signal: stopping.signal });
    await expect(call).rejects.toBe(reason);
    expect(await callsOf("a")).toMatchObject([{ callId: "c1", status: "unknown" }]);
    finish("late");
    expect(await session.call({ tool: deaf, args: {}, callId: "c1" })).toMatchObject({ value: "late" });
  });

  test.each([undefined, 7, null])(
    "a verify that is unsure for the reason %s makes the call wait for a person",
    async (why) => {
      const session = await holdfast.session("a");
      const pay = counting(world, "pay", {
        execute: () => fail("reset"),
        verify: () => ({ answer: "unsure", why }) as never,
      });
      const outcome = await session.call({ tool: pay, args: {}, callId: "c1" });
      expect(outcome).toMatchObject({ status: "waiting", why: expect.stringMatching(/./) });
    },
  );
});

function fail(why = "unreadable"): never {
  throw new Error(why);
}

function refused(): Error {
  return Object.assign(new Error("refused"), { code: "ECONNREFUSED" });
}

describe("a known answer survives a store that fails for a moment", () => {
  const large = "z".repeat(300_000);

  /** A call c1 with an unknown outcome: its tool answers only after `finish`. */
  async function givenUp(session: Session) {
    let finish: (answer: string) => void = () => undefined;
    const slow = counting(world, "pay", {
      timeoutMs: 1,
      execute: () =>
        new Promise((resolve) => {
          finish = resolve;
        }),
    });
    await sessionCore(session)
      .ledger([slow], { patienceMs: 0 })
      .runDirect({ id: "c1", name: "pay", args: {} });
    return { slow, finish };
  }

  test("a large result", async () => {
    const session = await holdfast.session("a");
    const pay = counting(world, "pay", {
      execute: () => {
        failing.put = 1;
        return large;
      },
    });
    const outcome = await session.call({ tool: pay, args: {}, callId: "c1" });
    expect(outcome).toMatchObject({ status: "completed", value: large });
  });

  test.each(["small", large])("a late answer", async (answer) => {
    const session = await holdfast.session("a");
    const { slow, finish } = await givenUp(session);
    expect(await callsOf("a")).toMatchObject([{ callId: "c1", status: "unknown" }]);
    failing = { put: 1, append: 1 };
    finish(answer);
    expect(await session.call({ tool: slow, args: {}, callId: "c1" })).toMatchObject({
      status: "completed",
      value: answer,
    });
    expect(await callsOf("a")).toMatchObject([{ settledBy: "late" }]);
    expect(warnings).toEqual([]);
  });

  test("a late answer that could not be written is written by the next settle", async () => {
    const session = await holdfast.session("a");
    const { slow, finish } = await givenUp(session);
    const told = new Promise<void>((resolve) => {
      const { push } = warnings;
      warnings.push = (...more) => {
        resolve();
        return push.apply(warnings, more);
      };
    });
    failing.append = Number.POSITIVE_INFINITY;
    const pauses = [50, 100, 200, 400, 800];
    const waited = skipWaits(pauses);
    finish("paid");
    await told;
    expect(waited).toEqual(pauses);
    failing.append = 0;
    expect(await session.call({ tool: slow, args: {}, callId: "c1" })).toMatchObject({ value: "paid" });
  });
});

test("a progress display that throws stops nothing, and is reported", async () => {
  const session = await holdfast.session("a");
  const pay = counting(world, "pay");
  const epipe = { message: "EPIPE: the terminal is gone" };
  const result = await session.run({
    model: script([callBlock("c1", "pay")]),
    tools: [pay],
    prompt: "go",
    on: (progress) => {
      throw Object.assign(new Error(epipe.message), { about: progress.type });
    },
  });
  expect(result.status).toBe("done");
  expect(world.effects).toEqual(["pay {}"]);
  const asked = ["model.asked", "message"];
  const seen = [...asked, "call.issued", "call.completed", ...asked];
  expect(warnings).toMatchObject(seen.map((about) => ({ ...epipe, about })));
});

test("so does a display of session.calls", async () => {
  const session = await holdfast.session("a");
  const message = await session.append({ role: "assistant", blocks: [callBlock("c1", "pay")] });
  const on = () => fail("EPIPE");
  expect(await session.calls(message, [counting(world, "pay")], { on })).toMatchObject({ done: true });
  expect(world.effects).toEqual(["pay {}"]);
});

describe("input on which a tool's functions throw is invalid input", () => {
  const parsing = z.object({ body: z.string().transform((body) => JSON.parse(body) as unknown) });
  const specs = {
    schema: { input: parsing },
    "key function": {
      input: z.object({ body: z.string() }),
      dedupe: { scope: "session", key: ({ body }: { body: string }) => JSON.parse(body).id },
    },
  } as const;

  test.each(Object.entries(specs))("by the %s", async (_which, spec) => {
    const send = tool({
      name: "send",
      description: "",
      effect: "mutate",
      ...(spec as (typeof specs)["schema"]),
      execute: () => "sent",
    });
    const session = await holdfast.session("a");
    const model = script([callBlock("c1", "send", { body: "{not json" })], "sorry");
    const result = await session.run({ model, tools: [send], prompt: "go" });
    expect(result).toMatchObject({ status: "done", text: "sorry" });
    expect(await callsOf("a")).toMatchObject([{ callId: "c1", status: "failed", settledBy: "input" }]);
  });

  test("a call that started with it before waits for a person", async () => {
    const first = await holdfast.session("a");
    await plant(first, "c1", { body: "{not json" });
    await first.close();
    const session = await holdfast.session("a");
    const charge = tool({
      name: "charge",
      description: "",
      effect: "mutate",
      input: parsing,
      execute: () => "sent",
    });
    expect((await session.settle([charge])).open).toEqual(["c1"]);
    expect(await callsOf("a")).toMatchObject([
      { status: "waiting", why: expect.stringMatching(/no longer accepted/) },
    ]);
  });
});

test.each([undefined, "", 7, null])(
  "a dedupe key that is %s is rejected, because it would make all calls one",
  async (given) => {
    const session = await holdfast.session("a");
    const mail = counting(world, "mail", { dedupe: { scope: "session", key: () => given as string } });
    for (const to of ["ann", "bob"]) {
      const outcome = await session.call({ tool: mail, args: { to } });
      expect(outcome).toMatchObject({
        status: "failed",
        error: { message: expect.stringMatching(/dedupe/) },
      });
    }
    expect(world.effects).toEqual([]);
  },
);

test("a fork that rejects an effect reports it to the progress display", async () => {
  const session = await holdfast.session("a");
  await session.checkpoint();
  await session.fork("b");
  const fork = await holdfast.session("b");
  const seen: string[] = [];
  const model = script([callBlock("c1", "mail")]);
  await fork.run({
    model,
    tools: [counting(world, "mail")],
    prompt: "go",
    on: (progress) => {
      if (progress.type === "call.failed") seen.push(`${progress.callId} ${progress.error}`);
    },
  });
  expect(seen).toEqual([expect.stringMatching(/^c1 Not run: this is a fork of a/)]);
  expect(world.effects).toEqual([]);
});

test("an answer whose then is a getter is awaited", async () => {
  let sent = 0;
  const request = {
    // biome-ignore lint/suspicious/noThenProperty: that is what it is about
    then: (tell: (value: string) => void) => {
      sent += 1;
      tell("receipt");
    },
  };
  const lazy = new Proxy({}, { get: (_target, name) => Reflect.get(request, name) });
  const charge = tool({
    name: "charge",
    description: "charge",
    input: z.object({}),
    effect: "mutate",
    execute: () => lazy as never,
  });
  const session = await holdfast.session("a");
  expect(await session.call({ tool: charge, args: {} })).toMatchObject({
    status: "completed",
    value: "receipt",
  });
  expect(sent).toBe(1);
});

test("a synchronous answer is recorded like an awaited one", async () => {
  const session = await holdfast.session("a");
  const answers = { text: "done", nothing: undefined, list: [1, 2] } as const;
  for (const [name, answer] of Object.entries(answers)) {
    const quick = tool({
      name,
      description: name,
      input: z.object({}),
      effect: "mutate",
      execute: () => answer,
    });
    expect(await session.call({ tool: quick, args: {} })).toMatchObject({
      status: "completed",
      value: answer ?? null,
    });
  }
  const failing = tool({
    name: "failing",
    description: "failing",
    input: z.object({}),
    effect: "mutate",
    execute: () => {
      throw new Error("out of paper");
    },
  });
  expect(await session.call({ tool: failing, args: {} })).toMatchObject({ status: "waiting" });
});

describe("a call that is refused before it is issued", () => {
  const throwing = (sync: boolean) => ({
    "~standard": {
      version: 1 as const,
      vendor: "test",
      jsonSchema: { input: () => ({}) },
      validate: () => {
        const error = new Error("the schema is broken");
        if (sync) throw error;
        return Promise.reject(error);
      },
    },
  });

  test.each([true, false])("fails if its schema throws, and not the run (at once: %s)", async (sync) => {
    const broken = counting(world, "charge", { input: throwing(sync) as never });
    const session = await holdfast.session("a");
    const result = await session.run({
      model: script([callBlock("c1", "charge")]),
      tools: [broken],
      prompt: "go",
    });
    expect(result.status).toBe("done");
    const [call] = await callsOf("a");
    expect(call?.error?.message).toBe("Invalid input for charge: the schema threw: the schema is broken");
    expect(world.effects).toEqual([]);
  });

  test("keeps its arguments, names five problems at most, and is told to the caller", async () => {
    const input = z.object(
      Object.fromEntries(["a", "b", "c", "d", "e", "f"].map((name) => [name, z.number()])),
    );
    const charge = counting(world, "charge", { input: input as never });
    const session = await holdfast.session("a");
    const told: unknown[] = [];
    const model = script([callBlock("c1", "charge", { a: 1, note: "as sent" })]);
    await session.run({ model, tools: [charge], prompt: "go", on: (progress) => told.push(progress) });
    const [call] = await callsOf("a");
    expect(call).toMatchObject({ status: "failed", args: { a: 1, note: "as sent" } });
    expect(call?.error?.message.split("; ")).toHaveLength(5);
    expect(told).toContainEqual({
      type: "call.failed",
      callId: "c1",
      tool: "charge",
      error: call?.error?.message,
    });
  });

  test("an approval question that throws is put before a person, with the error", async () => {
    const needsApproval = () => {
      throw new Error("no price list");
    };
    const charge = counting(world, "charge", { needsApproval });
    const session = await holdfast.session("a");
    const result = await session.run({
      model: script([callBlock("c1", "charge")]),
      tools: [charge],
      prompt: "go",
    });
    const why = expect.stringContaining("needsApproval threw: no price list");
    expect(result).toMatchObject({ status: "waiting", waiting: [{ callId: "c1", person: true, why }] });
    expect(world.effects).toEqual([]);
  });

  test("an agent cannot answer for a tool that requires an approver", () => {
    const both = { needsApproval: true, agentAnswers: true, requireApprover: true };
    expect(() => counting(world, "charge", both)).toThrow(/exclude each other/);
  });
});

test("a repeat of a finished call neither runs nor opens a session that is complete", async () => {
  const charge = counting(world, "charge");
  const session = await holdfast.session("a");
  await session.call({ tool: charge, args: { order: 7 } });
  await session.complete();
  const again = await session.call({ tool: charge, args: { order: 7 } });
  expect(again).toMatchObject({ status: "completed" });
  expect(world.effects).toHaveLength(1);
  expect((await holdfast.sessions.get("a")).status).toBe("completed");
});
