/** Operations on calls without an outcome: list and resolve them, without taking their sessions. */

import * as z from "zod";
import { isUndecodable } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { streamId } from "../model/names.ts";
import { isoTime } from "../model/time.ts";
import { Holdfast } from "../open.ts";
import type { ItemRow } from "../store.ts";
import { type Context, matchId } from "./context.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { heldBy, sessionId } from "./session-operations.ts";
import * as view from "./session-views.ts";
import { openCallRows } from "./status.ts";
import { openCallsBelow } from "./sub-agent-calls.ts";

const text = z.string();

/** `lacksTool`: the call waits only because the program that tried to settle it lacks its tool. */
type FoundCall = { readonly call: z.input<typeof view.call>; readonly lacksTool: boolean };

/** Every call of a session. A call counts as running only while a process holds the session. */
async function callsOf(holdfast: Holdfast, id: string): Promise<FoundCall[]> {
  const [{ calls, status }, { held }] = await Promise.all([holdfast.sessions.get(id), heldBy(holdfast, id)]);
  const isCancelled = status === "cancelled";
  return calls.map((each) => {
    const call = view.callView(id, each, { isHeld: held !== null, isCancelled });
    return { call, lacksTool: each.lacksTool };
  });
}

const unreadable = z.strictObject({ namespace: text, session: text, why: text });
type Unreadable = z.input<typeof unreadable>;

/** A session that cannot be decoded is reported, and its calls are shown as far as the lists know them. */
async function openCalls(
  holdfast: Holdfast,
  open: readonly ItemRow[],
  report: (unreadable: Unreadable) => void,
): Promise<FoundCall[]> {
  const known = new Map<string, FoundCall[] | null>();
  const rows: FoundCall[] = [];
  for (const row of open) {
    const session = streamId(row.stream);
    if (!known.has(session)) {
      const all = await callsOf(holdfast, session).catch((error: unknown) => {
        if (!isUndecodable(error)) throw error;
        report({ namespace: holdfast.journal.namespace, session, why: (error as Error).message });
        return null;
      });
      known.set(session, all);
    }
    const found = known
      .get(session)
      ?.filter(({ call }) => call.callId === row.id)
      .slice(0, 1);
    const isHeld = async (): Promise<boolean> => (await heldBy(holdfast, session)).held !== null;
    rows.push(...(found ?? [{ call: view.undecodedCall(row, await isHeld()), lacksTool: false }]));
  }
  return rows;
}

function sharedIds(rows: readonly ItemRow[]): Set<string> {
  const seen = new Set<string>();
  return new Set(rows.map(({ id }) => id).filter((id) => seen.size === seen.add(id).size));
}

/** Adds what a person must know before resolving a call: shared ids, and open calls of its sub-agent. */
async function withContext({ journal }: Holdfast, calls: readonly FoundCall[], open: readonly ItemRow[]) {
  const shared = sharedIds(open);
  const below = await openCallsBelow(journal, open);
  const named = [...below].map(([{ stream, id }, rows]) => {
    const theirs = rows.map((row) => ({
      session: streamId(row.stream),
      callId: row.id,
      tool: row.name ?? "unknown",
    }));
    return [JSON.stringify([streamId(stream), id]), theirs] as const;
  });
  const bySession = new Map(named);
  return calls.map(({ call, lacksTool }) => {
    const subAgentCalls = (call.open && bySession.get(JSON.stringify([call.session, call.callId]))) || [];
    const isAsked = call.cancelled || (call.status === "waiting" && !lacksTool);
    const waitsForSubAgent = subAgentCalls.length > 0 && !isAsked;
    const { namespace } = journal;
    return { ...call, namespace, shared: shared.has(call.callId), subAgentCalls, waitsForSubAgent };
  });
}

/** The first of all open calls, as a person sees them. */
export async function openCallViews(
  holdfast: Holdfast,
  rows: readonly ItemRow[],
  limit: number,
): Promise<z.input<typeof view.openCall>[]> {
  // A call of a session that cannot be decoded says so itself, in its `why`.
  return withContext(holdfast, await openCalls(holdfast, rows.slice(0, limit), () => undefined), rows);
}

async function callId(context: Context, typed: string): Promise<string> {
  const { journal } = await context.holdfast();
  const rows = await openCallRows(journal);
  const ids = rows.map((each) => each.id);
  // A call that was just settled is no longer open. `resolve` reports who settled it.
  const asked = { of: "items", kind: "call", id: typed, limit: 1 } as const;
  if (!ids.includes(typed) && (await journal.list<"items">(asked)).rows.length > 0) return typed;
  try {
    return matchId("open call", typed, ids, "CALL_NOT_FOUND", "holdfast calls");
  } catch (error) {
    throw (await inOtherNamespace(context, typed, error)) ?? error;
  }
}

/** A person who pastes an id from `calls` may not know that its namespace has to be named. */
async function inOtherNamespace(context: Context, typed: string, error: unknown) {
  if (!isHoldfastError(error, "CALL_NOT_FOUND")) return null;
  for (const journal of await context.journals()) {
    if (journal.namespace === context.place.namespace) continue;
    const rows = await openCallRows(journal);
    if (!rows.some(({ id }) => id.startsWith(typed))) continue;
    const { namespace } = journal;
    return new HoldfastError("CALL_NOT_FOUND", `${error.message} in this namespace`, {
      hint: `It is in another: pass --namespace ${namespace}`,
      data: { ...error.data, namespace },
    });
  }
  return null;
}

async function sessionsWith({ journal }: Holdfast, callId: string): Promise<string[]> {
  const rows = await openCallRows(journal);
  return rows.filter(({ id }) => id === callId).map(({ stream }) => streamId(stream));
}

/** Refuses what would never run: a retry or an approval in a session that only a program can reopen. */
async function refuseIfCancelled({ sessions }: Holdfast, session: string, callId: string): Promise<void> {
  if ((await sessions.get(session)).status !== "cancelled") return;
  const message = `call ${callId}: cannot run, session ${session} is cancelled`;
  const reopen = "To let it run, let the agent reopen the session first: session.reopen().";
  const hint = `Resolve it as landed or failed, or deny it. ${reopen}`;
  throw new HoldfastError("CALL_TRANSITION", message, { hint, data: { session, callId } });
}

const named = z.strictObject({
  callId: text,
  session: text.optional(),
  /** The position of the session that the person saw: a call that changed since is not answered. */
  seq: z.int().nonnegative().optional(),
  /** The answer is an agent's: for tools that allow it. */
  asAgent: z.boolean().optional(),
});

/** An agent's own answer is no person's; the tool decides whether it counts. */
const isOfPerson = ({ asAgent }: { readonly asAgent?: boolean | undefined }): boolean => asAgent !== true;
const answered = z.strictObject({
  callId: text,
  session: text.nullable(),
  /** Whether its session continues with that; a cancelled one does not. */
  goesOn: z.boolean(),
});

type CallName = Parameters<Holdfast["calls"]["deny"]>[0];

/** Finds the call that a person typed, and gives the answer. `runs`: the answer lets it run. */
async function answerCall(
  context: Context,
  typed: string,
  inSession: string | undefined,
  runs: boolean,
  answer: (calls: Holdfast["calls"], call: CallName) => Promise<{ readonly goesOn: boolean }>,
): Promise<z.input<typeof answered>> {
  const holdfast = await context.holdfast();
  if (inSession !== undefined) {
    const session = await sessionId(holdfast, inSession);
    if (runs) await refuseIfCancelled(holdfast, session, typed);
    const { goesOn } = await answer(holdfast.calls, { session, callId: typed });
    return { callId: typed, session, goesOn };
  }
  const id = await callId(context, typed);
  const [session, another] = await sessionsWith(holdfast, id);
  if (runs && session !== undefined && another === undefined) await refuseIfCancelled(holdfast, session, id);
  const { goesOn } = await answer(holdfast.calls, id);
  return { callId: id, session: null, goesOn };
}

type CallWithContext = Awaited<ReturnType<typeof withContext>>[number];

function callsResult(calls: CallWithContext[], namespaces: string[], unreadable: Unreadable[]) {
  const waiting = calls.filter(({ status }) => status === "waiting").length;
  return { waiting, namespaces, unreadable, calls };
}

export const callOperations = [
  query("calls", "List calls without an outcome, of all sessions or one; or every call of one session", {
    input: z.strictObject({
      session: text.optional(),
      open: z.boolean().optional(),
    }),
    result: z.strictObject({
      waiting: z.int(),
      /** The namespaces that were searched. */
      namespaces: z.array(text),
      /** Sessions that could not be decoded. Their calls are listed without arguments. */
      unreadable: z.array(unreadable),
      calls: z.array(view.openCall),
    }),
    async run(context, { session: typed, open = false }) {
      const holdfast = await context.holdfast();
      const { namespace } = holdfast.journal;
      if (typed !== undefined) {
        const rows = await callsOf(holdfast, await sessionId(holdfast, typed));
        const found = rows.filter(({ call }) => !open || call.open);
        const calls = await withContext(holdfast, found, await openCallRows(holdfast.journal));
        return callsResult(calls, [namespace], []);
      }
      const calls: CallWithContext[] = [];
      const unreadable: Unreadable[] = [];
      const journals = await context.journals();
      for (const journal of journals) {
        const there = journal === holdfast.journal ? holdfast : new Holdfast(journal);
        const rows = await openCallRows(journal);
        const found = await openCalls(there, rows, (each) => unreadable.push(each));
        calls.push(...(await withContext(there, found, rows)));
      }
      return callsResult(
        calls,
        journals.map((each) => each.namespace),
        unreadable,
      );
    },
  }),
  mutation(
    "resolve",
    "Resolve a call that waits or that no process runs: it landed, retry it, or it failed",
    {
      who: "person",
      vouches: isOfPerson,
      input: named.extend({
        outcome: z.enum(["landed", "retry", "failed"]),
        result: z.json().optional(),
        by: text.min(1),
        why: text.min(1),
      }),
      result: answered.extend({ outcome: text, hasResult: z.boolean() }),
      async run(context, { callId: typed, session, outcome, result, ...rest }) {
        const hasResult = outcome === "landed" && result !== undefined;
        const answer = outcome === "landed" ? { outcome, ...definedFields({ result }) } : { outcome };
        const done = await answerCall(context, typed, session, outcome === "retry", (calls, call) =>
          calls.resolve(call, { ...answer, ...definedFields(rest), ...context.via, ...context.signsAnswers }),
        );
        return { ...done, outcome, hasResult };
      },
    },
  ),
  mutation("approve", "Let a call run that waits for approval, perhaps with other arguments", {
    who: "person",
    vouches: isOfPerson,
    input: named.extend({
      args: z.json().optional(),
      expiresInMs: z.int().positive().optional(),
      by: text.min(1),
      why: text.min(1).optional(),
    }),
    result: answered.extend({ approvedUntil: text.nullable() }),
    async run(context, { callId: typed, session, expiresInMs, ...rest }) {
      const { journal } = await context.holdfast();
      const approvedUntil = expiresInMs === undefined ? null : isoTime(journal.now() + expiresInMs);
      const done = await answerCall(context, typed, session, true, (calls, call) =>
        calls.approve(call, {
          ...definedFields({ ...rest, expiresInMs }),
          ...context.via,
          ...context.signsAnswers,
        }),
      );
      return { ...done, approvedUntil };
    },
  }),
  mutation("deny", "Refuse a call that waits for approval: the model reads why", {
    who: "person",
    vouches: isOfPerson,
    input: named.extend({ by: text.min(1), why: text.min(1) }),
    result: answered,
    run: (context, { callId: typed, session, ...rest }) =>
      answerCall(context, typed, session, false, (calls, call) =>
        calls.deny(call, { ...definedFields(rest), ...context.via, ...context.signsAnswers }),
      ),
  }),
];
