// A growing list stores only its additions, and every version loads in its saved state.

import { isDeepStrictEqual } from "node:util";
import { AIMessage, type BaseMessage, HumanMessage } from "@langchain/core/messages";
import { emptyCheckpoint, uuid6 } from "@langchain/langgraph-checkpoint";
import { afterEach, describe, expect, test } from "vitest";
import { type Holdfast, open } from "../../../src/index.ts";
import { HoldfastSaver } from "../../../src/integrations/langgraph/index.ts";

const opened: Holdfast[] = [];
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
});

async function freshSaver(): Promise<HoldfastSaver> {
  const holdfast = await open("memory:");
  opened.push(holdfast);
  return new HoldfastSaver(holdfast);
}

const config = () => ({ configurable: { thread_id: "t" } });

let number = 0;
function put(saver: HoldfastSaver, values: Record<string, unknown>, after: object = config()) {
  number += 1;
  const versions = Object.fromEntries(Object.keys(values).map((channel) => [channel, number]));
  const checkpoint = {
    ...emptyCheckpoint(),
    id: uuid6(0),
    channel_values: values,
    channel_versions: versions,
  };
  return saver.put(after, checkpoint, { source: "loop", step: number, parents: {} }, versions);
}

/** The value, loaded by a new saver. */
async function loaded(saver: HoldfastSaver, at: object = config()): Promise<Record<string, unknown[]>> {
  const tuple = await new HoldfastSaver(saver.holdfast).getTuple(at);
  return (tuple?.checkpoint.channel_values ?? {}) as Record<string, unknown[]>;
}

/** A message becomes its text. Other values stay unchanged. */
function said(list: readonly unknown[] | undefined): unknown[] {
  return (list ?? []).map((each) =>
    each instanceof AIMessage || each instanceof HumanMessage
      ? [each.id, each.content, { ...each.additional_kwargs }]
      : structuredClone(each),
  );
}

/** Compares first, because `expect` takes much longer to find no difference. */
function expectAlike(actual: readonly unknown[], expected: readonly unknown[]): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toEqual(expected);
}

function messages(count: number, from = 0): BaseMessage[] {
  return Array.from(
    { length: count },
    (_, n) => new AIMessage({ id: `m${from + n}`, content: `${from + n}` }),
  );
}

test("a long list that grew stores only its additions", async () => {
  const saver = await freshSaver();
  const list = messages(3_000);
  const first = await put(saver, { messages: list });
  const added = [...list, ...messages(2, 3_000)];
  await put(saver, { messages: added }, first);
  const events: unknown[] = [];
  for await (const [, event] of saver.holdfast.journal.events("langgraph/t", 0)) events.push(event);
  expect(JSON.stringify(events.at(-1)).length).toBeLessThan(1_000);
  expectAlike(said((await loaded(saver))["messages"]), said(added));
});

test.each([
  ["deep inside", 300, (message: BaseMessage) => Object.assign(message.additional_kwargs, { x: number })],
  ["a field", 1_000, (message: BaseMessage) => Object.assign(message, { content: `${number}` })],
] as const)(
  "a change in place is in the next checkpoint while the list grows: %s",
  async (_what, count, change) => {
    const saver = await freshSaver();
    const list = messages(count);
    let last = await put(saver, { messages: list });
    for (let saves = 0; saves < 20; saves++) {
      change(list[(saves * 7) % list.length] as BaseMessage);
      list.push(...messages(1, list.length));
      last = await put(saver, { messages: list }, last);
      expectAlike(said((await loaded(saver))["messages"]), said(list));
    }
  },
);

test("a list that could not be saved has no effect on the next one", async () => {
  const saver = await freshSaver();
  const list: unknown[] = messages(3);
  const first = await put(saver, { list });
  const bad = put(saver, { list: [...list, new HumanMessage("lost"), () => "a function"] }, first);
  await expect(bad).rejects.toMatchObject({ code: "VALUE_NOT_JSON" });
  const kept = [...list, new HumanMessage({ id: "kept", content: "kept" })];
  const second = await put(saver, { list: kept }, first);
  await put(saver, { list: [...kept, "end"] }, second);
  expect(said((await loaded(saver))["list"])).toEqual(said([...kept, "end"]));
});

test("a message in two lists, changed between their saves, is saved in both states", async () => {
  const saver = await freshSaver();
  const [message] = messages(1) as [BaseMessage];
  const first = await put(saver, { one: [message], two: [message] });
  message.additional_kwargs["deep"] = 1;
  const versions = { one: 1, two: 1 };
  const only = async (channel: "one" | "two", after: object) => {
    const id = uuid6(0);
    versions[channel] += 1_000;
    const checkpoint = {
      ...emptyCheckpoint(),
      id,
      channel_values: { one: [message], two: [message] },
      channel_versions: { ...versions },
    };
    const metadata = { source: "loop" as const, step: 1, parents: {} };
    return saver.put(after, checkpoint, metadata, { [channel]: versions[channel] });
  };
  await only("two", await only("one", first));
  const { one, two } = await loaded(saver);
  expect([said(one), said(two)]).toEqual([said([message]), said([message])]);
});

/** mulberry32 */
function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

describe("after any edits of a list between saves, every version loads unchanged", () => {
  const seeds = process.env["HOLDFAST_FULL"] === "1" ? 200 : 4;
  test.each(Array.from({ length: seeds }, (_, seed) => seed))("seed %i", async (seed) => {
    const next = random(seed);
    const any = (count: number) => Math.floor(next() * count);
    const saver = await freshSaver();
    let made = 0;
    const one = (): unknown => {
      made += 1;
      const kinds = [
        ...messages(3, made),
        { plain: made },
        `text ${made}`,
        [0, -0, Number.NaN, null][any(4)],
        { at: new Date(made) },
      ];
      return kinds[any(kinds.length)];
    };
    const changeInPlace = (element: unknown): void => {
      if (element instanceof AIMessage) {
        if (next() < 0.5) element.content = `changed ${made++}`;
        else element.additional_kwargs["deep"] = made++;
      } else if (typeof element === "object" && element) Object.assign(element, { plain: made++ });
    };
    const acts: ((list: unknown[]) => void)[] = [
      (list) => list.push(one()),
      (list) => list.push(one(), one()),
      (list) => list.push(one(), list[any(list.length)]),
      (list) => list.splice(any(list.length + 1), 0, one()),
      (list) => list.splice(any(list.length), 1 + any(3)),
      (list) => list.splice(any(list.length), 1, one()),
      (list) => list.reverse(),
      (list) => changeInPlace(list[any(list.length)]),
      () => undefined,
    ];
    const saved: { at: object; list: unknown[]; said: unknown[] }[] = [];
    let list: unknown[] = [];
    let after: object = config();
    for (let step = 0; step < 60; step++) {
      if (saved.length > 0 && next() < 0.1) {
        const back = saved[any(saved.length)] as (typeof saved)[number];
        // A reader of a checkpoint by id may branch from it.
        const tuple = await saver.getTuple(back.at);
        after = back.at;
        list =
          next() < 0.5
            ? [...back.list]
            : [...((tuple?.checkpoint.channel_values["list"] ?? []) as unknown[])];
      }
      acts[next() < 0.5 ? any(3) : any(acts.length)]?.(list);
      if (list.length > 40) list.splice(0, 20);
      const given = next() < 0.5 ? list : [...list];
      after = await put(saver, { list: given }, after);
      saved.push({ at: after, list: [...list], said: said(list) });
    }
    for (const { at, said: was } of saved) expectAlike(said((await loaded(saver, at))["list"]), was);
    expect(await saver.check()).toEqual([]);
  });
});
