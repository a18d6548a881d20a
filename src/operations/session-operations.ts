/** Sessions and calls from outside: looked at, forked, cancelled, answered, without taking them. */

import * as z from "zod";
import { allRows } from "../journal/index.ts";
import {
  HoldfastError,
  isHoldfastError,
  isId,
  SESSION_STATUSES,
  sessionKind,
  streamId,
  streamName,
} from "../model/index.ts";
import type { Holdfast } from "../open.ts";
import type { SessionSummary } from "../session/index.ts";
import { type Context, pick } from "./context.ts";
import { time } from "./goal-views.ts";
import { leasesOf } from "./held-leases.ts";
import { given, operation } from "./operation.ts";
import { blocksText, logLine } from "./session-log.ts";
import * as view from "./session-views.ts";
import { isSubAgent, openCallRows } from "./status-reading.ts";

const text = z.string();
const session = text;
const ROWS_AT_ONCE = 1_000;

async function sessionId(holdfast: Holdfast, typed: string): Promise<string> {
  const { journal } = holdfast;
  if (isId(typed) && (await journal.row(streamName("session", typed))).state === "live") return typed;
  const asked = { of: "streams", kind: "session", limit: ROWS_AT_ONCE } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...asked, ...from }));
  const ids = rows.map(({ stream }) => streamId(stream));
  return pick("session", typed, ids, "STREAM_NOT_FOUND", "holdfast session list");
}

async function parentOf({ journal }: Holdfast, id: string): Promise<string | null> {
  if (!isSubAgent(id)) return null;
  return (await journal.load(sessionKind, id)).state.parent?.session ?? null;
}

async function heldBy({ journal }: Holdfast, id: string): Promise<view.HeldBy> {
  const { store, namespace } = journal;
  const name = streamName("session", id);
  const { held, gone } = await leasesOf(store, namespace, "session/", [name]);
  return { held: held.get(name)?.holder ?? null, gone: gone.get(name)?.holder ?? null };
}

/** What a person sees of an active session: whether a process is at it. No facet says that, the leases do. */
const ACTIVE_WORDS = ["running", "crashed", "idle"] as const;
type ActiveWord = (typeof ACTIVE_WORDS)[number];

function isActiveWord(status: string | undefined): status is ActiveWord {
  return ACTIVE_WORDS.some((word) => word === status);
}

interface Found {
  readonly summary: SessionSummary;
  readonly running: boolean;
  readonly crashed: boolean;
}

async function withHolders({ journal }: Holdfast, sessions: readonly SessionSummary[]): Promise<Found[]> {
  const { store, namespace } = journal;
  const names = sessions.map(({ id }) => streamName("session", id));
  const { held, gone } = await leasesOf(store, namespace, "session/", names);
  return sessions.map((summary, index) => {
    const name = names[index] ?? "";
    return { summary, running: held.has(name), crashed: gone.has(name) };
  });
}

type Filter = Parameters<Holdfast["sessions"]["list"]>[0];

async function latestSessions(
  holdfast: Holdfast,
  filter: Filter,
  limit: number,
): Promise<{ sessions: Found[]; more: boolean }> {
  const sessions: SessionSummary[] = [];
  let from = {};
  for (;;) {
    const atOnce = Math.min(ROWS_AT_ONCE, limit - sessions.length);
    const page = await holdfast.sessions.list({ ...filter, ...from, limit: atOnce });
    sessions.push(...page.sessions);
    const more = page.cursor !== null;
    if (!more || sessions.length >= limit) return { sessions: await withHolders(holdfast, sessions), more };
    from = { cursor: page.cursor };
  }
}

async function activeSessions(
  holdfast: Holdfast,
  word: ActiveWord,
  filter: Filter,
  limit: number,
): Promise<{ sessions: Found[]; more: boolean }> {
  const active = await allRows(async (from) => {
    const asked = { ...filter, ...from, status: "active", limit: ROWS_AT_ONCE } as const;
    const { sessions, cursor } = await holdfast.sessions.list(asked);
    return { rows: sessions, cursor };
  });
  const found = (await withHolders(holdfast, active)).filter(({ running, crashed }) => {
    return word === (running ? "running" : crashed ? "crashed" : "idle");
  });
  return { sessions: found.slice(0, limit), more: found.length > limit };
}

/** Every call of a session; a call is under way only while somebody may be at it. */
async function callsOf(holdfast: Holdfast, id: string): Promise<z.input<typeof view.call>[]> {
  const [{ calls }, { held }] = await Promise.all([holdfast.sessions.get(id), heldBy(holdfast, id)]);
  return calls.map((each) => view.callView(id, each, held !== null));
}

async function openCalls(holdfast: Holdfast): Promise<z.input<typeof view.call>[]> {
  const { journal } = holdfast;
  const known = new Map<string, z.input<typeof view.call>[]>();
  const rows: z.input<typeof view.call>[] = [];
  for (const { stream, id: callId } of await openCallRows(journal.store, journal.namespace)) {
    const id = streamId(stream);
    const all = known.get(id) ?? (await callsOf(holdfast, id));
    known.set(id, all);
    rows.push(...all.filter((each) => each.call === callId).slice(0, 1));
  }
  return rows;
}

/** Ids that open calls of several sessions have. */
async function sharedIds({ journal }: Holdfast): Promise<Set<string>> {
  const rows = await openCallRows(journal.store, journal.namespace);
  const seen = new Set<string>();
  return new Set(rows.map(({ id }) => id).filter((id) => seen.size === seen.add(id).size));
}

async function callId(context: Context, typed: string): Promise<string> {
  const { journal } = await context.holdfast();
  const rows = await openCallRows(journal.store, journal.namespace);
  const ids = rows.map((each) => each.id);
  return pick("open call", typed, ids, "CALL_NOT_FOUND", "holdfast calls");
}

/** Whoever named a version that is not there is told where to look. */
async function ofVersions<Result>(id: string, asked: Promise<Result>): Promise<Result> {
  return asked.catch((error: unknown) => {
    if (!isHoldfastError(error, "VERSION_NOT_FOUND")) throw error;
    throw new HoldfastError("VERSION_NOT_FOUND", error.message, {
      hint: `List its versions: holdfast session versions ${id}. Deleted ones are not kept.`,
      cause: error,
      data: error.data,
    });
  });
}

const message = z.strictObject({ id: text, role: text, text });
const amounts = z.record(text, z.number());

export const sessionOperations = [
  operation({
    name: "session list",
    about: "Sessions, the latest change first",
    who: "both",
    writes: false,
    input: z.strictObject({
      status: z.enum([...SESSION_STATUSES, ...ACTIVE_WORDS]).optional(),
      goal: text.optional(),
      limit: z.int().positive().optional(),
    }),
    result: z.strictObject({ sessions: z.array(view.sessionRow), more: z.boolean() }),
    async run(context, { status, goal, limit = 50 }) {
      const holdfast = await context.holdfast();
      const found = isActiveWord(status)
        ? await activeSessions(holdfast, status, given({ goal }), limit)
        : await latestSessions(holdfast, given({ status, goal }), limit);
      const rows = found.sessions.map(async ({ summary, ...held }) =>
        view.sessionRowView(summary, { ...held, parent: await parentOf(holdfast, summary.id) }),
      );
      return { sessions: await Promise.all(rows), more: found.more };
    },
  }),
  operation({
    name: "session show",
    about: "One session: where it stands, what it spent, its calls, who holds it",
    who: "both",
    writes: false,
    input: z.strictObject({ session }),
    result: view.session,
    async run(context, input) {
      const holdfast = await context.holdfast();
      const id = await sessionId(holdfast, input.session);
      return view.sessionView(await holdfast.sessions.get(id), await heldBy(holdfast, id));
    },
  }),
  operation({
    name: "session log",
    about: "What happened in a session, line by line",
    who: "both",
    writes: false,
    input: z.strictObject({ session, after: z.int().optional(), limit: z.int().positive().optional() }),
    result: z.strictObject({
      session: text,
      lines: z.array(z.strictObject({ seq: z.int(), at: time, type: text, word: text, text })),
    }),
    async run(context, { session: typed, after = 0, limit = 100_000 }) {
      const holdfast = await context.holdfast();
      const id = await sessionId(holdfast, typed);
      const lines = [];
      for await (const [seq, event] of holdfast.journal.events(streamName("session", id), after)) {
        lines.push(logLine(seq, event));
        if (lines.length >= limit) break;
      }
      return { session: id, lines };
    },
  }),
  operation({
    name: "session versions",
    about: "The numbered versions of a session",
    who: "both",
    writes: false,
    input: z.strictObject({ session }),
    result: z.strictObject({ session: text, versions: z.array(view.version) }),
    async run(context, input) {
      const holdfast = await context.holdfast();
      const id = await sessionId(holdfast, input.session);
      const { versions } = await holdfast.sessions.get(id);
      const rows = versions.map(({ at, ...rest }) => ({ ...rest, at: new Date(at).toISOString() }));
      return { session: id, versions: rows };
    },
  }),
  operation({
    name: "session diff",
    about: "What was said, planned and spent between two versions",
    who: "both",
    writes: false,
    input: z.strictObject({ session, before: z.int(), after: z.int() }),
    result: z.strictObject({
      session: text,
      before: z.int(),
      after: z.int(),
      added: z.array(message),
      removed: z.array(message),
      changed: z.array(z.strictObject({ before: message, after: message })),
      same: z.int(),
      steps: z.array(z.strictObject({ before: text.nullable(), after: text.nullable() })),
      spent: z.strictObject({ before: amounts, after: amounts }),
    }),
    async run(context, { session: typed, before, after }) {
      const holdfast = await context.holdfast();
      const id = await sessionId(holdfast, typed);
      const diff = await ofVersions(id, holdfast.sessions.diff(id, before, after));
      const said = ({ id: messageId, role, blocks }: (typeof diff.messages.added)[number]) => {
        return { id: messageId, role, text: blocksText(blocks) };
      };
      const step = (each: (typeof diff.plan.steps)[number]["before"]): string | null =>
        each && `${each.id} ${each.status}: ${each.description}`;
      return {
        session: id,
        before,
        after,
        added: diff.messages.added.map(said),
        removed: diff.messages.removed.map(said),
        changed: diff.messages.changed.map((each) => ({
          before: said(each.before),
          after: said(each.after),
        })),
        same: diff.messages.same,
        steps: diff.plan.steps.map((each) => ({ before: step(each.before), after: step(each.after) })),
        spent: { before: { ...diff.budget.spent.before }, after: { ...diff.budget.spent.after } },
      };
    },
  }),
  operation({
    name: "session fork",
    about: "A new session that shares another's past, up to a version",
    who: "both",
    writes: true,
    input: z.strictObject({
      session,
      id: text,
      version: z.int().optional(),
      /** The fork may have effects at once; otherwise it refuses them until somebody says so. */
      live: z.boolean().optional(),
    }),
    result: z.strictObject({
      session: text,
      from: text,
      version: z.int(),
      effects: z.enum(["on", "off"]),
      laterEffects: z.array(z.strictObject({ callId: text, tool: text, status: text })),
    }),
    async run(context, { session: typed, id, version, live }) {
      const holdfast = await context.holdfast();
      const from = await sessionId(holdfast, typed);
      const options = given({ version, effects: live ? ("live" as const) : undefined });
      const report = await ofVersions(from, holdfast.sessions.fork(from, id, options));
      const laterEffects = report.laterEffects.map(({ callId: call, tool, status }) => {
        return { callId: call, tool, status };
      });
      const effects = live ? ("on" as const) : ("off" as const);
      return { session: report.id, from, version: report.version, effects, laterEffects };
    },
  }),
  operation({
    name: "session effects",
    about: "Let a fork have effects of its own, or not any more",
    who: "person",
    writes: true,
    input: z.strictObject({ session, effects: z.enum(["on", "off"]), by: text.min(1), why: text.min(1) }),
    result: z.strictObject({ session: text, effects: z.enum(["on", "off"]) }),
    async run(context, { session: typed, effects, by, why }) {
      const holdfast = await context.holdfast();
      const id = await sessionId(holdfast, typed);
      await holdfast.sessions.setEffects(id, effects === "on" ? "live" : "refused", { by, why });
      return { session: id, effects };
    },
  }),
  operation({
    name: "session cancel",
    about: "Stop a session, also one that another process runs right now",
    who: "person",
    writes: true,
    input: z.strictObject({ session, by: text.min(1), why: text.min(1) }),
    result: z.strictObject({ session: text, status: text }),
    async run(context, { session: typed, by, why }) {
      const holdfast = await context.holdfast();
      const id = await sessionId(holdfast, typed);
      await holdfast.sessions.cancel(id, { by, why });
      return { session: id, status: (await holdfast.sessions.get(id)).status };
    },
  }),
  operation({
    name: "calls",
    about: "Calls without an outcome, over all sessions or of one; or every call of one session",
    who: "both",
    writes: false,
    input: z.strictObject({
      session: text.optional(),
      /** Of one session: only those without an outcome. */
      open: z.boolean().optional(),
    }),
    result: z.strictObject({
      waiting: z.int(),
      calls: z.array(
        view.call.extend({
          /** Open calls of several sessions have its id: whoever answers for it has to say its session. */
          shared: z.boolean(),
        }),
      ),
    }),
    async run(context, { session: typed, open = false }) {
      const holdfast = await context.holdfast();
      const of = async (id: string) => {
        const rows = await callsOf(holdfast, id);
        return rows.filter((each) => !open || each.open);
      };
      const calls =
        typed === undefined ? await openCalls(holdfast) : await of(await sessionId(holdfast, typed));
      const waiting = calls.filter(({ status }) => status === "waiting").length;
      const shared = await sharedIds(holdfast);
      return { waiting, calls: calls.map((each) => ({ ...each, shared: shared.has(each.call) })) };
    },
  }),
  operation({
    name: "resolve",
    about: "Answer for a call that waits for a person: it landed, try it again, or it did not happen",
    who: "person",
    writes: true,
    input: z.strictObject({
      call: text,
      session: text.optional(),
      outcome: z.enum(["landed", "retry", "failed"]),
      result: z.json().optional(),
      by: text.min(1),
      why: text.min(1),
    }),
    result: z.strictObject({
      call: text,
      session: text.nullable(),
      outcome: text,
      /** Whether it was said what the tool would have returned; without that a call that landed returns null. */
      hasResult: z.boolean(),
    }),
    async run(context, { call: typed, session: inSession, outcome, result, by, why }) {
      const holdfast = await context.holdfast();
      const hasResult = outcome === "landed" && result !== undefined;
      const answer = outcome === "landed" ? { outcome, ...given({ result }) } : { outcome };
      if (inSession === undefined) {
        const id = await callId(context, typed);
        await holdfast.calls.resolve(id, { ...answer, by, why });
        return { call: id, session: null, outcome, hasResult };
      }
      const id = await sessionId(holdfast, inSession);
      await holdfast.calls.resolve({ session: id, callId: typed }, { ...answer, by, why });
      return { call: typed, session: id, outcome, hasResult };
    },
  }),
];
