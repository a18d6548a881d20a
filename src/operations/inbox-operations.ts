/** Operations over the whole store: everything undecided, the ledger of all sessions, the fleet. */

import * as z from "zod";
import { shellWord, streamId, streamName } from "../model/names.ts";
import {
  type Call,
  exceededLimit,
  type SessionState,
  sessionKind,
  spentAndReserved,
} from "../model/session/index.ts";
import { age } from "../model/time.ts";
import type { Holdfast } from "../open.ts";
import type { ItemRow, LeaseRow, StreamRow } from "../store.ts";
import { openCallViews } from "./call-operations.ts";
import type { Context } from "./context.ts";
import { fleet, readFleet } from "./fleet.ts";
import { definedFields, query } from "./operation.ts";
import { iso, isoOrNull, pickFields, time } from "./record-views.ts";
import { heldBy } from "./session-operations.ts";
import * as view from "./session-views.ts";
import { abandonedNeeds, openCallRows, readStatus, sessionLeases } from "./status.ts";
import { openOptionsOf } from "./store-place.ts";

const text = z.string();

// ---- The inbox

const INBOX_KINDS = [
  "call",
  "approval",
  "blocker",
  "claim",
  "task",
  "budget",
  "edit",
  "crash",
  "session",
  "review",
] as const;

const undecided = z.strictObject({
  kind: z.enum(INBOX_KINDS),
  /** The same in every answer, while the thing is undecided. */
  id: text,
  what: text,
  since: time.nullable(),
  session: text.nullable(),
  goal: text.nullable(),
  /** The call, if it is one, with everything that an answer needs to know. */
  call: view.openCall.nullable(),
  /** For a budget: the unit whose limit is reached. */
  budget: z.strictObject({ unit: text, spent: z.number(), limit: z.number() }).nullable(),
  /** For an act that a pull brought: the event that `review --accept` or `retract` names. */
  event: text.nullable(),
  /** The process that has its session, or had it when it died. */
  heldBy: view.holder.nullable(),
  goneHolder: view.holder.nullable(),
  /** The position of its session or goal: an answer that carries it is refused if the state has changed. */
  seq: z.int().nullable(),
  command: text,
});
type Undecided = z.input<typeof undecided>;

const EMPTY = {
  since: null,
  session: null,
  goal: null,
  call: null,
  budget: null,
  event: null,
  heldBy: null,
  goneHolder: null,
  seq: null,
};
const ACTIVE_READ = 2_000;
const BLOCKERS_READ = 500;
const PULLED_READ = 200;
const PAUSED_READ = 100;
const GOALS_READ = 50;
/** Characters of a uid that the command line prints and accepts. */
const SHORT_UID = 12;

async function callItems(holdfast: Holdfast, rows: readonly ItemRow[], limit: number): Promise<Undecided[]> {
  const { journal } = holdfast;
  const calls = await openCallViews(holdfast, rows, limit);
  const sessions = [...new Set(calls.map(({ session }) => session))];
  const around = new Map(
    await Promise.all(
      sessions.map(async (id) => {
        const [holder, row] = await Promise.all([
          heldBy(holdfast, id),
          journal.row(streamName("session", id)),
        ]);
        return [id, { ...holder, seq: row.head.seq, goal: row.facets.goal }] as const;
      }),
    ),
  );
  return calls
    .filter(
      ({ status, unattended, waitsForSubAgent }) => (status === "waiting" || unattended) && !waitsForSubAgent,
    )
    .map((call) => {
      const { session, tool, unbegun } = call;
      const { held = null, gone = null, seq = null, goal = null } = around.get(session) ?? {};
      const named = `${call.callId} --session ${shellWord(session)} --why …`;
      return {
        kind: unbegun ? "approval" : "call",
        id: `call ${session} ${call.callId}`,
        what: unbegun ? `${tool} waits for approval` : `${tool}: ${call.why ?? "its outcome is unknown"}`,
        ...EMPTY,
        since: call.issuedAt,
        ...{ session, goal, call, seq },
        heldBy: held && pickFields(view.holder, held),
        goneHolder: gone && pickFields(view.holder, gone),
        command: unbegun
          ? `holdfast approve ${named}`
          : `holdfast resolve ${call.callId} landed|retry|failed --session ${shellWord(session)} --why …`,
      };
    });
}

async function sessionItems(context: Context, { journal }: Holdfast): Promise<Undecided[]> {
  const asked = { of: "streams", kind: "session", status: "active", limit: ACTIVE_READ } as const;
  const { rows } = await journal.list<"streams">(asked);
  const { dead } = await sessionLeases(
    journal,
    rows.map(({ stream }) => stream),
  );
  const found = [
    ...rows.flatMap((row) => [...sessionNeeds(row, dead.get(row.stream), context.now())]),
    ...(await budgetNeeds(journal, rows)),
  ];
  const abandoned = (await abandonedNeeds(journal, context.now())).map(({ what, command }) => {
    const session = command.split(" ").at(-1) ?? null;
    return { ...EMPTY, kind: "session" as const, id: `abandoned ${session}`, what, session, command };
  });
  const known = new Set(abandoned.map(({ session }) => session));
  return [...found.filter(({ kind, session }) => kind !== "session" || !known.has(session)), ...abandoned];
}

function* sessionNeeds(row: StreamRow, dead: LeaseRow | undefined, now: number): Generator<Undecided> {
  const { stream, facets, updatedAt, head } = row;
  const session = streamId(stream);
  const base = { ...EMPTY, session, goal: facets.goal, since: iso(updatedAt), seq: head.seq };
  const name = facets.title ?? session;
  if (dead?.holder) {
    const { label, host, pid } = dead.holder;
    const what = `${name} crashed: ${label} (pid ${pid} on ${host}) is gone`;
    const goneHolder = pickFields(view.holder, dead.holder);
    yield {
      ...base,
      kind: "crash",
      id: `crash ${session}`,
      what,
      goneHolder,
      command: "holdfast supervise --once",
    };
  }
  if (facets.expiresAt !== null && facets.expiresAt < now) {
    const what = `${name} is past its time to live, since ${age(now - facets.expiresAt)}`;
    yield {
      ...base,
      kind: "session",
      id: `stale ${session}`,
      what,
      command: `holdfast session retry ${shellWord(session)}`,
    };
  }
}

/** A used-up budget, and one that leaves no room for the next model call of a session that wants one. */
async function budgetNeeds(journal: Holdfast["journal"], rows: readonly StreamRow[]): Promise<Undecided[]> {
  const found: Undecided[] = [];
  let toRead = PAUSED_READ;
  for (const row of rows) {
    const limited = budgetRows(row.facets.budget).flatMap(([unit, { spent, limit }]) =>
      limit === null ? [] : [{ unit, spent, limit }],
    );
    const usedUp = limited.filter(({ spent, limit }) => spent >= limit);
    found.push(...usedUp.map((each) => budgetItem(row, each, "has used up its budget")));
    if (usedUp.length > 0 || !limited.some(({ spent, limit }) => spent > limit / 2) || toRead-- <= 0)
      continue;
    const paused = pausedBudget((await journal.load(sessionKind, streamId(row.stream))).state);
    if (paused) found.push(budgetItem(row, paused, "is paused: its budget has no room for a model call"));
  }
  return found;
}

/** The limit that the next model call would exceed, if it costs as much as the largest so far. */
function pausedBudget({ messages, budget, largestCall }: SessionState): Undecided["budget"] {
  const last = messages.at(-1);
  if (!last || last.role === "assistant" || Object.keys(budget.reserved).length > 0) return null;
  const over = exceededLimit(budget, { ...largestCall, turns: 1 });
  return over && { unit: over.unit, spent: spentAndReserved(budget)[over.unit] ?? 0, limit: over.limit };
}

function budgetItem(
  { stream, facets, updatedAt, head }: StreamRow,
  budget: NonNullable<Undecided["budget"]>,
  words: string,
): Undecided {
  const { unit, spent, limit } = budget;
  const session = streamId(stream);
  const amount = (value: number): string => (unit === "usd" ? `$${value}` : `${value} ${unit}`);
  return {
    ...EMPTY,
    ...{ session, goal: facets.goal, since: iso(updatedAt), seq: head.seq, budget },
    kind: "budget",
    id: `budget ${session} ${unit}`,
    what: `${facets.title ?? session} ${words}: ${amount(spent)} of ${amount(limit)}`,
    command: `holdfast session budget ${shellWord(session)} --${unit} … --why …`,
  };
}

function budgetRows(facet: string | null): [unit: string, { spent: number; limit: number | null }][] {
  return facet === null ? [] : Object.entries(JSON.parse(facet));
}

async function goalItems(context: Context, { journal }: Holdfast): Promise<Undecided[]> {
  const { notMerged, place } = context;
  const { goals } = await readStatus(journal.store, {
    ...openOptionsOf(place),
    now: context.now(),
    notMerged,
    goalsShown: GOALS_READ,
  });
  const edits = notMerged.map((what) => {
    return { ...EMPTY, kind: "edit" as const, id: `edit ${what}`, what, command: "holdfast check" };
  });
  const flag = (goal: string): string => (goals.length === 1 ? "" : ` --goal ${goal}`);
  const tasks = goals.flatMap(({ goal, working, submitted, failed }): Undecided[] => {
    const claims = working.filter(({ by, elsewhere }) => by === null && !elsewhere);
    const base = { ...EMPTY, goal };
    return [
      ...claims.map(({ task, title }) => {
        const command = `holdfast task release ${task}${flag(goal)}`;
        const what = `${task} ${title}: claimed, and nobody works on it`;
        return { ...base, kind: "claim" as const, id: `claim ${goal} ${task}`, what, command };
      }),
      ...[["submitted", submitted, "to verify"] as const, ["failed", failed, "failed"] as const].flatMap(
        ([status, count, words]) => {
          const command = `holdfast task list --status ${status}${flag(goal)}`;
          const what = `${count} ${count === 1 ? "task" : "tasks"} of ${goal} ${words}`;
          return count === 0
            ? []
            : [{ ...base, kind: "task" as const, id: `${status} ${goal}`, what, command }];
        },
      ),
    ];
  });
  return [...(await blockerItems(journal, flag)), ...(await pulledItems(journal, flag)), ...tasks, ...edits];
}

/** Acts of people that a pull brought. They have no effect until a person confirms them. */
async function pulledItems(
  journal: Holdfast["journal"],
  flag: (goal: string) => string,
): Promise<Undecided[]> {
  const asked = { of: "items", kind: "held", open: true, limit: PULLED_READ } as const;
  const { rows } = await journal.list<"items">(asked);
  return rows.map(({ stream, id, name, at }) => {
    const goal = streamId(stream);
    return {
      ...EMPTY,
      kind: "review",
      id: `review ${goal} ${id}`,
      what: name ?? id,
      goal,
      event: id,
      since: isoOrNull(at),
      command: `holdfast review --accept ${id.slice(0, SHORT_UID)}${flag(goal)}`,
    };
  });
}

async function blockerItems(
  journal: Holdfast["journal"],
  flag: (goal: string) => string,
): Promise<Undecided[]> {
  const asked = { of: "items", kind: "blocker", open: true, limit: BLOCKERS_READ } as const;
  const { rows } = await journal.list<"items">(asked);
  return rows
    .filter(({ status }) => status === "active")
    .map(({ stream, id, name, at }) => {
      const goal = streamId(stream);
      const command = `holdfast block resolve ${id} --resolution …${flag(goal)}`;
      const what = `${id} ${name ?? ""}`;
      return {
        ...EMPTY,
        kind: "blocker",
        id: `blocker ${goal} ${id}`,
        what,
        goal,
        since: isoOrNull(at),
        command,
      };
    });
}

// ---- The ledger

const entry = view.call.extend({
  /** A short form of what it returned. */
  result: text.nullable(),
  /** How often the session asked for this key, repeats that did not run included. */
  asked: z.int(),
  repeats: z.strictObject({ session: text, callId: text }).nullable(),
});

const LEDGER_MS = 1_000;
const LEDGER_PAGE = 200;

interface LedgerFilter {
  readonly text?: string | undefined;
  readonly tool?: string | undefined;
  readonly status?: string | undefined;
}

function entryView(id: string, state: SessionState, call: Call): z.input<typeof entry> {
  const { result, repeats, key } = call;
  const isCancelled = state.status === "cancelled";
  const asked = [...state.calls.values()].filter((each) => each.key === key).length;
  return {
    ...view.callView(id, call, { isHeld: false, isCancelled }),
    result: result && view.resultText(result).slice(0, 2_000),
    asked,
    repeats,
  };
}

function isWanted(call: Call, id: string, { text: words, tool, status }: LedgerFilter): boolean {
  if (tool !== undefined && call.tool !== tool) return false;
  if (status !== undefined && call.status !== status) return false;
  if (words === undefined || words === "") return true;
  const shown = [id, call.callId, call.tool, call.key, call.vendorKey, JSON.stringify(call.args)].join("\n");
  return shown.toLowerCase().includes(words.toLowerCase());
}

/** Reads whole pages until there are enough entries or the time is up, so that a cursor can continue. */
async function searchLedger({ journal }: Holdfast, filter: LedgerFilter, limit: number, cursor?: string) {
  const states = new Map<string, SessionState>();
  const entries: z.input<typeof entry>[] = [];
  const stop = performance.now() + LEDGER_MS;
  let from = definedFields({ cursor });
  for (let searched = 0; ; ) {
    const page = await journal.list<"items">({ of: "items", kind: "call", limit: LEDGER_PAGE, ...from });
    for (const { stream, id: callId } of page.rows) {
      const id = streamId(stream);
      const state = states.get(id) ?? (await journal.load(sessionKind, id)).state;
      states.set(id, state);
      const call = state.calls.get(callId);
      if (call && isWanted(call, id, filter)) entries.push(entryView(id, state, call));
    }
    searched += page.rows.length;
    const isEnough = entries.length >= limit || performance.now() > stop;
    if (page.cursor === null || isEnough) return { entries, cursor: page.cursor, searched };
    from = { cursor: page.cursor };
  }
}

export const inboxOperations = [
  query(
    "inbox",
    "List everything undecided: calls, approvals, blockers, claims, budgets, pulled acts, crashes",
    {
      input: z.strictObject({ limit: z.int().positive().optional() }),
      result: z.strictObject({
        items: z.array(undecided),
        /** Open calls that this answer leaves out. */
        leftOut: z.int(),
      }),
      async run(context, { limit = 200 }) {
        const holdfast = await context.current();
        const rows = await openCallRows(holdfast.journal);
        const calls = await callItems(holdfast, rows, limit);
        const items = [
          ...calls,
          ...(await sessionItems(context, holdfast)),
          ...(await goalItems(context, holdfast)),
        ];
        return { items, leftOut: Math.max(0, rows.length - limit) };
      },
    },
  ),
  query("ledger", "Find calls of all sessions by key, argument, tool or id, oldest first", {
    input: z.strictObject({
      /** Part of a key, of the arguments, of the tool, or of an id. */
      text: text.optional(),
      tool: text.optional(),
      status: text.optional(),
      limit: z.int().positive().optional(),
      cursor: text.optional(),
    }),
    result: z.strictObject({
      calls: z.array(entry),
      /** Calls that were looked at. */
      searched: z.int(),
      /** Pass it to continue the search; null at its end. */
      cursor: text.nullable(),
    }),
    async run(context, { limit = 50, cursor: from, ...filter }) {
      const holdfast = await context.holdfast();
      const { entries, cursor, searched } = await searchLedger(holdfast, filter, limit, from);
      return { calls: entries, searched, cursor };
    },
  }),
  query("fleet", "Show who runs where, spending per hour, latencies, the share of unknown outcomes", {
    input: z.strictObject({ hours: z.int().positive().max(720).optional() }),
    result: fleet,
    run: (context, { hours = 24 }) => readFleet(context, hours),
  }),
];
