/**
 * Random legal histories of a session. At every position, the snapshot and the later events lead to the same
 * state as all events (I10), and the facet preview changes nothing.
 */

import fc from "fast-check";
import { expect, test } from "vitest";
import { isHoldfastError } from "../../../src/model/errors.ts";
import type { Json } from "../../../src/model/json.ts";
import { compareTranscripts, type SessionState, sessionKind } from "../../../src/model/session/index.ts";
import { applyEvent, type Draft, type Event, makeEvent } from "../../../src/model/stream/index.ts";
import { anyContent, anyEdit, anyText, type Edit, edited } from "./transcripts.ts";

interface Choice {
  readonly pick: number;
  readonly call: number;
  readonly number: number;
  readonly text: string;
  readonly edit: Edit;
}

const anyChoice: fc.Arbitrary<Choice> = fc.record({
  pick: fc.nat(1_000),
  call: fc.nat(3),
  number: fc.nat(9),
  text: anyText,
  edit: anyEdit,
});

type Making = (state: SessionState, choice: Choice, newId: () => string) => Draft["data"] | null;

const callOf = ({ call }: Choice) => ({ callId: `call-${call}`, attempt: 1 });
const issued = (choice: Choice) => ({
  ...callOf(choice),
  messageId: null,
  tool: "pay",
  effect: (["read", "write", "mutate"] as const)[choice.number % 3],
  scope: "session",
  args: { text: choice.text },
  key: `key-${choice.number % 2}`,
  vendorKey: `vendor-${choice.number}`,
});

/** Data for every type of event; null if the state has no subject for it. */
const MAKINGS: Readonly<Record<keyof typeof sessionKind.events, Making>> = {
  "session.opened": (_, { text }) => ({ title: text, metadata: { [text]: text }, ttlMs: 1_000 }),
  "session.described": (_, { text, number }) => ({ goal: text, ttlMs: number === 0 ? null : number }),
  "session.status": (_, { number, text }) => ({
    status: (["active", "completed", "failed", "cancelled"] as const)[number % 4],
    why: text,
    by: null,
  }),
  "session.forked": (state, { number }) =>
    number < 8 ? null : { session: "parent", version: state.version, seq: 1, live: number === 9 },
  "session.effects": () => ({ effects: "live" }),
  "session.taken": (_, { text }) => ({ owner: text, token: 1, host: "host", pid: 1, from: null }),
  message: (_, { edit }, newId) => ("content" in edit ? { message: { id: newId(), ...edit.content } } : null),
  results: (_, choice, newId) => ({
    id: newId(),
    createdAt: "2026-07-28T10:00:00Z",
    blocks: [
      { callId: `call-${choice.call}` },
      { kind: "tool_result", callId: `call-${choice.call}`, content: choice.text },
    ],
  }),
  "transcript.replaced": (state, { edit }, newId) => {
    const change = compareTranscripts(state.messages, edited(state.messages, edit, newId));
    return change.kind === "replaced" ? { segments: change.segments } : null;
  },
  "system.set": (_, { text }) => ({ text }),
  "plan.set": (_, { text, number }) => ({
    plan:
      number === 0
        ? null
        : {
            steps: [
              { id: text || "1", description: text, status: "done", postconditions: [text], evidence: [] },
            ],
          },
  }),
  "budget.limited": (_, { number }) => ({ limits: { usd: number === 0 ? null : number } }),
  "budget.reserved": (_, { call, number }) => ({ id: `call-${call}`, amounts: { usd: number / 10 } }),
  "budget.settled": (_, { call, number }) => ({
    id: `call-${call}`,
    spent: { usd: number / 10, tokens: number },
  }),
  "budget.spent": (_, { number }) => ({ amounts: { turns: number } }),
  checkpoint: (state, { text }) => ({ version: state.version + 1, label: text || null }),
  "checkpoint.deleted": (state) => (state.version === 0 ? null : { version: state.version }),
  "prompt.queued": (_, { text }, newId) => ({ id: newId(), blocks: [{ kind: "text", text }], by: "someone" }),
  "call.issued": (_, choice) => ({ ...issued(choice), failures: 0, token: 1 }),
  "call.completed": (_, choice) => ({ ...callOf(choice), result: { value: choice.text }, by: "execute" }),
  "call.failed": (_, choice) => ({
    ...callOf(choice),
    error: { message: choice.text },
    by: "definite",
    tool: "pay",
  }),
  "call.lost": (_, choice) => ({ ...callOf(choice), why: choice.text }),
  "call.verified": (_, choice) => ({ ...callOf(choice), answer: choice.number < 5 ? "notYet" : "error" }),
  "call.waiting": (_, { call, text }) => ({ callId: `call-${call}`, why: text }),
  "call.approved": (_, { call, text, number }) => ({
    callId: `call-${call}`,
    person: "someone",
    why: text,
    ...(number > 5 && { args: { changed: text }, until: number }),
  }),
  "call.granted": (_, { call, text }) => ({ callId: `call-${call}`, person: "someone", why: text }),
  "call.repeated": (_, choice) => {
    const { messageId, tool, effect, args, key } = issued(choice);
    const of = { session: "s", callId: "call-0" };
    return { callId: `again-${choice.number}`, messageId, tool, effect, args, key, of, since: 5 };
  },
};

type Type = keyof typeof MAKINGS;

const TYPES = Object.keys(sessionKind.events) as Type[];

/** The state after a round trip through a snapshot. */
function snapshot(state: SessionState): string {
  return JSON.stringify(sessionKind.encode(state));
}

function restored(text: string): SessionState {
  return sessionKind.decode(JSON.parse(text) as Json);
}

/** An event of this type; null if it is not legal now. */
function eventFor(type: Type, state: SessionState, choice: Choice, seq: number): Event | null {
  const data = MAKINGS[type](state, choice, () => `id-${seq}`);
  if (data === null) return null;
  const made = makeEvent(sessionKind, { type, data }, 1_000 + seq);
  try {
    sessionKind.facets?.(state, [made], seq);
    return JSON.parse(JSON.stringify(made)) as Event;
  } catch (error) {
    // An illegal transition: the log never gets such an event.
    if (!isHoldfastError(error, "CALL_TRANSITION")) throw error;
    return null;
  }
}

/** A legal history, with a snapshot before each event and one at the end. */
function historyOf(choices: readonly Choice[]): {
  events: Event[];
  snapshots: string[];
  state: SessionState;
} {
  const state = sessionKind.initial();
  const events: Event[] = [];
  const snapshots = [snapshot(state)];
  for (const choice of choices) {
    const seq = events.length + 1;
    // The chosen type, or the next legal one.
    let made: Event | null = null;
    for (let skip = 0; !made; skip++) {
      made = eventFor(TYPES[(choice.pick + skip) % TYPES.length] as Type, state, choice, seq);
    }
    expect(snapshot(state)).toBe(snapshots.at(-1));
    applyEvent(sessionKind, state, made, seq);
    events.push(made);
    snapshots.push(snapshot(state));
  }
  return { events, snapshots, state };
}

const EDIT: Edit = {
  act: "append",
  at: 0,
  content: { role: "user", createdAt: "2026-07-28T10:00:00Z", blocks: [] },
};

/** Uses every type of event once, so that none is missed by chance. */
const EVERY_TYPE: readonly Choice[] = [
  ...TYPES.filter((type) => !type.startsWith("call.") && type !== "transcript.replaced"),
  "transcript.replaced" as const,
  ...(
    [
      "issued",
      "lost",
      "verified",
      "waiting",
      "approved",
      "waiting",
      "granted",
      "completed",
      "repeated",
    ] as const
  ).map((act) => `call.${act}` as const),
].map((type) => ({
  pick: TYPES.indexOf(type),
  call: 0,
  number: 9,
  text: "x",
  edit: { ...EDIT, act: "insert" },
}));

const FAILING: Choice = { pick: TYPES.indexOf("call.failed"), call: 1, number: 1, text: "x", edit: EDIT };

test("at every position, a snapshot and the events after it equal all events", () => {
  const met = new Set<string>();
  fc.assert(
    fc.property(fc.array(anyChoice, { maxLength: 40 }), (choices) => {
      const { events, snapshots, state } = historyOf(choices);
      for (const each of events) met.add(each.type);
      for (const [position, text] of snapshots.entries()) {
        const later = restored(text);
        expect(snapshot(later)).toBe(text);
        expect(sessionKind.leastLength?.(later)).toBeLessThanOrEqual(text.length);
        for (const [index, each] of events.slice(position).entries()) {
          applyEvent(sessionKind, later, each, position + index + 1);
        }
        expect(snapshot(later)).toBe(snapshots.at(-1));
        expect(later).toStrictEqual(state);
      }
    }),
    { numRuns: process.env["HOLDFAST_FULL"] ? 100 : 50, examples: [[[...EVERY_TYPE, FAILING]]] },
  );
  expect([...met].sort()).toEqual([...TYPES].sort());
});

test("any generated transcript is valid", () => {
  fc.assert(
    fc.property(anyContent, (content) => {
      const draft = { type: "message", data: { message: { id: "m", ...content } } };
      expect(makeEvent(sessionKind, draft, 0).data).toStrictEqual(draft.data);
    }),
  );
});
