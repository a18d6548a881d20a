/**
 * A session's timeline, computed from its events.
 *
 *     lane   the time in which one process held the session (its lease's token)
 *     bar    a model call, an attempt of a tool, a look by `verify`, a wait for a person, a repeat
 *     gap    from the last sign of life of a lost process to the next one
 *
 * A repeat is never drawn as an attempt, nor is a call that waits for an approval: nothing ran. An attempt
 * that a crash cut off ends with its lane.
 */

import * as z from "zod";
import type { Event } from "../model/stream/index.ts";
import { iso, isoOrNull, time } from "./record-views.ts";
import type { HeldBy } from "./session-views.ts";

const text = z.string();

const lane = z.strictObject({
  token: z.int(),
  /** The owner's label, or null if it took the session before the first event that was read. */
  owner: text.nullable(),
  host: text.nullable(),
  pid: z.int().nullable(),
  from: time,
  until: time.nullable(),
  crashed: z.boolean(),
  /** Why this counts as a crash: `pid 812 on box is gone`. */
  evidence: text.nullable(),
});

const BAR_KINDS = ["model", "tool", "verify", "wait", "repeat", "gap"] as const;

const bar = z.strictObject({
  kind: z.enum(BAR_KINDS),
  token: z.int(),
  seq: z.int(),
  from: time,
  /** Null while it lasts. */
  until: time.nullable(),
  label: text,
  call: text.nullable(),
  effect: text.nullable(),
  status: text,
  attempt: z.int().nullable(),
  /** The person whose answer ended a wait. */
  answeredBy: text.nullable(),
});

/** The cost of one turn. */
const turn = z.strictObject({
  seq: z.int(),
  at: time,
  usd: z.number(),
  tokens: z.number(),
  /** The answer did not arrive, so the reservation counts as spent. */
  lost: z.boolean(),
});

export const timeline = z.strictObject({
  session: text,
  first: z.int(),
  last: z.int(),
  /** Pass it as `before` to see earlier events; null if this is the beginning. */
  earlier: z.int().nullable(),
  now: time,
  lanes: z.array(lane),
  bars: z.array(bar),
  turns: z.array(turn),
});

type Timeline = Omit<z.input<typeof timeline>, "session" | "earlier">;
type LaneView = z.input<typeof lane>;

interface Lane extends Pick<LaneView, "token" | "owner" | "host" | "pid" | "crashed" | "evidence"> {
  from: number;
  /** The last event of this lane: its last sign of life. */
  seen: number;
  until: number | null;
}

interface Bar {
  kind: (typeof BAR_KINDS)[number];
  token: number;
  seq: number;
  from: number;
  until: number | null;
  label: string;
  call: string | null;
  effect: string | null;
  status: string;
  attempt: number | null;
  answeredBy: string | null;
}

type Data = Readonly<Record<string, unknown>>;

/** Events that people or other processes write, so they prove nothing about the holder of the session. */
const FROM_OUTSIDE = ["prompt.queued", "call.granted", "session.effects", "session.forked"];

/** The ends of a wait for a person; all but the last two also end an attempt. */
const SETTLING = ["call.completed", "call.failed", "call.lost", "call.granted", "call.approved"];

function isFromOutside({ type, data }: Event): boolean {
  const { person, by } = data as Data;
  if (FROM_OUTSIDE.includes(type) || person !== undefined) return true;
  return type === "session.status" && typeof by === "string";
}

class Builder {
  readonly lanes: Lane[] = [];
  readonly bars: Bar[] = [];
  readonly turns: z.input<typeof turn>[] = [];
  private readonly attempts = new Map<string, Bar>();
  private readonly gaps = new Map<Lane, Bar>();
  private readonly waits = new Map<string, Bar>();
  private readonly tools = new Map<string, { tool: string; effect: string | null }>();
  private asked: number | null = null;
  private lastAt = 0;

  add(seq: number, event: Event): void {
    const { at, type } = event;
    const data = event.data as Data;
    if (type === "session.taken") this.take(seq, at, data);
    const current = this.lane(at);
    if (type.startsWith("call.")) this.call(seq, at, type, data);
    else this.other(seq, at, type, data);
    if (!isFromOutside(event) && !current.crashed) current.seen = at;
    this.lastAt = at;
  }

  private lane(at: number): Lane {
    const last = this.lanes.at(-1);
    if (last) return last;
    const unknown = { token: 0, owner: null, host: null, pid: null, crashed: false, evidence: null };
    const made = { ...unknown, from: at, seen: at, until: null };
    this.lanes.push(made);
    return made;
  }

  private take(seq: number, at: number, data: Data): void {
    const { owner, token, host, pid, from } = data as {
      owner: string;
      token: number;
      host: string;
      pid: number;
      from: string | null;
    };
    const before = this.lanes.at(-1);
    if (before) {
      before.until = before.seen;
      if (from !== null) this.crash(before, seq, at, `${from} was lost`);
      const gap = this.gaps.get(before);
      if (gap) gap.until = at;
    }
    this.lanes.push({
      token,
      owner,
      host,
      pid,
      from: at,
      seen: at,
      until: null,
      crashed: false,
      evidence: null,
    });
    this.asked = null;
  }

  /**
   * Marks a lane as crashed; its attempts without an outcome end where it was last seen. An answer for a dead
   * process frees its lease, so the next holder names no previous one: then the lost call is the evidence.
   */
  crash(of: Lane, seq: number, until: number | null, evidence: string): void {
    if (of.crashed) return;
    of.crashed = true;
    of.evidence = evidence;
    of.until = of.seen;
    for (const each of this.attempts.values()) {
      if (each.token !== of.token) continue;
      each.until = Math.max(each.from, of.seen);
      each.status = "unknown";
    }
    const gap = { ...blank("gap", of.token, seq, of.seen), until, label: evidence, status: "crashed" };
    this.gaps.set(of, gap);
    this.bars.push(gap);
  }

  private other(seq: number, at: number, type: string, data: Data): void {
    if (type === "budget.reserved") this.asked = at;
    if (type === "results" || type === "prompt.queued") this.asked = at;
    if (type === "budget.settled" || type === "budget.spent") this.spend(seq, at, data);
    if (type !== "message") return;
    const { role } = data["message"] as { role: string };
    if (role === "assistant") {
      const from = this.asked ?? this.lastAt;
      const token = this.lane(at).token;
      this.bars.push({
        ...blank("model", token, seq, from || at),
        until: at,
        label: "model",
        status: "completed",
      });
    }
    this.asked = role === "assistant" ? null : at;
  }

  private spend(seq: number, at: number, data: Data): void {
    const amounts = (data["spent"] ?? data["amounts"] ?? {}) as { usd?: number; tokens?: number };
    const { usd = 0, tokens = 0 } = amounts;
    this.turns.push({ seq, at: iso(at), usd, tokens, lost: data["lost"] === true });
  }

  private call(seq: number, at: number, type: string, data: Data): void {
    const id = String(data["callId"]);
    if (typeof data["tool"] === "string") {
      this.tools.set(id, { tool: data["tool"], effect: (data["effect"] as string | undefined) ?? null });
    }
    const token = this.lane(at).token;
    const known = this.tools.get(id) ?? { tool: id, effect: null };
    const made = (kind: Bar["kind"], from: number, status: string): Bar => ({
      ...blank(kind, token, seq, from),
      label: known.tool,
      effect: known.effect,
      call: id,
      status,
    });
    if (type === "call.issued") {
      const attempt = { ...made("tool", at, "issued"), attempt: data["attempt"] as number };
      this.attempts.set(id, attempt);
      this.bars.push(attempt);
    }
    if (type === "call.repeated") this.bars.push({ ...made("repeat", at, "repeated"), until: at });
    if (type === "call.verified") {
      const from = Math.max(this.lane(at).from, this.lastAt);
      this.bars.push({ ...made("verify", from, String(data["answer"])), until: at });
    }
    if (type === "call.waiting") {
      const wait = made("wait", at, "waiting");
      this.waits.set(id, wait);
      this.bars.push(wait);
    }
    if (SETTLING.includes(type)) this.settle(id, at, type, data);
  }

  private settle(id: string, at: number, type: string, data: Data): void {
    const wait = this.waits.get(id);
    if (wait) {
      wait.until = at;
      wait.status = type.slice("call.".length);
      wait.answeredBy = typeof data["person"] === "string" ? data["person"] : null;
      this.waits.delete(id);
    }
    const attempt = this.attempts.get(id);
    if (!attempt || type === "call.granted" || type === "call.approved") return;
    if (data["started"] === false) {
      // It waits for an approval, or its tool is missing: nothing ran.
      this.bars.splice(this.bars.indexOf(attempt), 1);
      this.attempts.delete(id);
      return;
    }
    const of = this.lanes.find(({ token }) => token === attempt.token);
    if (of && data["gone"] === true)
      this.crash(of, attempt.seq, null, `${of.owner ?? "its process"} was lost`);
    attempt.status = type === "call.lost" ? "unknown" : type.slice("call.".length);
    // The outcome may be found out later, by `verify` or a person: the attempt itself ended before.
    const isOwn =
      data["by"] === undefined || ["execute", "definite", "presumed", "late"].includes(String(data["by"]));
    if (attempt.until === null && isOwn) attempt.until = at;
    if (type === "call.lost") return;
    attempt.until ??= at;
    this.attempts.delete(id);
  }
}

function blank(kind: Bar["kind"], token: number, seq: number, from: number): Bar {
  return {
    kind,
    token,
    seq,
    from,
    until: null,
    label: "",
    call: null,
    effect: null,
    status: "",
    attempt: null,
    answeredBy: null,
  };
}

export function buildTimeline(
  events: readonly [seq: number, Event][],
  holder: HeldBy,
  now: number,
): Timeline {
  const builder = new Builder();
  for (const [seq, event] of events) builder.add(seq, event);
  const last = builder.lanes.at(-1);
  const lastSeq = events.at(-1)?.[0] ?? 0;
  if (last && holder.gone) {
    const { pid, host } = holder.gone;
    builder.crash(last, lastSeq, null, `pid ${pid} on ${host} is gone`);
  } else if (last && !holder.held) last.until = last.seen;
  const { bars, turns } = builder;
  // Before its first holder, a session only has the event that made it.
  const lanes = builder.lanes.filter(({ token }) => token > 0 || bars.some((bar) => bar.token === 0));
  return {
    first: events[0]?.[0] ?? 0,
    last: lastSeq,
    now: iso(now),
    lanes: lanes.map(({ seen: _, from, until, ...rest }) => ({
      ...rest,
      from: iso(from),
      until: isoOrNull(until),
    })),
    bars: bars.map(({ from, until, ...rest }) => ({ ...rest, from: iso(from), until: isoOrNull(until) })),
    turns,
  };
}
