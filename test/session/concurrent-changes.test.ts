/** Changes while the owner of a session waits: the caller gets the current state, not a stale one. */

import { expect, test, vi } from "vitest";
import { z } from "zod";
import { agentTool, Holdfast, Journal, type Model, tool } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { memoryData, openMemory } from "../../src/stores/memory/index.ts";
import { Gate } from "../journal/gate.ts";
import { altered } from "../journal/places.ts";
import { callBlock, counting, script, type World } from "../ledger/bench.ts";

function world(): World {
  return { effects: [] };
}

test("a prompt is not lost if the blocking call is resolved while the run checks it", async () => {
  const store = openMemory();
  const holdfast = new Holdfast(new Journal({ store }));
  const session = await holdfast.session("alpha");
  let answer = (): void => undefined;
  const slow = counting(world(), "pay", {
    execute: () =>
      new Promise((resolve) => {
        answer = () => resolve("paid");
      }),
  });
  const stop = new AbortController();
  const model = script([callBlock("c1", "pay")], "about the first", "about the second");
  const on = ({ type }: { type: string }): void => {
    if (type === "call.issued") setImmediate(() => stop.abort());
  };
  const first = await session.run({ model, tools: [slow], prompt: "first", signal: stop.signal, on });
  expect(first.status).toBe("paused");

  // The run stops waiting for the call, and right after that the call ends.
  const second = session.run({
    model,
    tools: [slow],
    prompt: "second",
    patienceMs: 200,
  });
  setTimeout(() => answer(), 300);
  const told = await second;
  const words = session.messages.flatMap((each) => (each.role === "user" ? each.blocks : []));
  const heard = words.some((block) => block.kind === "text" && block.text === "second");
  expect({ status: told.status, heard }).not.toEqual({ status: "done", heard: false });
});

test("two parallel calls with one id and different arguments: the second is rejected", async () => {
  const session = await new Holdfast(new Journal({ store: openMemory() })).session("alpha");
  const seen = world();
  const pay = counting(seen, "pay", { execute: (args) => JSON.stringify(args) });
  const [first, second] = await Promise.allSettled([
    session.call({ tool: pay, callId: "x", args: { usd: 1 } }),
    session.call({ tool: pay, callId: "x", args: { usd: 2 } }),
  ]);
  expect(first).toMatchObject({ status: "fulfilled", value: { status: "completed", replayed: false } });
  expect(second).toMatchObject({ status: "rejected", reason: { code: "INPUT_INVALID" } });
});

test("two identical parallel calls: one is replayed", async () => {
  const session = await new Holdfast(new Journal({ store: openMemory() })).session("alpha");
  const seen = world();
  const pay = counting(seen, "pay");
  const both = await Promise.all([
    session.call({ tool: pay, args: { usd: 1 } }),
    session.call({ tool: pay, args: { usd: 1 } }),
  ]);
  expect(seen.effects).toHaveLength(1);
  expect(both).toMatchObject([{ replayed: false }, { replayed: true }]);
});

test("a sub-agent that starts while its parent is cancelled does nothing", async () => {
  const data = memoryData();
  const gate = new Gate();
  let reach = (): void => undefined;
  const reached = new Promise<void>((resolve) => {
    reach = resolve;
  });
  let leave = (): void => undefined;
  const left = new Promise<void>((resolve) => {
    leave = resolve;
  });
  gate.close();
  const store = altered(openMemory({ data }), {
    append: async (append, batch) => {
      if (batch.writes[0]?.stream.startsWith("session/sub-")) {
        reach();
        return gate.pass(async () => append(batch));
      }
      return append(batch);
    },
    lease: async (lease, request) => {
      const outcome = await lease(request);
      if (request.act === "release" && request.lease.lease.startsWith("session/sub-")) leave();
      return outcome;
    },
  });
  const seen = world();
  const parent = await new Holdfast(new Journal({ store })).session("alpha");
  const research = tool(
    agentTool({
      name: "research",
      description: "research",
      input: z.looseObject({}),
      run: (_args, child) =>
        child.run({
          model: script([callBlock("s1", "pay")]),
          tools: [counting(seen, "pay")],
          prompt: "go",
        }),
    }),
  );
  const run = parent.run({ model: script([callBlock("c1", "research")]), tools: [research], prompt: "go" });
  await reached;
  await new Holdfast(new Journal({ store: openMemory({ data }) })).sessions.cancel("alpha", { by: "ada" });
  gate.open();
  await run;
  await left;
  expect(seen.effects).toEqual([]);
});

test("no results are appended for a message that was compacted away", async () => {
  const session = await new Holdfast(new Journal({ store: openMemory() })).session("alpha");
  const seen = world();
  const note = counting(seen, "note", {
    execute: async () => {
      await session.compact([
        {
          id: "s",
          role: "user",
          createdAt: new Date().toISOString(),
          blocks: [{ kind: "text", text: "summary" }],
        },
      ]);
      return "noted";
    },
  });
  const asked: string[][] = [];
  const answers = script([callBlock("c1", "note")], "done");
  await session.run({
    model: (request) => {
      asked.push(request.messages.map(({ role }) => role));
      return answers(request);
    },
    tools: [note],
    prompt: "go",
  });
  expect(asked).toEqual([["user"], ["user"]]);
});

/** Wraps the store: right after a write that contains `what`, another program acts first. */
function outside(what: string, act: (holdfast: Holdfast) => Promise<unknown>) {
  const data = memoryData();
  const other = new Holdfast(new Journal({ store: openMemory({ data }) }));
  let isFirst = true;
  const store = altered(openMemory({ data }), {
    append: async (append, batch) => {
      const outcome = await append(batch);
      if (isFirst && batch.writes.some(({ payload }) => String(payload).includes(what))) {
        isFirst = false;
        await act(other);
      }
      return outcome;
    },
  });
  return new Holdfast(new Journal({ store }));
}

test("a run continues if its budget was raised", async () => {
  const holdfast = outside('"results"', (other) =>
    other.sessions.raiseBudget("alpha", { turns: 5 }, { by: "ada" }),
  );
  const session = await holdfast.session("alpha");
  const result = await session.run({
    model: script([callBlock("c1", "pay")], "done"),
    tools: [counting(world(), "pay")],
    prompt: "go",
    budget: { turns: 1 },
  });
  expect(result).toMatchObject({ status: "done", text: "done" });
});

test("so does a sub-agent", async () => {
  const holdfast = outside('"call.issued"', (other) =>
    other.sessions.raiseBudget("alpha", { turns: 5 }, { by: "ada" }),
  );
  const session = await holdfast.session("alpha");
  const research = tool(
    agentTool({
      name: "research",
      description: "research",
      input: z.looseObject({}),
      budget: { turns: 2 },
      run: (_args, child) => child.run({ model: script("found"), prompt: "go" }),
    }),
  );
  await session.limit({ turns: 1 });
  expect(await session.call({ tool: research, args: {} })).toMatchObject({ status: "completed" });
});

test("a session can be completed after a person resolved its last open call", async () => {
  const holdfast = new Holdfast(new Journal({ store: openMemory() }));
  const session = await holdfast.session("alpha");
  const broken = counting(world(), "pay", { execute: () => Promise.reject(new Error("no answer")) });
  await session.call({ tool: broken, args: {}, callId: "x" });
  await holdfast.calls.resolve("x", { outcome: "landed", by: "ada", why: "saw it" });
  await session.complete();
  expect(session.status).toBe("completed");
});

test("a run that waited for another one starts with the latest messages", async () => {
  const answer = { outcome: "landed", result: "paid", by: "ada", why: "saw it" } as const;
  const holdfast = outside('"call.waiting"', (other) => other.calls.resolve("c1", answer));
  const session = await holdfast.session("alpha");
  const broken = counting(world(), "pay", { execute: () => Promise.reject(new Error("no answer")) });
  const options = { model: script([callBlock("c1", "pay")], "done"), tools: [broken], prompt: "go" };
  const [first, second] = await Promise.all([session.run(options), session.run(options)]);
  expect([first.status, second.status]).toEqual(["waiting", "done"]);
});

test("a run reads others' events once it is quiet, and not between its own commits", async () => {
  const store = openMemory();
  let hint = (): void => undefined;
  let reads = 0;
  const watched = new Proxy(store, {
    get(target, name) {
      if (name === "watch") {
        return (_request: unknown, changed: () => void) => {
          hint = changed;
          return () => undefined;
        };
      }
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "read") return value.bind(target);
      return (request: Parameters<Store["read"]>[0]) => {
        reads += 1;
        return target.read(request);
      };
    },
  });
  const quiet: (() => void)[] = [];
  const real = globalThis.setTimeout;
  const kept = (act: () => void, ms = 0) =>
    ms === 100 ? real(() => undefined, quiet.push(act)) : real(act, ms);
  vi.spyOn(globalThis, "setTimeout").mockImplementation(kept as typeof setTimeout);
  const pass = (): void => {
    for (const act of quiet.splice(0)) act();
  };
  const holdfast = new Holdfast(new Journal({ store: watched }));
  const pay = counting({ effects: [] }, "pay");
  const session = await holdfast.session("chat");
  let turn = 0;
  const seen: number[] = [];
  reads = 0;
  const model: Model = async () => {
    turn += 1;
    pass();
    hint();
    seen.push(reads);
    if (turn < 4) return { message: { blocks: [callBlock(`c${turn}`, "pay", { turn })] } };
    pass();
    seen.push(reads);
    return { message: { text: "Paid." } };
  };
  await session.run({ model, tools: [pay], prompt: "Pay." });
  expect(seen).toEqual([0, 0, 0, 0, 1]);
  vi.restoreAllMocks();
  await holdfast.close();
});
