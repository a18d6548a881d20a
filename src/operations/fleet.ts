/**
 * The fleet: its processes, its spending and the latency of its calls.
 *
 * The figures cover the time that was asked for. They come from the timelines of the sessions that changed
 * in it, so a session's plot and these figures agree. An attempt's latency is the length of its bar. A wait
 * for a person has a bar of its own.
 */

import { statSync } from "node:fs";
import * as z from "zod";
import { isProvablyDead } from "../journal/index.ts";
import type { Event } from "../model/stream/index.ts";
import type { Holdfast } from "../open.ts";
import type { StreamRow } from "../store.ts";
import type { Context } from "./context.ts";
import { goalRows } from "./current-goal.ts";
import { iso, pickFields, time } from "./record-views.ts";
import * as view from "./session-views.ts";
import { buildTimeline } from "./timeline.ts";

const text = z.string();

const amounts = z.strictObject({ usd: z.number(), tokens: z.number() });
const spending = z.strictObject({
  hour: time,
  ...amounts.shape,
  by: z.strictObject({
    goal: z.record(text, z.number()),
    tool: z.record(text, z.number()),
    model: z.record(text, z.number()),
  }),
});
const percentiles = { p50Ms: z.number().nullable(), p99Ms: z.number().nullable() };
const latency = z.strictObject({
  tool: text,
  /** Repeats do not count: they did not run. */
  calls: z.int(),
  /** Only attempts that returned by themselves count. */
  ...percentiles,
  /** Calls whose outcome was unknown at some time. */
  unknown: z.int(),
  failed: z.int(),
});
const running = view.holder.extend({
  name: text,
  kind: z.enum(["session", "task", "worker", "other"]),
  token: z.int(),
  remainingMs: z.number(),
  dead: z.boolean(),
});

export const fleet = z.strictObject({
  address: text,
  bytes: z.int().nullable(),
  /** The figures below are of this many of the latest sessions. */
  sampled: z.int(),
  isSample: z.boolean(),
  running: z.array(running),
  spending: z.array(spending),
  tools: z.array(latency),
  /** From the moment that a call asked for a person until the answer. */
  humanWait: z.strictObject({ answers: z.int(), ...percentiles }),
  goals: z.int(),
});

const HOUR_MS = 3_600_000;
const SESSIONS_READ = 100;
const EVENTS_READ = 2_000;
const LEASES_READ = 1_000;

function percentile(times: readonly number[], share: number): number | null {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null;
}

const percentilesOf = (times: readonly number[]) => {
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) };
};

async function leaseRows({ journal }: Holdfast): Promise<z.input<typeof running>[]> {
  const { rows } = await journal.list<"leases">({ of: "leases", limit: LEASES_READ });
  return rows.flatMap(({ name, token, holder, remainingMs }) => {
    if (!holder || (remainingMs <= 0 && !name.startsWith("session/"))) return [];
    const dead = isProvablyDead(holder);
    if (remainingMs <= 0 && !dead) return [];
    const kind = name.startsWith("session/") ? "session" : name.startsWith("goal/") ? "task" : "other";
    const worker = name.startsWith("worker/") ? ("worker" as const) : (kind as "session" | "task" | "other");
    return [{ ...pickFields(view.holder, holder), name, kind: worker, token, remainingMs, dead }];
  });
}

type Spending = z.input<typeof spending>;

interface Message {
  readonly role: string;
  readonly meta?: { readonly model?: unknown };
  readonly blocks: readonly { readonly kind: string; readonly name?: string }[];
}

interface Spent {
  readonly spent?: Partial<z.input<typeof amounts>>;
  readonly amounts?: Partial<z.input<typeof amounts>>;
  readonly lost?: boolean;
}

/**
 * Adds what the events of one session spent to the hours in which they did. An answer and its cost are two
 * events of one commit, in either order.
 */
function addSpending(hours: Map<number, Spending>, events: readonly Event[], goal: string | null): void {
  let answer: Message | null = null;
  let cost: { usd: number; hour: Spending } | null = null;
  for (const { at, type, data } of events) {
    if (type === "budget.settled" || type === "budget.spent") {
      const { spent, amounts: named, lost } = data as Spent;
      const { usd = 0, tokens = 0 } = spent ?? named ?? {};
      // A model call that failed costs nothing and has no answer.
      if (usd === 0 && tokens === 0) continue;
      const start = Math.floor(at / HOUR_MS) * HOUR_MS;
      const hour = hours.get(start) ?? newHour(start);
      hours.set(start, hour);
      hour.usd += usd;
      hour.tokens += tokens;
      add(hour.by.goal, goal ?? "no goal", usd);
      if (lost) {
        for (const by of [hour.by.model, hour.by.tool]) add(by, "lost answer", usd);
        continue;
      }
      cost = { usd, hour };
    } else if (type === "message") {
      const { message } = data as { message: Message };
      if (message.role === "assistant") answer = message;
    }
    if (answer === null || cost === null) continue;
    const { model } = answer.meta ?? {};
    add(cost.hour.by.model, typeof model === "string" ? model : "not recorded", cost.usd);
    const tools = answer.blocks.flatMap(({ kind, name }) => (kind === "tool_call" && name ? [name] : []));
    for (const tool of tools.length === 0 ? ["no tool"] : tools)
      add(cost.hour.by.tool, tool, cost.usd / (tools.length || 1));
    answer = null;
    cost = null;
  }
}

function add(to: Record<string, number>, name: string, usd: number): void {
  to[name] = (Object.hasOwn(to, name) ? (to[name] ?? 0) : 0) + usd;
}

function newHour(start: number): Spending {
  return { hour: iso(start), usd: 0, tokens: 0, by: { goal: {}, tool: {}, model: {} } };
}

interface Timing {
  readonly times: number[];
  readonly calls: Set<string>;
  readonly unknown: Set<string>;
  readonly failed: Set<string>;
}

/** Adds the attempts and the waits of one session. */
function addTimings(
  tools: Map<string, Timing>,
  waits: number[],
  session: string,
  events: readonly [seq: number, Event][],
): void {
  const lost = new Set(events.flatMap(([, event]) => lostCall(event) ?? []));
  for (const bar of buildTimeline(events, { held: null, gone: null }, 0).bars) {
    const ms = bar.until === null ? null : Date.parse(bar.until) - Date.parse(bar.from);
    if (bar.kind === "wait" && bar.answeredBy !== null && ms !== null) waits.push(ms);
    if (bar.kind !== "tool" || bar.call === null) continue;
    const made: Timing = { times: [], calls: new Set(), unknown: new Set(), failed: new Set() };
    const timing = tools.get(bar.label) ?? made;
    tools.set(bar.label, timing);
    const id = `${session} ${bar.call}`;
    timing.calls.add(id);
    if (lost.has(bar.call) || bar.status === "unknown") timing.unknown.add(id);
    else if (bar.status === "completed" && ms !== null) timing.times.push(ms);
    if (bar.status === "failed") timing.failed.add(id);
    else timing.failed.delete(id);
  }
}

/** The call whose outcome became unknown by this event. A call that never started is in no doubt. */
function lostCall({ type, data }: Event): string | null {
  const { callId, started } = data as { readonly callId?: string; readonly started?: boolean };
  return type === "call.lost" && started !== false ? (callId ?? null) : null;
}

function storeBytes({ place }: Context): number | null {
  const { address, label } = place;
  if (address?.includes("://")) return null;
  try {
    const stats = statSync(label);
    return stats.isFile() ? stats.size : null;
  } catch {
    // A store in memory, or a folder that is not there: its size is not known.
    return null;
  }
}

async function eventsSince(
  { journal }: Holdfast,
  { stream, head }: StreamRow,
  since: number,
): Promise<[seq: number, Event][]> {
  const events: [seq: number, Event][] = [];
  for await (const each of journal.events(stream, Math.max(0, head.seq - EVENTS_READ)))
    if (each[1].at >= since) events.push(each);
  return events;
}

export async function readFleet(context: Context, hours: number): Promise<z.input<typeof fleet>> {
  const holdfast = await context.holdfast();
  const { journal } = holdfast;
  const since = context.now() - hours * HOUR_MS;
  const asked = { of: "streams", kind: "session", limit: SESSIONS_READ } as const;
  const { rows, cursor } = await journal.list<"streams">(asked);
  const recent = rows.filter(({ updatedAt }) => updatedAt >= since);
  const [spent, tools, waits] = [new Map<number, Spending>(), new Map<string, Timing>(), [] as number[]];
  for (const row of recent) {
    const events = await eventsSince(holdfast, row, since);
    addTimings(tools, waits, row.stream, events);
    addSpending(
      spent,
      events.map(([, event]) => event),
      row.facets.goal,
    );
  }
  return {
    address: journal.store.address,
    bytes: storeBytes(context),
    sampled: recent.length,
    // The latest sessions come first, so a page that reaches further back has all of them.
    isSample: cursor !== null && recent.length === rows.length,
    running: await leaseRows(holdfast),
    spending: [...spent.entries()].sort(([a], [b]) => a - b).map(([, each]) => each),
    tools: [...tools].map(([tool, { times, calls, unknown, failed }]) => {
      const counts = { calls: calls.size, unknown: unknown.size, failed: failed.size };
      return { tool, ...counts, ...percentilesOf(times) };
    }),
    humanWait: { answers: waits.length, ...percentilesOf(waits) },
    goals: (await goalRows(journal)).length,
  };
}
