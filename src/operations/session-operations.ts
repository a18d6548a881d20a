/** Operations on sessions from outside: list, show, fork, cancel, without taking their lease. */

import * as z from "zod";
import { allRows, everyRow, isUndecodable } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { isSessionId, shellWord, streamId, streamName } from "../model/names.ts";
import { SESSION_STATUSES, sessionKind } from "../model/session/index.ts";
import type { Holdfast } from "../open.ts";
import type { SessionSummary } from "../session/index.ts";
import { type Context, matchId } from "./context.ts";
import { definedFields, mutation, query } from "./operation.ts";
import { pickFields } from "./record-views.ts";
import * as view from "./session-views.ts";
import { blocksText } from "./session-views.ts";
import { isSubAgent, sessionLeases } from "./status.ts";

const text = z.string();
const session = text;
const ROWS_AT_ONCE = 1_000;

/** The typed id, or the only session whose id begins with it. */
export async function sessionId(holdfast: Holdfast, typed: string): Promise<string> {
  const { journal } = holdfast;
  if (isSessionId(typed) && (await journal.row(streamName("session", typed))).state === "live") return typed;
  const asked = { of: "streams", kind: "session", limit: ROWS_AT_ONCE } as const;
  const rows = await allRows((from) => journal.list<"streams">({ ...asked, ...from }));
  const ids = rows.map(({ stream }) => streamId(stream));
  return matchId("session", typed, ids, "STREAM_NOT_FOUND", "holdfast session list");
}

async function findSession(context: Context, typed: string): Promise<{ holdfast: Holdfast; id: string }> {
  const holdfast = await context.holdfast();
  return { holdfast, id: await sessionId(holdfast, typed) };
}

async function parentOf({ journal }: Holdfast, id: string): Promise<string | null> {
  if (!isSubAgent(id)) return null;
  try {
    return (await journal.load(sessionKind, id)).state.parent?.session ?? null;
  } catch (error) {
    // The list shows a session that cannot be decoded, too.
    if (isUndecodable(error)) return null;
    throw error;
  }
}

/** A session without a title is listed by the first message of its user, which is among its first events. */
const OPENING_EVENTS = 12;

async function openingOf({ journal }: Holdfast, id: string): Promise<string | null> {
  try {
    const { head } = await journal.row(streamName("session", id));
    const { state } = await journal.load(sessionKind, id, Math.min(head.seq, OPENING_EVENTS));
    return view.openingText(state.messages);
  } catch (error) {
    // The list shows a session that cannot be decoded, too.
    if (isUndecodable(error)) return null;
    throw error;
  }
}

export async function heldBy({ journal }: Holdfast, id: string): Promise<view.HeldBy> {
  const name = streamName("session", id);
  const { held, dead } = await sessionLeases(journal, [name]);
  return { held: held.get(name)?.holder ?? null, gone: dead.get(name)?.holder ?? null };
}

/** Whether a process runs an active session. Its lease tells, no facet does. */
const ACTIVE_WORDS = ["running", "crashed", "idle"] as const;
type ActiveWord = (typeof ACTIVE_WORDS)[number];

function isActiveWord(status: string | undefined): status is ActiveWord {
  return ACTIVE_WORDS.some((word) => word === status);
}

type Found = { readonly summary: SessionSummary; readonly running: boolean; readonly crashed: boolean };

async function withHolders({ journal }: Holdfast, sessions: readonly SessionSummary[]): Promise<Found[]> {
  const names = sessions.map(({ id }) => streamName("session", id));
  const { held, dead } = await sessionLeases(journal, names);
  return sessions.map((summary, index) => {
    const name = names[index] ?? "";
    return { summary, running: held.has(name), crashed: dead.has(name) };
  });
}

interface Wanted {
  readonly status?: (typeof SESSION_STATUSES)[number] | ActiveWord | undefined;
  readonly goal?: string | undefined;
  readonly text?: string | undefined;
  readonly tool?: string | undefined;
  readonly metadata?: string | undefined;
}

/** One answer looks at no more sessions than this; its cursor continues the search. */
const MAX_SEARCHED = 5_000;

/** Sessions that fit, latest change first. Conditions beyond the store's own lists are checked one by one. */
async function findSessions(holdfast: Holdfast, wanted: Wanted, limit: number, cursor: string | undefined) {
  const { status, goal, ...rest } = wanted;
  const isActive = isActiveWord(status);
  const metadata = indexedMetadata(rest.metadata);
  const filter = definedFields({ status: isActive ? ("active" as const) : status, goal, metadata });
  const unlisted = { ...rest, metadata: metadata ? undefined : rest.metadata };
  const isPlain = !isActive && Object.values(unlisted).every((each) => each === undefined);
  const found: Found[] = [];
  let from = definedFields({ cursor });
  for (let searched = 0; ; ) {
    const atOnce = Math.min(ROWS_AT_ONCE, limit - found.length);
    const page = await holdfast.sessions.list({ ...filter, ...from, limit: atOnce });
    const rows = await withHolders(holdfast, page.sessions);
    for (const row of rows)
      if (isPlain || (await fits(holdfast, row, { status, ...unlisted }))) found.push(row);
    searched += rows.length;
    const isEnough = found.length >= limit || searched >= MAX_SEARCHED;
    if (page.cursor === null || isEnough) return { sessions: found, cursor: page.cursor };
    from = { cursor: page.cursor };
  }
}

async function fits(holdfast: Holdfast, found: Found, wanted: Wanted): Promise<boolean> {
  const { summary, running, crashed } = found;
  const { status, text: words, tool, metadata } = wanted;
  if (isActiveWord(status) && status !== (running ? "running" : crashed ? "crashed" : "idle")) return false;
  if (words !== undefined) {
    const shown = `${summary.id} ${summary.title ?? ""} ${summary.goal ?? ""}`.toLowerCase();
    if (!shown.includes(words.toLowerCase())) return false;
  }
  const { journal } = holdfast;
  if (tool !== undefined && !(await hasTool(journal, summary.id, tool))) return false;
  if (metadata === undefined) return true;
  try {
    const { state } = await journal.load(sessionKind, summary.id);
    return hasMetadata(state.metadata, metadata);
  } catch (error) {
    // The metadata of a session that cannot be decoded is unknown.
    if (isUndecodable(error)) return false;
    throw error;
  }
}

/** `customer=4711` has an index. A name alone has none, nor has a value that is a list or an object. */
function indexedMetadata(asked: string | undefined): Record<string, string> | undefined {
  const [, name, value] = /^([^=]+)=(?![[{])(.*)$/s.exec(asked ?? "") ?? [];
  return name === undefined || value === undefined ? undefined : { [name]: value };
}

async function hasTool(journal: Holdfast["journal"], id: string, tool: string): Promise<boolean> {
  const asked = {
    of: "items",
    kind: "call",
    stream: streamName("session", id),
    limit: ROWS_AT_ONCE,
  } as const;
  for await (const { name } of everyRow((from) => journal.list<"items">({ ...asked, ...from })))
    if (name === tool) return true;
  return false;
}

/** `customer=4711` compares one value; `customer` alone asks whether there is one. */
function hasMetadata(metadata: Readonly<Record<string, unknown>>, asked: string): boolean {
  const at = asked.indexOf("=");
  const name = at < 0 ? asked : asked.slice(0, at);
  if (!Object.hasOwn(metadata, name)) return false;
  const value = metadata[name];
  return at < 0 || (typeof value === "string" ? value : JSON.stringify(value)) === asked.slice(at + 1);
}

export async function withVersionHint<Result>(id: string, asked: Promise<Result>): Promise<Result> {
  return asked.catch((error: unknown) => {
    if (!isHoldfastError(error, "VERSION_NOT_FOUND")) throw error;
    throw new HoldfastError("VERSION_NOT_FOUND", error.message, {
      hint: `List its versions: holdfast session versions ${shellWord(id)}. Deleted versions are gone.`,
      cause: error,
      data: error.data,
    });
  });
}

/** Values that a session must have, such as `{ user: "42" }`. */
const metadata = z
  .record(text, z.union([text, z.number(), z.boolean()]))
  .refine((value) => Object.keys(value).length > 0, "has no value");

const message = z.strictObject({ id: text, role: text, text });
const laterEffect = z.strictObject({ callId: text, tool: text, status: text });
const amounts = z.record(text, z.number());

export const sessionOperations = [
  query("session list", "List sessions, the last changed first", {
    input: z.strictObject({
      status: z.enum([...SESSION_STATUSES, ...ACTIVE_WORDS]).optional(),
      goal: text.optional(),
      /** Part of its id, title or goal. */
      text: text.optional(),
      /** Only sessions that called this tool. */
      tool: text.optional(),
      /** `customer=4711`, or a name alone. */
      metadata: text.optional(),
      limit: z.int().positive().optional(),
      cursor: text.optional(),
    }),
    result: z.strictObject({
      sessions: z.array(view.sessionRow),
      more: z.boolean(),
      /** Pass it for the next page; null after the last. */
      cursor: text.nullable(),
    }),
    async run(context, { limit = 50, cursor: from, ...wanted }) {
      const holdfast = await context.holdfast();
      const { sessions, cursor } = await findSessions(holdfast, wanted, limit, from);
      const rows = sessions.map(async ({ summary, ...held }) =>
        view.sessionRowView(summary, {
          ...held,
          parent: await parentOf(holdfast, summary.id),
          opening: summary.title === null ? await openingOf(holdfast, summary.id) : null,
        }),
      );
      return { sessions: await Promise.all(rows), more: cursor !== null, cursor };
    },
  }),
  query("session show", "Show a session: status, spending, calls, holder", {
    input: z.strictObject({
      session,
      /** Only this many of the latest calls; all of them unless set. */
      calls: z.int().nonnegative().optional(),
    }),
    result: view.session,
    async run(context, { session: typed, calls = Number.MAX_SAFE_INTEGER }) {
      const { holdfast, id } = await findSession(context, typed);
      const [detail, { head }] = await Promise.all([
        holdfast.sessions.get(id),
        holdfast.journal.row(streamName("session", id)),
      ]);
      const latest = calls === 0 ? [] : detail.calls.slice(-calls);
      const shown = { ...detail, calls: latest };
      return view.sessionView(shown, await heldBy(holdfast, id), {
        seq: head.seq,
        callCount: detail.calls.length,
      });
    },
  }),
  query("session versions", "List the numbered versions of a session", {
    input: z.strictObject({ session }),
    result: z.strictObject({ session: text, versions: z.array(view.version) }),
    async run(context, input) {
      const { holdfast, id } = await findSession(context, input.session);
      const { versions } = await holdfast.sessions.get(id);
      const rows = versions.map(({ at, ...rest }) => ({ ...rest, at: new Date(at).toISOString() }));
      return { session: id, versions: rows };
    },
  }),
  query("session diff", "Compare two versions: system prompt, messages, plan, spending", {
    input: z.strictObject({ session, before: z.int(), after: z.int() }),
    result: z.strictObject({
      session: text,
      before: z.int(),
      after: z.int(),
      system: z.strictObject({ before: text.nullable(), after: text.nullable() }),
      added: z.array(message),
      removed: z.array(message),
      changed: z.array(z.strictObject({ before: message, after: message })),
      same: z.int(),
      steps: z.array(z.strictObject({ before: text.nullable(), after: text.nullable() })),
      spent: z.strictObject({ before: amounts, after: amounts }),
    }),
    async run(context, { session: typed, before, after }) {
      const { holdfast, id } = await findSession(context, typed);
      const diff = await withVersionHint(id, holdfast.sessions.diff(id, before, after));
      const toText = ({ id: messageId, role, blocks }: (typeof diff.messages.added)[number]) => {
        return { id: messageId, role, text: blocksText(blocks) };
      };
      const step = (each: (typeof diff.plan.steps)[number]["before"]): string | null =>
        each && `${each.id} ${each.status}: ${each.description}`;
      return {
        session: id,
        before,
        after,
        system: diff.system,
        added: diff.messages.added.map(toText),
        removed: diff.messages.removed.map(toText),
        changed: diff.messages.changed.map((it) => ({ before: toText(it.before), after: toText(it.after) })),
        same: diff.messages.same,
        steps: diff.plan.steps.map((each) => ({ before: step(each.before), after: step(each.after) })),
        spent: { before: { ...diff.budget.spent.before }, after: { ...diff.budget.spent.after } },
      };
    },
  }),
  mutation("session fork", "Create a session that shares another's past, up to a version", {
    vouches: ({ live }) => live === true,
    input: z.strictObject({
      session,
      id: text,
      version: z.int().optional(),
      /** The fork may have effects at once; otherwise it refuses them until a person allows them. */
      live: z.boolean().optional(),
    }),
    result: z.strictObject({
      session: text,
      from: text,
      version: z.int(),
      effects: z.enum(["on", "off"]),
      laterEffects: z.array(laterEffect),
    }),
    async run(context, { session: typed, id, version, live }) {
      const { holdfast, id: from } = await findSession(context, typed);
      const options = definedFields({ version, effects: live ? ("live" as const) : undefined });
      const report = await withVersionHint(from, holdfast.sessions.fork(from, id, options));
      const laterEffects = report.laterEffects.map((each) => pickFields(laterEffect, each));
      const effects = live ? ("on" as const) : ("off" as const);
      return { session: report.id, from, version: report.version, effects, laterEffects };
    },
  }),
  mutation("session effects", "Allow or forbid a fork's own effects", {
    who: "person",
    vouches: true,
    input: z.strictObject({ session, effects: z.enum(["on", "off"]), by: text.min(1), why: text.min(1) }),
    result: z.strictObject({ session: text, effects: z.enum(["on", "off"]) }),
    async run(context, { session: typed, effects, by, why }) {
      const { holdfast, id } = await findSession(context, typed);
      await holdfast.sessions.setEffects(id, effects === "on" ? "live" : "refused", {
        by,
        why,
        ...context.via,
      });
      return { session: id, effects };
    },
  }),
  mutation(
    "session retry",
    "Retry a session that supervisors gave up on: its workers kept dying, or it is past its time to live",
    {
      who: "person",
      vouches: true,
      input: z.strictObject({ session, why: text.min(1).optional() }),
      result: z.strictObject({ session: text }),
      async run(context, { session: typed, why }) {
        const { holdfast, id } = await findSession(context, typed);
        await holdfast.sessions.retry(id, { by: context.by.name, ...definedFields({ why }), ...context.via });
        return { session: id };
      },
    },
  ),
  mutation("session prompt", "Queue a message for a session: its next turn starts with it", {
    who: "person",
    vouches: true,
    input: z.strictObject({ session, text, id: text.optional() }),
    result: z.strictObject({ session: text, prompt: text }),
    async run(context, { session: typed, ...prompt }) {
      const { holdfast, id } = await findSession(context, typed);
      const said = { by: context.by.name, ...context.via };
      return { session: id, prompt: await holdfast.sessions.prompt(id, definedFields(prompt), said) };
    },
  }),
  mutation("session budget", "Raise the limits of a session, so that a paused one can continue", {
    who: "person",
    vouches: true,
    input: z.strictObject({
      session,
      usd: z.number().positive().optional(),
      tokens: z.number().positive().optional(),
      turns: z.number().positive().optional(),
      why: text.min(1).optional(),
    }),
    result: z.strictObject({ session: text, spent: amounts, limit: amounts }),
    async run(context, { session: typed, why, ...limits }) {
      const { holdfast, id } = await findSession(context, typed);
      const said = { by: context.by.name, ...definedFields({ why }), ...context.via };
      await holdfast.sessions.raiseBudget(id, definedFields(limits), said);
      const { budget } = await holdfast.sessions.get(id);
      return { session: id, spent: { ...budget.spent }, limit: { ...budget.limit } };
    },
  }),
  mutation("session drop", "Delete a version of a session: its number and label, not what happened", {
    who: "person",
    vouches: true,
    input: z.strictObject({ session, version: z.int().positive() }),
    result: z.strictObject({ session: text, version: z.int() }),
    async run(context, { session: typed, version }) {
      const { holdfast, id } = await findSession(context, typed);
      const said = { by: context.by.name, ...context.via };
      await withVersionHint(id, holdfast.sessions.deleteVersion(id, version, said));
      return { session: id, version };
    },
  }),
  mutation("session cancel", "Stop a session, even while another process runs it", {
    who: "person",
    vouches: true,
    input: z.strictObject({ session, by: text.min(1), why: text.min(1) }),
    result: z.strictObject({ session: text, status: text }),
    async run(context, { session: typed, by, why }) {
      const { holdfast, id } = await findSession(context, typed);
      await holdfast.sessions.cancel(id, { by, why, ...context.via });
      return { session: id, status: (await holdfast.sessions.get(id)).status };
    },
  }),
  mutation("session erase", "Erase sessions for privacy, with the artifacts that only they refer to", {
    who: "person",
    vouches: ({ dryRun }) => dryRun !== true,
    input: z.strictObject({
      session: text.optional(),
      metadata: metadata.optional(),
      dryRun: z.boolean().optional(),
    }),
    result: z.strictObject({
      dryRun: z.boolean(),
      erased: z.array(text),
      spared: z.array(z.strictObject({ id: text, why: text })),
    }),
    async run(context, { session: typed, metadata: values, dryRun = false }) {
      if ((typed === undefined) === (values === undefined)) {
        throw new HoldfastError("INPUT_INVALID", "session erase: name either a session or its metadata", {
          hint: "For example: holdfast session erase order-17, or --metadata user=42",
        });
      }
      const holdfast = await context.holdfast();
      // The whole id: the start of one might be another person's.
      const which = values === undefined ? (typed as string) : { metadata: values };
      const { erased, spared } = await holdfast.sessions.erase(which, { dryRun });
      return { dryRun, erased: [...erased], spared: [...spared] };
    },
  }),
];
