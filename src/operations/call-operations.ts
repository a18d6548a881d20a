/** Calls without an outcome: looked at, and answered for, without taking their sessions. */

import * as z from "zod";
import { HoldfastError } from "../model/errors.ts";
import { streamId } from "../model/names.ts";
import type { Holdfast } from "../open.ts";
import type { ItemRow } from "../store.ts";
import { type Context, matchId } from "./context.ts";
import { definedFields, operation } from "./operation.ts";
import { heldBy, sessionId } from "./session-operations.ts";
import * as view from "./session-views.ts";
import { openCallRows } from "./status.ts";
import { openCallsBelow } from "./sub-agent-calls.ts";

const text = z.string();

type CallView = z.input<typeof view.call>;

/** A call that waits because a program without its tool looked into it goes on when one with the tool comes. */
interface Found {
  readonly call: CallView;
  readonly lacksTool: boolean;
}

/** Every call of a session; a call is under way only while somebody may be at it. */
async function callsOf(holdfast: Holdfast, id: string): Promise<Found[]> {
  const [{ calls, status }, { held }] = await Promise.all([holdfast.sessions.get(id), heldBy(holdfast, id)]);
  const isCancelled = status === "cancelled";
  return calls.map((each) => {
    const call = view.callView(id, each, { isHeld: held !== null, isCancelled });
    return { call, lacksTool: each.lacksTool };
  });
}

async function openCalls(holdfast: Holdfast, open: readonly ItemRow[]): Promise<Found[]> {
  const known = new Map<string, Found[]>();
  const rows: Found[] = [];
  for (const { stream, id: callId } of open) {
    const id = streamId(stream);
    const all = known.get(id) ?? (await callsOf(holdfast, id));
    known.set(id, all);
    rows.push(...all.filter(({ call }) => call.call === callId).slice(0, 1));
  }
  return rows;
}

/** Ids that open calls of several sessions have. */
function sharedIds(rows: readonly ItemRow[]): Set<string> {
  const seen = new Set<string>();
  return new Set(rows.map(({ id }) => id).filter((id) => seen.size === seen.add(id).size));
}

/** What else a person has to know of calls before answering for one. */
async function amongOthers({ journal }: Holdfast, calls: readonly Found[], open: readonly ItemRow[]) {
  const shared = sharedIds(open);
  const below = await openCallsBelow(journal.store, journal.namespace, open);
  const named = [...below].map(([{ stream, id }, rows]) => {
    const theirs = rows.map((row) => ({
      session: streamId(row.stream),
      call: row.id,
      tool: row.name ?? "unknown",
    }));
    return [JSON.stringify([streamId(stream), id]), theirs] as const;
  });
  const bySession = new Map(named);
  return calls.map(({ call, lacksTool }) => {
    const subAgentCalls = (call.open && bySession.get(JSON.stringify([call.session, call.call]))) || [];
    const isAsked = call.cancelled || (call.status === "waiting" && !lacksTool);
    const goesOnByItself = subAgentCalls.length > 0 && !isAsked;
    return { ...call, shared: shared.has(call.call), subAgentCalls, goesOnByItself };
  });
}

async function callId(context: Context, typed: string): Promise<string> {
  const { journal } = await context.holdfast();
  const rows = await openCallRows(journal.store, journal.namespace);
  const ids = rows.map((each) => each.id);
  // What has just been settled is open no more: whoever looks it up says by whom.
  const asked = { of: "items", kind: "call", id: typed, limit: 1 } as const;
  if (!ids.includes(typed) && (await journal.list<"items">(asked)).rows.length > 0) return typed;
  return matchId("open call", typed, ids, "CALL_NOT_FOUND", "holdfast calls");
}

/** What a person allows in a session that nobody runs any more would never be made; only a program can reopen it. */
async function refuseInCancelled({ sessions }: Holdfast, session: string, callId: string): Promise<void> {
  if ((await sessions.get(session)).status === "cancelled") throw notTriedAgain(session, callId);
}

async function sessionsWith({ journal }: Holdfast, callId: string): Promise<string[]> {
  const rows = await openCallRows(journal.store, journal.namespace);
  return rows.filter(({ id }) => id === callId).map(({ stream }) => streamId(stream));
}

function notTriedAgain(session: string, callId: string): HoldfastError {
  return new HoldfastError(
    "CALL_TRANSITION",
    `call ${callId} cannot be tried again: session ${session} was cancelled, and is not run any more`,
    {
      hint: "Say landed or failed. To have it tried again, the agent reopens the session first: session.reopen().",
      data: { session, callId },
    },
  );
}

export const callOperations = [
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
          /** Of a sub-agent's call: the calls inside it that have no outcome, the innermost ones. */
          subAgentCalls: z.array(z.strictObject({ session: text, call: text, tool: text })),
          /** Nobody has to answer for it: it goes on once those have an outcome and its agent is run again. */
          goesOnByItself: z.boolean(),
        }),
      ),
    }),
    async run(context, { session: typed, open = false }) {
      const holdfast = await context.holdfast();
      const of = async (id: string) => {
        const rows = await callsOf(holdfast, id);
        return rows.filter(({ call }) => !open || call.open);
      };
      const { journal } = holdfast;
      const rows = await openCallRows(journal.store, journal.namespace);
      const found =
        typed === undefined ? await openCalls(holdfast, rows) : await of(await sessionId(holdfast, typed));
      const calls = await amongOthers(holdfast, found, rows);
      return { waiting: calls.filter(({ status }) => status === "waiting").length, calls };
    },
  }),
  operation({
    name: "resolve",
    about:
      "Answer for a call that waits, or that nobody is at: it landed, try it again, or it did not happen",
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
      /** Whether its session goes on with that; one that was cancelled does not. */
      goesOn: z.boolean(),
      /** Whether it was said what the tool would have returned; without that a call that landed returns null. */
      hasResult: z.boolean(),
    }),
    async run(context, { call: typed, session: inSession, outcome, result, by, why }) {
      const holdfast = await context.holdfast();
      const hasResult = outcome === "landed" && result !== undefined;
      const answer = outcome === "landed" ? { outcome, ...definedFields({ result }) } : { outcome };
      if (inSession === undefined) {
        const id = await callId(context, typed);
        const [session, another] = await sessionsWith(holdfast, id);
        if (outcome === "retry" && session !== undefined && another === undefined)
          await refuseInCancelled(holdfast, session, id);
        const { goesOn } = await holdfast.calls.resolve(id, { ...answer, by, why });
        return { call: id, session: null, outcome, goesOn, hasResult };
      }
      const id = await sessionId(holdfast, inSession);
      if (outcome === "retry") await refuseInCancelled(holdfast, id, typed);
      const named = { session: id, callId: typed };
      const { goesOn } = await holdfast.calls.resolve(named, { ...answer, by, why });
      return { call: typed, session: id, outcome, goesOn, hasResult };
    },
  }),
];
