// The views for people, on every SQL store: a person with a shell reads everything without the library.

import { beforeEach, expect, test } from "vitest";
import { sessionKind } from "../../src/model/session/index.ts";
import { applyEvent, type Event } from "../../src/model/stream/index.ts";
import type { Store } from "../../src/store.ts";
import { viewedRows, writeViewedGoal } from "../goal/viewed-goal.ts";
import { append, sumOf, write } from "./sqlite/acts.ts";

const AT = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
export const ISO = "2026-01-02T03:04:05.678Z";

function event(type: string, data: object): object {
  return { type, v: 1, at: AT, data };
}

function message(id: string, role: string, ...texts: string[]): object {
  const blocks = texts.map((text) => ({ kind: "text", text }));
  return event("message", { message: { id, role, createdAt: ISO, blocks } });
}

export interface ViewSubject {
  open(): Promise<Store>;
  /** Rows of a view; numbers are numbers. */
  query(sql: string): Promise<unknown[]>;
  /** The SQL function for the length of a JSON array. */
  readonly arrayLength: string;
  /** A JSON value as `query` returns it. */
  json(value: unknown): unknown;
  /** A boolean as `query` returns it. */
  flag(value: boolean): unknown;
}

export function testViews(subject: ViewSubject): void {
  let store: Store;

  beforeEach(async () => {
    store = await subject.open();
    const facets = {
      status: "active",
      title: "Pay order 4711",
      goal: "checkout",
      openCalls: 1,
      expiresAt: AT,
      budget: '{"usd":{"spent":1.5,"limit":20},"tokens":{"spent":7,"limit":null}}',
    };
    const events = [
      message("m1", "user", "Pay order 4711"),
      message("m2", "assistant", "First", "second"),
      event("call.issued", { callId: "c1", args: { order: 4711 } }),
      event("call.issued", { callId: "c2", args: "plain" }),
    ];
    const items = [
      {
        kind: "call",
        id: "c1",
        seq: 3,
        status: "issued",
        name: "charge",
        key: "key-1",
        at: AT,
        doneAt: null,
      },
      { kind: "call", id: "c2", seq: 4, status: "issued", name: "look", key: "key-2", at: AT, doneAt: null },
    ];
    await append(store, write("session/a", 0, events, { at: AT, facets, items }));
    const more = [
      event("call.completed", { callId: "c1", result: { value: "paid" } }),
      event("checkpoint", {}),
    ];
    const settled = [
      { kind: "call", id: "c1", endSeq: 5, status: "completed", doneAt: AT },
      { kind: "checkpoint", id: "1", seq: 6, name: "paid", status: "kept", at: AT, doneAt: AT },
      { kind: "checkpoint", id: "2", seq: 6, status: "deleted", at: AT, doneAt: AT },
    ];
    await append(store, write("session/a", 4, more, { at: AT, items: settled }));
  });

  test("sessions", async () => {
    expect(await subject.query("SELECT * FROM sessions")).toEqual([
      {
        session_id: "a",
        namespace: "default",
        status: "active",
        title: "Pay order 4711",
        goal: "checkout",
        created_at: ISO,
        updated_at: ISO,
        open_calls: 1,
        expires_at: ISO,
        forked_from: null,
        seq: 6,
      },
    ]);
  });

  test("checkpoints, without those that were deleted", async () => {
    expect(
      await subject.query("SELECT session_id, version, created_at, label, seq FROM checkpoints"),
    ).toEqual([{ session_id: "a", version: 1, created_at: ISO, label: "paid", seq: 6 }]);
  });

  test("checkpoints have the plan and the budget that a fold to their position has", async () => {
    const plan = (title: string) => event("plan.set", { plan: { title, steps: [] } });
    const version = (number: number) => event("checkpoint", { version: number, label: null });
    const events = [
      version(1),
      plan("first"),
      event("budget.limited", { limits: { usd: 20, tokens: 1_000 } }),
      event("budget.spent", { amounts: { usd: 0.1, tokens: 7 } }),
      version(2),
      event("budget.reserved", { id: "r", amounts: { usd: 1 } }),
      event("budget.spent", { amounts: { usd: 0.2, turns: 1 } }),
      version(3),
      event("budget.settled", { id: "r", spent: { usd: 0.5 } }),
      plan("second"),
      event("budget.limited", { limits: { usd: 30, tokens: null } }),
      version(4),
      event("plan.set", { plan: null }),
      version(5),
    ];
    const forked = [plan("other"), event("budget.spent", { amounts: { usd: 3 } }), version(4)];
    const items = (all: readonly object[], base: number) =>
      all.flatMap((each, index) => {
        const { type, data } = each as { type: string; data: { version: number } };
        if (type !== "checkpoint") return [];
        const item = { kind: "checkpoint", status: "kept", at: AT, doneAt: AT };
        return [{ ...item, id: String(data.version), seq: base + index + 1 }];
      });
    await append(store, write("session/v", 0, events, { at: AT, items: items(events, 0) }));
    const fork = { stream: "session/v", generation: 1, seq: 8 };
    await append(store, write("session/w", 8, forked, { at: AT, fork, items: items(forked, 8) }));
    const folded = (all: readonly object[]) => {
      const state = sessionKind.initial();
      let budget: unknown = null;
      return all.flatMap((each, index) => {
        const { facets } = sessionKind.facets?.(state, [each as Event], index + 1) ?? {};
        budget = facets?.budget ? JSON.parse(facets.budget) : budget;
        applyEvent(sessionKind, state, each as Event, index + 1);
        return (each as Event).type === "checkpoint" ? [{ plan: state.plan, budget }] : [];
      });
    };
    const viewed = async (session: string) => {
      const sql = `SELECT plan, budget FROM checkpoints WHERE session_id = '${session}' ORDER BY version`;
      const parsed = (value: unknown) => (typeof value === "string" ? JSON.parse(value) : value);
      return (await subject.query(sql)).map((row) => {
        const { plan, budget } = row as { plan: unknown; budget: unknown };
        return { plan: parsed(plan), budget: parsed(budget) };
      });
    };
    expect(await viewed("v")).toEqual(folded(events));
    expect(await viewed("w")).toEqual(folded([...events.slice(0, 8), ...forked]));
    expect((await viewed("v"))[2]?.budget).toMatchObject({ usd: { spent: 1.3, limit: 20 } });
  });

  test("messages, with their text", async () => {
    const columns = `session_id, seq, message_id, role, created_at, ${subject.arrayLength}(blocks) AS blocks, text`;
    expect(await subject.query(`SELECT ${columns} FROM messages ORDER BY seq`)).toEqual([
      {
        session_id: "a",
        seq: 1,
        message_id: "m1",
        role: "user",
        created_at: ISO,
        blocks: 1,
        text: "Pay order 4711",
      },
      {
        session_id: "a",
        seq: 2,
        message_id: "m2",
        role: "assistant",
        created_at: ISO,
        blocks: 2,
        text: "First\nsecond",
      },
    ]);
  });

  test("tool calls, with arguments and result from the log", async () => {
    expect(await subject.query("SELECT * FROM tool_calls ORDER BY call_id")).toEqual([
      {
        session_id: "a",
        namespace: "default",
        call_id: "c1",
        tool_name: "charge",
        args: subject.json({ order: 4711 }),
        idempotency_key: "key-1",
        status: "completed",
        result: subject.json({ value: "paid" }),
        started_at: ISO,
        completed_at: ISO,
      },
      {
        session_id: "a",
        namespace: "default",
        call_id: "c2",
        tool_name: "look",
        args: subject.json("plain"),
        idempotency_key: "key-2",
        status: "issued",
        result: null,
        started_at: ISO,
        completed_at: null,
      },
    ]);
  });

  test("budgets, a row for each unit", async () => {
    expect(await subject.query('SELECT session_id, unit, spent, "limit" FROM budgets ORDER BY unit')).toEqual(
      [
        { session_id: "a", unit: "tokens", spent: 7, limit: null },
        { session_id: "a", unit: "usd", spent: 1.5, limit: 20 },
      ],
    );
  });

  test("a fork shows the messages of its shared past, and no later ones of its parent", async () => {
    const fork = { stream: "session/a", generation: 1, seq: 1 };
    await append(store, write("session/b", 1, [message("m9", "user", "Another way")], { fork }));
    expect(
      await subject.query("SELECT seq, message_id FROM messages WHERE session_id = 'b' ORDER BY seq"),
    ).toEqual([
      { seq: 1, message_id: "m1" },
      { seq: 2, message_id: "m9" },
    ]);
    expect(await subject.query("SELECT forked_from FROM sessions WHERE session_id = 'b'")).toEqual([
      { forked_from: "a" },
    ]);
  });

  test("replacement messages are in order, and data that is not a message breaks nothing", async () => {
    const put = (id: string, role: string, text: string) => ({
      id,
      role,
      createdAt: ISO,
      blocks: [{ kind: "text", text }],
    });
    const add = [put("m3", "user", "In short: pay"), put("m4", "assistant", "Yes")];
    const segments = [
      { add },
      { keep: [1, 2] },
      { add: [put("m5", "user", "Go on"), "odd"] },
      "odd",
      7,
      { add: "odd" },
    ];
    const events = [
      event("transcript.replaced", { segments, why: "compacted" }),
      event("transcript.replaced", { segments: "odd" }),
      message("m6", "assistant", "I go on"),
      event("results", { id: "m7", createdAt: ISO, blocks: [{ callId: "c1" }] }),
    ];
    await append(store, write("session/a", 6, events, { at: AT }));
    const columns = "seq, place, event, message_id, role, created_at, text";
    const rows = await subject.query(`SELECT ${columns} FROM messages WHERE seq > 2 ORDER BY seq, place`);
    const at = { created_at: ISO };
    const replaced = { seq: 7, event: "transcript.replaced", ...at };
    expect(rows).toEqual([
      { ...replaced, place: 1, message_id: "m3", role: "user", text: "In short: pay" },
      { ...replaced, place: 2, message_id: "m4", role: "assistant", text: "Yes" },
      { ...replaced, place: 3, message_id: "m5", role: "user", text: "Go on" },
      { seq: 9, place: 1, event: "message", message_id: "m6", role: "assistant", text: "I go on", ...at },
      { seq: 10, place: 1, event: "results", message_id: "m7", role: "tool", text: null, ...at },
    ]);
  });

  test("a fork shows the versions of its shared past, as they were when it forked", async () => {
    const version = (id: string, seq: number) => ({
      kind: "checkpoint",
      id,
      seq,
      status: "kept",
      at: AT,
      doneAt: AT,
    });
    const point = [event("checkpoint", {})];
    await append(store, write("session/a", 6, point, { at: AT, items: [version("3", 7)] }));
    const fork = { stream: "session/a", generation: 1, seq: 7 };
    await append(store, write("session/b", 7, point, { at: AT, fork, items: [version("4", 8)] }));
    // Its parent has a fourth version of its own, and deletes one that both have.
    const later = [version("4", 8), { kind: "checkpoint", id: "3", endSeq: 9, status: "deleted" }];
    await append(
      store,
      write("session/a", 7, [...point, event("checkpoint.deleted", {})], { at: AT, items: later }),
    );
    const second = { stream: "session/b", generation: 1, seq: 8 };
    const gone = [{ kind: "checkpoint", id: "1", endSeq: 9, status: "deleted" }];
    await append(
      store,
      write("session/c", 8, [event("checkpoint.deleted", {})], { at: AT, fork: second, items: gone }),
    );
    const versions = async (session: string) => {
      const sql = `SELECT version, seq FROM checkpoints WHERE session_id = '${session}' ORDER BY version`;
      return (await subject.query(sql)).map((row) => Object.values(row as object));
    };
    expect(await versions("a")).toEqual([
      [1, 6],
      [4, 8],
    ]);
    expect(await versions("b")).toEqual([
      [1, 6],
      [3, 7],
      [4, 8],
    ]);
    expect(await versions("c"), "without the version that it deleted itself").toEqual([
      [3, 7],
      [4, 8],
    ]);
  });

  test("encoded payloads show no content and break no query", async () => {
    const item = {
      kind: "call",
      id: "c",
      seq: 1,
      endSeq: 1,
      status: "completed",
      name: "charge",
      at: AT,
      doneAt: AT,
    };
    const version = { kind: "checkpoint", id: "1", seq: 1, status: "kept", at: AT, doneAt: AT };
    const odd = '[{"type":"plan.set"},{"type":"budget.spent","data":{"amounts":"odd"}},"plan.set"]';
    const payloads = [Buffer.from([1, 2, 3]), "not JSON [", "\0 \ud800", '"a JSON text"', odd];
    for (const [index, payload] of payloads.entries()) {
      const parts = {
        payload,
        sum: sumOf(payload),
        codec: index === 0 ? "cipher" : null,
        items: [item, version],
      };
      await append(store, write(`session/odd${index}`, 0, [1], { ...parts, facets: { budget: "[" } }));
    }
    expect(
      await subject.query("SELECT count(*) AS count FROM messages WHERE session_id LIKE 'odd%'"),
    ).toEqual([{ count: 0 }]);
    expect(await subject.query("SELECT count(*) AS count FROM budgets WHERE session_id LIKE 'odd%'")).toEqual(
      [{ count: 0 }],
    );
    const calls = await subject.query("SELECT args, result FROM tool_calls WHERE session_id LIKE 'odd%'");
    expect(calls).toEqual(payloads.map(() => ({ args: null, result: null })));
    const versions = await subject.query("SELECT plan, budget FROM checkpoints WHERE session_id LIKE 'odd%'");
    expect(versions).toEqual(payloads.map(() => ({ plan: null, budget: null })));
  });

  test("a removed session is in no view", async () => {
    const expected = { generation: 1, seq: 6 };
    await store.remove({ of: "stream", namespace: "default", stream: "session/a", expect: expected });
    for (const view of ["sessions", "checkpoints", "messages", "tool_calls", "budgets"]) {
      expect(await subject.query(`SELECT * FROM ${view}`)).toEqual([]);
    }
  });

  test("goals with their position, tasks, decisions, blockers and session history", async () => {
    await writeViewedGoal(store, AT);
    for (const [view, rows] of Object.entries(viewedRows(ISO, subject.json, subject.flag))) {
      const found = await subject.query(`SELECT * FROM ${view} ORDER BY 3`);
      expect({ view, found }).toEqual({ view, found: rows });
    }
  });

  test("a goal whose events a codec encodes shows names and position, and no other text", async () => {
    const codec = {
      name: "reversed",
      encode: (text: string) => [...text].reverse().join(""),
      decode: (payload: string | Uint8Array) => [...String(payload)].reverse().join(""),
    };
    await writeViewedGoal(store, AT, [codec]);
    const none = { context: null, reason: null, alternatives: null, reversible: null, date: null };
    const decisions = "SELECT context, reason, alternatives, reversible, date FROM decisions";
    expect(await subject.query(decisions)).toEqual([none, none]);
    expect(await subject.query("SELECT workaround FROM blockers WHERE workaround IS NOT NULL")).toEqual([]);
    expect(await subject.query("SELECT agent, handoff_reason FROM session_history ORDER BY 1")).toEqual([
      { agent: "claude", handoff_reason: null },
      { agent: "codex", handoff_reason: null },
    ]);
    expect(await subject.query("SELECT current_task FROM initiative_state")).toEqual([
      { current_task: "T-001" },
    ]);
  });
}
