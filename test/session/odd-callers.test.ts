// Unusual callers and tools: nested commits, thrown values without a message, class instances.

import { describe, expect, test } from "vitest";
import * as z from "zod";
import { open, type PayloadCodec, tool } from "../../src/index.ts";
import type { Store } from "../../src/store.ts";
import { openMemory } from "../../src/stores/memory/index.ts";

describe("commits of one log run one after another", () => {
  test("also if a store notifies watchers before its append resolves", async () => {
    const inner = openMemory();
    const told = new Set<() => void>();
    const store = new Proxy(inner, {
      get(target, name: keyof Store) {
        if (name === "append")
          return async (batch: never) => {
            const answer = target.append(batch);
            for (const changed of told) changed();
            return answer;
          };
        const value = target[name];
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const holdfast = await open(undefined, { store });
    const session = await holdfast.session("s");
    told.add(() => void session.refresh());
    for (const id of ["a", "b", "c"]) await session.append({ id, role: "user", text: id });
    expect(session.messages.map(({ id }) => id)).toEqual(["a", "b", "c"]);
    told.clear();
    await holdfast.close();
  });

  test("also if a codec writes to the log it encodes for", async () => {
    let once: (() => void) | null = null;
    const codec: PayloadCodec = {
      name: "audit",
      encode(text) {
        const act = once;
        once = null;
        act?.();
        return text;
      },
      decode: (payload) => payload as string,
    };
    const holdfast = await open("memory:", { codecs: [codec] });
    const session = await holdfast.session("s");
    let note: Promise<unknown> | undefined;
    once = () => {
      note = session.append({ id: "note", role: "user", text: "note" });
    };
    await session.append({ id: "said", role: "user", text: "said" });
    await note;
    expect(session.messages.map(({ id }) => id)).toEqual(["said", "note"]);
    await holdfast.close();
  });
});

test.each(["mutate", "read"] as const)(
  "a %s tool that throws a value without a message ends",
  async (effect) => {
    const holdfast = await open("memory:");
    const session = await holdfast.session("s");
    const odd = tool({
      name: "odd",
      description: "odd",
      input: z.any(),
      effect,
      execute: async () => {
        throw Object.create(null);
      },
    });
    await session.append({ role: "user", text: "go" });
    const blocks = [{ kind: "tool_call", id: "c", name: "odd", args: {} }] as const;
    const message = await session.append({ role: "assistant", blocks });
    expect(await session.calls(message, [odd])).toMatchObject({ done: effect === "read" });
    await holdfast.close();
  },
);

test("a message may be an instance of a class, with or without an id", async () => {
  class Said {
    readonly id = "m";
    readonly role = "user";
    readonly createdAt = "2026-01-01T00:00:00Z";
    readonly blocks = [{ kind: "text", text: "hi" }] as const;
  }
  const holdfast = await open("memory:");
  const session = await holdfast.session("s");
  expect(await session.append(new Said())).toMatchObject({ id: "m" });
  await holdfast.close();
});
