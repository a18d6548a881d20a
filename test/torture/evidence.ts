import type { Call } from "../../src/model/session/index.ts";
import type { Ack } from "../../torture/acks.ts";
import type { Logged, SessionLog } from "../../torture/checker/evidence.ts";
import type { Evidence, Violation } from "../../torture/checker/index.ts";
import { RULES } from "../../torture/checker/index.ts";
import { EXIT, type ToolName } from "../../torture/scenario.ts";
import type { WorldEntry } from "../../torture/world/log.ts";

/** The three records of a run in which one call of one tool went well. Tests then spoil one of them. */
export interface Story {
  readonly tool: ToolName;
  events: { type: string; batch: string; data: Record<string, unknown> }[];
  world: WorldEntry[];
  acks: Ack[];
  calls: Partial<Call>[] | null;
  ended: number | null;
}

const CALL = "c0";
export const ISSUED = {
  callId: CALL,
  messageId: "m1",
  args: { item: "x" },
  vendorKey: "hf_1",
  attempt: 1,
  token: 1,
};

export function goodStory(tool: ToolName = "keyed"): Story {
  const pid = 1;
  const message = {
    id: "m1",
    role: "assistant",
    createdAt: "2026-01-01T00:00:00Z",
    blocks: [{ kind: "tool_call", id: CALL, name: tool, args: { item: "x" } }],
  };
  const result = { value: "receipt 1" };
  return {
    tool,
    events: [
      { type: "session.taken", batch: "b1", data: { token: 1 } },
      { type: "message", batch: "b2", data: { message } },
      { type: "call.issued", batch: "b3", data: { ...ISSUED, tool } },
      { type: "call.completed", batch: "b4", data: { callId: CALL, attempt: 1, result, by: "execute" } },
    ],
    world: [effect(tool)],
    acks: [
      { t: "granted", pid, name: "session/s", token: 1 },
      append(1),
      append(2),
      append(3),
      { t: "start", pid, session: "s", callId: CALL, attempt: 1 },
      append(4),
      { t: "saw", pid, session: "s", callId: CALL, content: "receipt 1" },
      { t: "result", pid, session: "s", status: "done", reason: "answered", persons: 0 },
    ],
    calls: [{ callId: CALL, status: "completed", result, error: null, repeats: null }],
    ended: EXIT.done,
  };
}

export function append(seq: number, token = 1): Extract<Ack, { t: "append" }> {
  return {
    t: "append",
    pid: 1,
    stream: "session/s",
    batch: `b${seq}`,
    first: seq,
    last: seq,
    sum: seq,
    token,
  };
}

export function effect(tool: string, changes: Partial<WorldEntry> = {}): WorldEntry {
  const call = { callId: CALL, session: "s", attempt: 1, token: 1, key: "hf_1", item: "x" };
  return { kind: "effect", tool, result: "receipt 1", ...call, ...changes };
}

/** The invariants that the checker reports as broken. */
export function broken(story: Story, rules = RULES): string[] {
  const evidence = evidenceOf(story);
  const found: Violation[] = Object.values(rules).flatMap((rule) => rule(evidence));
  return [...new Set(found.map((violation) => violation.invariant))];
}

export function evidenceOf(story: Story): Evidence {
  const events = story.events.map((event, index): Logged => ({ seq: index + 1, at: 0, ...event }));
  const session: SessionLog = {
    id: "s",
    events,
    calls: story.calls as Call[] | null,
    foldError: story.calls ? null : "call c0 is completed: it cannot fail",
  };
  return {
    scenario: { name: "one", turns: [[{ tool: story.tool, item: "x" }]], parallel: 1 },
    sessions: [session],
    writes: events.map(({ seq, batch }) => ({ stream: "session/s", first: seq, last: seq, batch, sum: seq })),
    problems: [],
    world: story.world,
    acks: story.acks,
    ended: story.ended,
  };
}
