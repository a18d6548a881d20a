// The facet preview looks at events before they are folded. Afterwards it must agree with the folded state.

import fc from "fast-check";
import { expect, test } from "vitest";
import { openCallsOf, type SessionState, sessionKind } from "../../../src/model/session/index.ts";
import { applyEvent, type Draft, makeEvent } from "../../../src/model/stream/index.ts";

const callId = fc.constantFrom("c1", "c2", "c3");
const amounts = fc.record({ usd: fc.integer({ min: 0, max: 9 }) });
const draft = (type: string, data: fc.Arbitrary<unknown>): fc.Arbitrary<Draft> =>
  data.map((each) => ({ type, data: each }));

const issued = fc.record({
  callId,
  messageId: fc.constant(null),
  tool: fc.constant("charge"),
  effect: fc.constant("mutate"),
  scope: fc.constantFrom("session", "global"),
  args: fc.constant({}),
  key: fc.constantFrom("k1", "k2"),
  vendorKey: fc.constant("v"),
  failures: fc.constant(0),
  attempt: fc.constant(1),
  token: fc.constant(1),
});
const result = fc.constant({ value: 1 });
const error = fc.constant({ message: "no" });
const attempt = fc.constant(1);
const why = fc.constant("why");
const description = fc.record(
  {
    title: fc.option(fc.constantFrom("a", "b")),
    goal: fc.option(fc.constantFrom("g", "h")),
    ttlMs: fc.option(fc.constantFrom(1_000, 2_000)),
  },
  { requiredKeys: [] },
);
const status = fc.record({
  status: fc.constantFrom("active", "completed", "failed"),
  why: fc.constant(null),
  by: fc.constant(null),
});
const failed = fc.record({ callId, attempt, error, by: fc.constantFrom("definite", "presumed") });
const reserved = fc.record({ id: callId.map((id) => `child:${id}`), amounts });
const promptId = fc.constantFrom("p1", "p2", "p3");
const text = { kind: "text", text: "Go" };
const message = { role: "user", createdAt: "2026-01-01T00:00:00.000Z", blocks: [text] };
const anyDraft = fc.oneof(
  draft("session.described", description),
  draft("session.status", status),
  draft("call.issued", issued),
  draft("call.completed", fc.record({ callId, attempt, result, by: fc.constant("execute") })),
  draft("call.failed", failed),
  draft("call.lost", fc.record({ callId, attempt, why })),
  draft("call.waiting", fc.record({ callId, why })),
  draft("budget.limited", fc.record({ limits: amounts })),
  draft("budget.reserved", reserved),
  draft("budget.spent", fc.record({ amounts })),
  draft("prompt.queued", fc.record({ id: promptId, blocks: fc.constant([text]), by: fc.constant("ann") })),
  draft("message", fc.record({ message: promptId.map((id) => ({ ...message, id })) })),
);

/** The facets as the state itself implies them; `undefined` members are not compared. */
function facetsOf(state: SessionState): Record<string, unknown> {
  const { status, title, goal, ttlMs, updatedAt } = state;
  const expiresAt = ttlMs === null ? null : updatedAt + ttlMs;
  return { status, title, goal, openCalls: openCallsOf(state).length, expiresAt };
}

test("facets and items of any writes agree with the folded state", () => {
  let [legal, illegal] = [0, 0];
  fc.assert(
    fc.property(fc.array(fc.array(anyDraft, { minLength: 1, maxLength: 3 }), { maxLength: 12 }), (writes) => {
      const state = sessionKind.initial();
      const facets: Record<string, unknown> = {
        status: "active",
        title: null,
        goal: null,
        openCalls: 0,
        expiresAt: null,
      };
      const statuses = new Map<string, unknown>();
      const queued = new Map<string, boolean>();
      let seq = 0;
      for (const drafts of writes) {
        const at = 1_000 * (seq + 1);
        const events = drafts.map((each) => makeEvent(sessionKind, each, at));
        const fold = (into: SessionState) => {
          events.forEach((each, index) => {
            applyEvent(sessionKind, into, each, seq + 1 + index);
          });
        };
        let change: ReturnType<NonNullable<typeof sessionKind.facets>> | undefined;
        try {
          change = sessionKind.facets?.(state, events, seq + 1);
        } catch {
          // The preview rejects a write: the fold must reject it as well.
          illegal += 1;
          const copy = sessionKind.decode(JSON.parse(JSON.stringify(sessionKind.encode(state))));
          expect(() => fold(copy)).toThrow();
          continue;
        }
        fold(state);
        legal += 1;
        seq += events.length;
        Object.assign(facets, change?.facets);
        for (const { kind, id, status } of change?.items ?? []) {
          if (kind === "call" && status !== undefined) statuses.set(id, status);
          if (kind === "prompt") queued.set(id, status === "queued");
        }
        const open = [...queued].filter(([, isOpen]) => isOpen).map(([id]) => id);
        expect(new Set(open)).toEqual(new Set(state.prompts.map(({ id }) => id)));
        const { budget, ...rest } = facets;
        expect(rest).toEqual(facetsOf(state));
        const spent = (state.budget.spent.usd ?? 0) + reservedUsd(state);
        expect(budget === undefined || budget === null ? 0 : JSON.parse(String(budget)).usd.spent).toBe(
          spent,
        );
        expect(statuses).toEqual(
          new Map([...state.calls.values()].map((call) => [call.callId, call.status])),
        );
      }
    }),
    { numRuns: 500 },
  );
  expect(Math.min(legal, illegal)).toBeGreaterThan(300);
});

function reservedUsd({ budget }: SessionState): number {
  return Object.values(budget.reserved).reduce((sum, { usd = 0 }) => sum + usd, 0);
}
