/**
 * Reads what `status` shows from the store's lists: facets, items, leases.
 *
 * It must cost little more than starting a process. So it loads no schema, and folds a goal only if a task is
 * in progress that no lease explains. Answers that need a goal's whole state (what is ready, which files
 * drifted) have commands of their own, and the page names them.
 */

import {
  allRows,
  isProvablyDead,
  loadStream,
  type PayloadCodec,
  payloadsOf,
  readRow,
} from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { type GoalState, goalFold, MERGE_NEWS_MS, type TaskClaim } from "../model/goal/index.ts";
import { shellWord, streamId, streamName } from "../model/names.ts";
import { didYouMean } from "../model/options.ts";
import { age } from "../model/time.ts";
import type { ItemRow, LeaseRow, Store, StreamRow } from "../store.ts";
import { goalRows, knownGoals, type Source } from "./current-goal.ts";
import { readSeal } from "./moved-store.ts";
import type { GoalStatus, Need, Status, Working } from "./status-view.ts";
import { openOptionsOf, type StorePlace } from "./store-place.ts";

const GOALS_SHOWN = 5;
const SESSIONS_COUNTED = 500;
const ROWS_AT_ONCE = 1_000;
const MERGE_NOTES_SHOWN = 10;

interface StatusOptions {
  readonly namespace?: string;
  readonly codecs?: readonly PayloadCodec[];
  /** Also what needs a person in other namespaces. */
  readonly coversAll?: boolean;
  readonly goal?: string | undefined;
  readonly now: number;
  readonly notMerged?: readonly string[];
  /** How many goals the answer has; the rest are counted. */
  readonly goalsShown?: number;
}

export async function readStatus(store: Store, options: StatusOptions): Promise<Status> {
  const { namespace = "default", codecs = [], now, notMerged = [], goalsShown = GOALS_SHOWN } = options;
  const source = { store, namespace, codecs };
  const all = await goalRows(source);
  const isWanted = ({ stream, facets }: StreamRow): boolean =>
    options.goal === undefined ? facets.status !== "done" : streamId(stream).startsWith(options.goal);
  const wanted = all.filter(isWanted).slice(0, goalsShown);
  if (options.goal !== undefined && wanted.length === 0) throw noGoal(options.goal, all);
  const { current: only } = knownGoals(all, null);
  /** A command names its goal unless there is only one. */
  const goalFlag = (goal: string): string => (goal === only ? "" : ` --goal ${goal}`);
  const goals: GoalStatus[] = [];
  const needs: Need[] = [];
  for (const row of wanted) {
    const goal = await goalStatus(source, row, now);
    goals.push(goal);
    const flag = goalFlag(goal.goal);
    needs.push(...(await reviewNeeds(source, row.stream, flag)), ...goalNeeds(goal, flag));
    needs.push(...(await blockerNeeds(source, row.stream, flag, now)));
  }
  const calls = await openCallRows(source);
  const sessions = await sessionCounts(source);
  const urgent = [
    ...(await callNeeds(source, calls, now)),
    ...crashNeeds(sessions.crashed),
    ...(await abandonedNeeds(source, now)),
  ];
  const others = options.coversAll ? await otherNamespaces(source) : [];
  const read = others.slice(0, NAMESPACES_READ);
  const elsewhere: Need[] = [];
  for (const other of read) elsewhere.push(...(await needsElsewhere({ ...source, namespace: other }, now)));
  const every = [...urgent, ...elsewhere, ...needs];
  return {
    ...(await readSeal(source)),
    namespace,
    otherNamespaces: others,
    unreadNamespaces: others.length - read.length,
    notMerged: [...notMerged],
    needs: every,
    goals,
    otherGoals: all.length - wanted.length,
    sessions,
    next: nextCommand(every, goals, goalFlag),
  };
}

/** Reading more would take longer than a person waits; `calls` covers all of them. */
const NAMESPACES_READ = 200;

async function otherNamespaces({ store, namespace }: Source): Promise<string[]> {
  const { rows } = await store.list<"namespaces">({ of: "namespaces" });
  return rows.map((row) => row.namespace).filter((each) => each !== namespace);
}

/** Calls and sessions of another namespace that need a person. Its goals have a status of their own. */
async function needsElsewhere(source: Source, now: number): Promise<Need[]> {
  const needs = [
    ...(await callNeeds(source, await openCallRows(source), now)),
    ...crashNeeds((await sessionCounts(source)).crashed),
    ...(await abandonedNeeds(source, now)),
  ];
  return needs.map(({ what, command }) => {
    return { what: `${source.namespace}: ${what}`, command: `${command} --namespace ${source.namespace}` };
  });
}

/** Ingests what hooks left and puts back the tasks of agents that are gone, in a store opened for this. */
export async function openAndPutBack(place: StorePlace, warn: (error: unknown) => void): Promise<void> {
  const { open } = await import("../open.ts");
  const { putBackAbandoned } = await import("./agent-sessions.ts");
  const holdfast = await open(place.address ?? {}, { ...openOptionsOf(place), warn });
  try {
    await putBackAbandoned(holdfast.journal, place);
  } finally {
    await holdfast.close();
  }
}

interface GoalSource extends Source {
  readonly codecs: readonly PayloadCodec[];
}

async function goalStatus(source: GoalSource, row: StreamRow, now: number): Promise<GoalStatus> {
  const { stream, facets } = row;
  const rows = await itemRows(source, { stream, kind: "task" });
  const count = (...statuses: string[]): number =>
    rows.filter(({ status }) => statuses.includes(status ?? "")).length;
  const inProgress = rows.filter(({ status }) => status === "in_progress");
  return {
    goal: streamId(stream),
    title: facets.title,
    status: facets.status ?? "active",
    stale: facets.expiresAt !== null && facets.expiresAt < now,
    tasks: rows.length - count("dropped"),
    done: count("done"),
    ready: count("open"),
    blocked: count("blocked"),
    submitted: count("submitted"),
    failed: count("failed"),
    working: await workingOn(source, stream, inProgress),
    crashed: await lastCrashes(source, stream),
    merged: await mergeNotes(source, stream, rows, now),
  };
}

export function openCallRows(source: Source): Promise<ItemRow[]> {
  return itemRows(source, { kind: "call", open: true });
}

function itemRows(
  { store, namespace }: Source,
  filter: { readonly kind: string; readonly stream?: string; readonly open?: true },
): Promise<ItemRow[]> {
  const request = { of: "items", namespace, limit: ROWS_AT_ONCE, ...filter } as const;
  return allRows((from) => store.list<"items">({ ...request, ...from }));
}

/** Finds who works on each task: the holder of its lease, else the claim in the goal's state. */
async function workingOn(source: GoalSource, stream: string, tasks: readonly ItemRow[]): Promise<Working[]> {
  const prefix = `${stream}/`;
  const holders = async (ids: readonly string[]): Promise<(id: string) => string | null> => {
    const names = ids.map((id) => prefix + id);
    const leases = await unreleased(source, names);
    const held = new Map([...leases].filter(([, { remainingMs }]) => remainingMs > 0));
    return (id) => held.get(prefix + id)?.holder?.label ?? null;
  };
  const holder = await holders(tasks.map(({ id }) => id));
  const found = tasks.map(({ id, name }) => {
    return { task: id, title: name ?? "", by: holder(id), elsewhere: false };
  });
  if (found.every(({ by }) => by !== null)) return found;
  const state = await foldGoal(source, stream);
  const claimOf = ({ task, by }: Working): TaskClaim | null =>
    by === null ? (state?.tasks.get(task)?.claim ?? null) : null;
  // A merge may have renumbered the task since, but its lease keeps the old number.
  const earlier = await holders(found.flatMap((each) => claimOf(each)?.as ?? []));
  return found.map((each) => {
    const claim = claimOf(each);
    if (!claim) return each;
    if (state?.origins.has(claim.uid ?? "")) return { ...each, by: claim.by.name, elsewhere: true };
    return { ...each, by: earlier(claim.as) };
  });
}

/** Null if the goal is encrypted or of a later release: then only lists can be shown. */
async function foldGoal({ codecs, ...source }: GoalSource, stream: string): Promise<GoalState | null> {
  try {
    return (await loadStream({ ...source, payloads: payloadsOf(source.store, codecs) }, goalFold, stream))
      .state;
  } catch (error) {
    if (!isHoldfastError(error) || error.code.startsWith("STORE_")) throw error;
    return null;
  }
}

/** The sessions that crashed after every other session of the goal had started. */
async function lastCrashes(source: Source, stream: string): Promise<GoalStatus["crashed"]> {
  const rows = await itemRows(source, { stream, kind: "history" });
  const started = Math.max(...rows.map(({ at }) => at ?? 0));
  return rows.flatMap(({ id, status, doneAt }) =>
    status === "crashed" && doneAt != null && doneAt >= started ? [{ session: id, at: doneAt }] : [],
  );
}

async function mergeNotes(
  source: Source,
  stream: string,
  tasks: readonly ItemRow[],
  now: number,
): Promise<string[]> {
  const finished = new Set(
    tasks.filter(({ status }) => status === "done" || status === "dropped").map(({ id }) => id),
  );
  const notes = await itemRows(source, { stream, kind: "merge" });
  const recent = notes.filter(
    ({ at, key, doneAt }) =>
      (doneAt ?? null) === null && now - (at ?? 0) <= MERGE_NEWS_MS && !finished.has(key ?? ""),
  );
  return recent
    .sort((a, b) => (b.at ?? 0) - (a.at ?? 0))
    .slice(0, MERGE_NOTES_SHOWN)
    .map(({ name }) => name ?? "");
}

async function sessionCounts(source: Source): Promise<Status["sessions"]> {
  const { store, namespace } = source;
  const request = { of: "streams", namespace, kind: "session", limit: SESSIONS_COUNTED } as const;
  const { rows, cursor } = await store.list<"streams">(request);
  const active = rows.filter(({ facets }) => (facets.status ?? "active") === "active");
  const { held, dead } = await sessionLeases(
    source,
    active.map(({ stream }) => stream),
  );
  const running = active.filter(({ stream }) => held.has(stream));
  const unheld = active.filter(({ stream }) => !held.has(stream) && !dead.has(stream));
  const waiting = unheld.filter(({ facets }) => facets.openCalls > 0).length;
  const queued = new Set(
    (await itemRows(source, { kind: "prompt", open: true })).map(({ stream }) => stream),
  );
  const prompted = unheld.filter(({ stream, facets }) => facets.openCalls === 0 && queued.has(stream)).length;
  // A parent's budget already includes what its sub-agents may spend and have spent.
  const payers = active.filter(({ stream }) => !isSubAgent(streamId(stream)));
  const budgets = payers.map(({ facets }) => usdOf(facets.budget));
  const limits = budgets.flatMap((each) => (each?.limit == null ? [] : [each.limit]));
  return {
    running: running.length,
    waiting,
    crashed: dead.size,
    prompted,
    idle: unheld.length - waiting - prompted,
    ended: rows.length - active.length,
    spentUsd: sum(budgets.map((each) => each?.spent ?? 0)),
    limitUsd: limits.length === 0 ? null : sum(limits),
    ofLatest: cursor === null ? null : rows.length,
  };
}

/** Told by its name, so that nothing need be read. */
export function isSubAgent(session: string): boolean {
  return /^sub-[0-9a-f]{32}$/.test(session);
}

function usdOf(budget: string | null): { spent: number; limit: number | null } | undefined {
  if (budget === null) return undefined;
  return (JSON.parse(budget) as { usd?: { spent: number; limit: number | null } }).usd;
}

function sum(numbers: readonly number[]): number {
  return Math.round(numbers.reduce((total, each) => total + each, 0) * 1e6) / 1e6;
}

function goalNeeds(goal: GoalStatus, flag: string): Need[] {
  const { goal: id, submitted, failed } = goal;
  const needs: readonly (readonly [isNeeded: boolean, what: string, command: string])[] = [
    [goal.stale, `${id} is stale`, "resume --force"],
    [goal.status === "blocked", `every task of ${id} is blocked`, "blockers"],
    [submitted > 0, `${submitted} of ${id} to verify`, "task list --status submitted"],
    [failed > 0, `${failed} failed in ${id}`, "task list --status failed"],
  ];
  return needs.flatMap(([isNeeded, what, command]) =>
    isNeeded ? [{ what, command: `holdfast ${command}${flag}` }] : [],
  );
}

/** Acts of people that a pull brought: they have no effect until a person confirms them. */
async function reviewNeeds({ store, namespace }: Source, stream: string, flag: string): Promise<Need[]> {
  const request = { of: "items", namespace, kind: "held", stream, open: true, limit: 50 } as const;
  const { rows, cursor } = await store.list<"items">(request);
  const [first] = rows;
  if (!first) return [];
  const more = rows.length === 1 ? "" : ` and ${rows.length - 1}${cursor === null ? "" : " or more"} others`;
  const what = `from a pull, unsigned, to confirm: ${first.name ?? ""}${more}`;
  return [{ what, command: `holdfast review${flag}` }];
}

async function blockerNeeds(
  { store, namespace }: Source,
  stream: string,
  flag: string,
  now: number,
): Promise<Need[]> {
  const request = { of: "items", namespace, kind: "blocker", stream, open: true, limit: 50 } as const;
  const { rows } = await store.list<"items">(request);
  const active = rows.filter(({ status }) => status === "active");
  return active.map(({ id, name, at: since }) => {
    const what = `${id} ${name ?? ""}${since === null ? "" : `, since ${age(now - since)}`}`;
    return { what, command: `holdfast block resolve ${id} --resolution …${flag}` };
  });
}

async function callNeeds(source: Source, open: readonly ItemRow[], now: number): Promise<Need[]> {
  const waiting = open.filter(({ status }) => status === "waiting");
  const others = open.filter(({ status }) => status !== "waiting");
  const streams = [...new Set(others.map(({ stream }) => stream))];
  const { held } = await sessionLeases(source, streams);
  const unattended = others.filter(({ stream }) => !held.has(stream));
  if (!open.some(({ stream }) => isSubAgent(streamId(stream))))
    return [...waitingNeeds(waiting, now), ...unattendedNeeds(unattended)];
  const { withoutWaiting } = await import("./sub-agent-calls.ts");
  const { rest, waiting: outer } = await withoutWaiting(source, open, unattended);
  const outerNeeds = outer === null ? [] : [{ what: outer, command: "holdfast calls" }];
  return [...waitingNeeds(waiting, now), ...unattendedNeeds(rest), ...outerNeeds];
}

function waitingNeeds(waiting: readonly ItemRow[], now: number): Need[] {
  const [oldest] = waiting;
  if (!oldest) return [];
  const since = oldest.at === null ? "" : `, since ${age(now - oldest.at)}`;
  const calls = waiting.length === 1 ? "1 call waits" : `${waiting.length} calls wait`;
  return [{ what: `${calls} for you${since}`, command: "holdfast calls" }];
}

/** The outcome of these calls stays unknown until their session runs again. */
function unattendedNeeds(calls: readonly ItemRow[]): Need[] {
  const [first, second] = calls;
  if (!first) return [];
  const what = second
    ? `${calls.length} calls have no outcome and no running process: run their agents again, or resolve them`
    : `${first.name} ${first.id} of ${streamId(first.stream)} has no outcome and no running process: ` +
      "run the agent again, or resolve it";
  return [{ what, command: "holdfast calls" }];
}

function crashNeeds(crashed: number): Need[] {
  if (crashed === 0) return [];
  const what = crashed === 1 ? "1 session crashed" : `${crashed} sessions crashed`;
  return [{ what: `${what}: run the agent again, or clean up`, command: "holdfast supervise --once" }];
}

const SESSION_WORKER = "session ";

/** Sessions that supervisors have given up on, by their records of the workers. */
export async function abandonedNeeds(source: Source, now: number): Promise<Need[]> {
  const { store, namespace } = source;
  const list = (filter: { kind: string; status: string }): Promise<StreamRow[]> =>
    allRows((from) => store.list<"streams">({ of: "streams", namespace, limit: 500, ...filter, ...from }));
  const workers = [
    ...(await list({ kind: "worker", status: "looping" })),
    ...(await list({ kind: "worker", status: "wanted" })),
  ].filter(({ facets }) => facets.title?.startsWith(SESSION_WORKER));
  const named = [...new Set(workers.map(({ facets }) => facets.title?.slice(SESSION_WORKER.length) ?? ""))];
  const rows = await Promise.all(named.map((id) => readRow(source, streamName("session", id))));
  const sessions = new Map(rows.filter(isActive).map((row) => [streamId(row.stream), row]));
  const { held } = await sessionLeases(
    source,
    [...sessions.values()].map(({ stream }) => stream),
  );
  return workers.flatMap((worker) => {
    const id = worker.facets.title?.slice(SESSION_WORKER.length) ?? "";
    const session = sessions.get(id);
    if (!session || held.has(session.stream)) return [];
    const what = whyAbandoned(id, worker, session, now);
    return what === null ? [] : [{ what, command: `holdfast session retry ${shellWord(id)}` }];
  });
}

const isActive = ({ state, facets }: StreamRow): boolean => state === "live" && facets.status === "active";

function whyAbandoned(
  id: string,
  worker: StreamRow,
  { facets, updatedAt }: StreamRow,
  now: number,
): string | null {
  if (facets.expiresAt !== null && facets.expiresAt < now)
    return `session ${id} is past its time to live: look at it, then let it continue`;
  // A later write to the session came from its agent or from a person.
  if (worker.facets.status !== "looping" || updatedAt > worker.updatedAt) return null;
  return `workers for session ${id} keep dying: find out why, then retry it`;
}

function nextCommand(
  needs: readonly Need[],
  goals: readonly GoalStatus[],
  goalFlag: (goal: string) => string,
): Need {
  const [first] = needs;
  const goal = goals.find(({ ready, stale }) => ready > 0 && !stale) ?? goals[0];
  if (first && (!goal || goal.ready === 0 || goal.stale)) return first;
  if (!goal) return { what: "create a goal", command: 'holdfast goal new <name> "what to achieve"' };
  const flag = goalFlag(goal.goal);
  if (goal.ready > 0) return { what: "see what to claim", command: `holdfast next${flag}` };
  if (goal.tasks === 0) return { what: "plan the work", command: `holdfast task add "what to do"${flag}` };
  return { what: "see the details", command: `holdfast goal show ${goal.goal}` };
}

function noGoal(typed: string, rows: readonly StreamRow[]): HoldfastError {
  const ids = rows.map(({ stream }) => streamId(stream));
  return new HoldfastError("GOAL_NOT_FOUND", `there is no goal ${JSON.stringify(typed)}`, {
    hint: `${didYouMean(typed, ids)}List them: holdfast goal list`,
    data: { typed },
  });
}

type Leases = ReadonlyMap<string, LeaseRow>;

const LEASES_AT_ONCE = 500;

/**
 * The leases of sessions. `dead` leases were never released and their process provably died, however much
 * time they have left; `held` are the rest that have not expired.
 */
export async function sessionLeases(
  source: Source,
  streams: readonly string[],
): Promise<{ readonly held: Leases; readonly dead: Leases }> {
  const rows = [...(await unreleased(source, streams))];
  const dead = new Map(rows.filter(([, { holder }]) => holder !== null && isProvablyDead(holder)));
  const held = new Map(rows.filter(([name, row]) => row.remainingMs > 0 && !dead.has(name)));
  return { held, dead };
}

/** The named leases that were taken and not released; they may have expired. */
async function unreleased({ store, namespace }: Source, names: readonly string[]): Promise<Leases> {
  const found = new Map<string, LeaseRow>();
  for (let from = 0; from < names.length; from += LEASES_AT_ONCE) {
    const part = names.slice(from, from + LEASES_AT_ONCE);
    const request = { of: "leases", namespace, names: part, limit: part.length } as const;
    const { rows } = await store.list<"leases">(request);
    for (const row of rows) if (row.holder) found.set(row.name, row);
  }
  return found;
}
