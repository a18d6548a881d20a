import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { canonicalText } from "../../src/model/json.ts";
import type { Message } from "../../src/model/session/index.ts";
import { type Holdfast, open } from "../../src/open.ts";
import { PLACES, type Place, storedBytes } from "../journal/places.ts";
import { anyContent, anyEdit, edited } from "../model/session/transcripts.ts";

/** Bytes of a write beside the new messages: its frame, per new message, and per run of kept messages. */
const FRAME = 400;
const PER_NEW = 90;
const PER_KEPT = 24;

describe.each(Object.entries(PLACES))("saving a whole transcript on %s", (_, makePlace) => {
  let place: Place;
  let holdfast: Holdfast;

  beforeEach(async () => {
    place = await makePlace();
    holdfast = await open(undefined, { store: place.store });
  });

  afterEach(() => place.dispose());

  const message = (id: string, text: string): Message => ({
    id,
    role: "user",
    createdAt: "2026-07-28T10:00:00Z",
    blocks: [{ kind: "text", text }],
  });

  async function cost(act: () => Promise<unknown>): Promise<number> {
    const before = await storedBytes(place.store, "session/s");
    await act();
    return (await storedBytes(place.store, "session/s")) - before;
  }

  test("stores each message once, however often it is saved", async () => {
    const session = await holdfast.session("s");
    const transcript: Message[] = [];
    for (let count = 0; count < 10; count++) {
      transcript.push(message(`m${count}`, "x".repeat(2_000)));
      // A deep copy, as from a caller with objects of its own.
      const copy = structuredClone(transcript);
      expect(await cost(() => session.save({ messages: copy }))).toBeLessThan(2_000 + FRAME);
    }
    expect(await cost(() => session.save({ messages: structuredClone(transcript) }))).toBeLessThan(FRAME);
    expect(session.messages).toEqual(transcript);
    expect(session.version).toBe(11);
  });

  test.each<[string, (old: Message[]) => Message[], number]>([
    ["an edited message", (old) => old.with(3, message("m3", "y".repeat(500))), 500],
    ["a reordered transcript", (old) => old.toReversed(), 0],
    ["a shortened one", (old) => old.slice(0, 4), 0],
    ["an emptied one", () => [], 0],
    ["a compacted one", (old) => [message("sum", "z".repeat(300)), ...old.slice(6)], 300],
    ["one with a message in between", (old) => old.toSpliced(5, 0, message("new", "n".repeat(100))), 100],
    ["one with a message twice", (old) => [...old, old[0] as Message], 2_000],
  ])("stores only what is new of %s", async (_name, change, fresh) => {
    const session = await holdfast.session("s");
    const old = Array.from({ length: 10 }, (_each, index) => message(`m${index}`, `${index}`.repeat(2_000)));
    await session.save({ messages: old });
    const next = change(old);
    const messages = structuredClone(next);
    expect(await cost(() => session.save({ messages }))).toBeLessThan(fresh + FRAME + 10 * PER_KEPT);
    expect(session.messages).toEqual(next);
    const again = await open(undefined, { store: await place.another() });
    expect((await again.sessions.get("s")).messages).toEqual(next);
    expect((await again.sessions.at("s", 1)).messages).toEqual(old);
  });

  test("takes the running total that was spent: a repeated or smaller total counts nothing", async () => {
    const session = await holdfast.session("s");
    for (const usd of [0.1, 0.3, 0.3, 0.2, 0.7]) await session.save({ messages: [], spent: { usd } });
    expect(session.budget.spent).toEqual({ usd: 0.7 });
    await session.save({ messages: [], spent: { usd: 0.7, turns: 2 } });
    expect((await holdfast.sessions.get("s")).budget.spent).toEqual({ usd: 0.7, turns: 2 });
    const wrong = session.save({ messages: [], spent: { usd: Number.NaN } });
    await expect(wrong).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(session.version).toBe(6);
  });

  test("a rejected transcript changes nothing", async () => {
    const session = await holdfast.session("s");
    await session.save({ messages: [message("m", "a")] });
    const bad = { ...message("n", "b"), blocks: [{ kind: "video" }] };
    expect(await cost(() => session.save({ messages: [bad] }).catch(() => null))).toBe(0);
    expect(session.messages).toEqual([message("m", "a")]);
    expect(session.version).toBe(1);
  });

  test("any edited transcript comes back exactly, and stores only what is new", async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(anyContent, { maxLength: 6 }),
        fc.array(fc.array(anyEdit, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 5 }),
        async (first, saves) => {
          const id = `run-${++run}`;
          const stream = `session/${id}`;
          let count = 0;
          const newId = () => `m${++count}`;
          const session = await holdfast.session(id);
          let old: Message[] = first.map((content) => ({ id: newId(), ...content }));
          await session.save({ messages: old });
          for (const edits of saves) {
            const next = edits.reduce<Message[]>((all, edit) => edited(all, edit, newId), old);
            const known = new Set(old.map(canonicalText));
            const fresh = next.filter((each) => !known.has(canonicalText(each)));
            const repeated = next.length - new Set(next.map(canonicalText)).size;
            const before = await storedBytes(place.store, stream);
            await session.save({ messages: structuredClone(next) });
            const bytes = (await storedBytes(place.store, stream)) - before;
            const size = (messages: readonly Message[]) =>
              messages.reduce((sum, each) => sum + JSON.stringify(each).length, 0);
            const bound = FRAME + size(fresh) + PER_NEW * fresh.length + PER_KEPT * (next.length + 1);
            // A message that a transcript has twice may be stored twice when it is appended.
            const longest = Math.max(0, ...next.map((each) => size([each]) + PER_NEW));
            expect(bytes).toBeLessThanOrEqual(bound + repeated * longest);
            expect(session.messages).toStrictEqual(next);
            old = next;
          }
          const detail = await holdfast.sessions.get(id);
          expect(detail.messages).toStrictEqual(old);
          expect(detail.version).toBe(saves.length + 1);
          await session.close();
        },
      ),
      { numRuns: process.env["HOLDFAST_FULL"] ? 25 : 12 },
    );
  });
});
