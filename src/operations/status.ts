/**
 * What `status` shows, read from what the store lists: facets, items, leases. No schema is loaded, and nothing is folded
 * unless a task is in progress whose holder no lease names, so that it costs little more than starting a process; what
 * needs the state of a goal (what is ready, which files drifted) has commands of its own, and the answer names them.
 */

import { allRows, isProvablyDead, loadStream, Payloads } from "../journal/index.ts";
import { HoldfastError, isHoldfastError } from "../model/errors.ts";
import { type GoalState, goalFold, MERGE_NEWS_MS, type TaskClaim } from "../model/goal/index.ts";
import { didYouMean } from "../model/options.ts";
import { age } from "../model/time.ts";
import type { ItemRow, LeaseRow, Page, Store, StreamRow } from "../store.ts";
import { goalRows, knownGoals } from "./current-goal.ts";
import { type MovedStore, movedStore, type UnfinishedCopy, unfinishedCopy } from "./store-place.ts";

/** What sessions need of a person, as `status` says it: the most urgent first, each with the command that helps. */

/** `open` are all calls without an outcome. */
async function callNeeds(
  store: Pick<Store, "list">,
  namespace: string,
  open: readonly ItemRow[],
  now: number,
): Promise<Need[]> {
  const waiting = open.filter(({ status }) => status === "waiting");
  const others = open.filter(({ status }) => status !== "waiting");
  const streams = [...new Set(others.map(({ stream }) => stream))];
  const { held } = await leasesOf(store, namespace, "session/", streams);
  const unattended = others.filter(({ stream }) => !held.has(stream));
  const { rest, needs } = open.some(({ stream }) => isSubAgent(stream.slice("session/".length)))
    ? await (await import("./sub-agent-calls.ts")).withoutWaiting(store, namespace, open, unattended)
    : { rest: unattended, needs: [] };
  return [...waitingNeeds(waiting, now), ...unattendedNeeds(rest), ...needs];
}

/** By its name, which no other session has: nothing has to be read for it. */
export function isSubAgent(session: string): boolean {
  return /^sub-[0-9a-f]{32}$/.test(session);
}

function waitingNeeds(waiting: readonly ItemRow[], now: number): Need[] {
  const [oldest] = waiting;
  if (!oldest) return [];
  const since = oldest.at === null ? "" : `, since ${age(now - oldest.at)}`;
  const who = waiting.length === 1 ? "1 call waits" : `${waiting.length} calls wait`;
  return [{ what: `${who} for you${since}`, command: "holdfast calls" }];
}

/** Nobody finds out what became of these before somebody runs their session. */
function unattendedNeeds(calls: readonly ItemRow[]): Need[] {
  const [first, second] = calls;
  if (!first) return [];
  const session = first.stream.slice("session/".length);
  const what = second
    ? `${calls.length} calls have no outcome, and nobody runs them: run their agents again, or answer for them`
    : `${first.name} ${first.id} of ${session} has no outcome, and nobody runs it: run the agent again, or answer for it`;
  return [{ what, command: "holdfast calls" }];
}

function crashNeeds(crashed: number): Need[] {
  if (crashed === 0) return [];
  const what = crashed === 1 ? "1 session crashed" : `${crashed} sessions crashed`;
  return [{ what: `${what}, run the agent again or clear up`, command: "holdfast supervise --once" }];
}

/** Sessions that supervisors leave alone until somebody has looked, by what they have on record of their workers. */
async function leftAloneNeeds(store: Pick<Store, "list">, namespace: string, now: number): Promise<Need[]> {
  const list = (asked: { kind: string; status: string }): Promise<StreamRow[]> =>
    allRows((from) => store.list<"streams">({ of: "streams", namespace, limit: 500, ...asked, ...from }));
  const workers = [
    ...(await list({ kind: "worker", status: "looping" })),
    ...(await list({ kind: "worker", status: "wanted" })),
  ].filter(({ facets }) => facets.title?.startsWith(OF_SESSION));
  if (workers.length === 0) return [];
  const active = await list({ kind: "session", status: "active" });
  const sessions = new Map(active.map((row) => [row.stream.slice("session/".length), row]));
  const { held } = await leasesOf(
    store,
    namespace,
    "session/",
    active.map(({ stream }) => stream),
  );
  return workers.flatMap((worker) => {
    const id = worker.facets.title?.slice(OF_SESSION.length) ?? "";
    const session = sessions.get(id);
    if (!session || held.has(session.stream)) return [];
    const what = whyLeftAlone(worker, session, now);
    return what === null ? [] : [{ what: what(id), command: `holdfast session retry ${id}` }];
  });
}

const OF_SESSION = "session ";

function whyLeftAlone(
  worker: StreamRow,
  { facets, updatedAt }: StreamRow,
  now: number,
): ((id: string) => string) | null {
  if (facets.expiresAt !== null && facets.expiresAt < now)
    return (id) => `session ${id} is past its time to live: look at it, then let it go on`;
  // What was written to it since, its agent or a person wrote.
  if (worker.facets.status !== "looping" || updatedAt > worker.updatedAt) return null;
  return (id) => `workers for session ${id} died again and again: find out why, then let it be tried`;
}

/** What a person has to see to, the most urgent first, and the command that helps. */
export interface Need {
  readonly what: string;
  readonly command: string;
}

/** Who holds what right now. Leases that were let go of, or ran out, stay in the store, so there may be many more than live. */

/** Above this, going through all leases is quicker than asking for each. */
const FEW = 50;
const PAGE = 500;

type Leases = ReadonlyMap<string, LeaseRow>;

/** Those of these leases whose time has not run out, by name. All names begin with `prefix`. */
async function heldLeases(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<Leases> {
  const rows = await taken(store, namespace, prefix, names);
  return new Map([...rows].filter(([, row]) => row.remainingMs > 0));
}

/**
 * The same for leases that live and die with a process, as those of sessions do: `held` by one that may be alive, `gone`
 * where it was never let go of and its process provably is, however much of its time is left.
 */
export async function leasesOf(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<{ readonly held: Leases; readonly gone: Leases }> {
  const rows = [...(await taken(store, namespace, prefix, names))];
  const gone = new Map(rows.filter(([, { holder }]) => holder !== null && isProvablyDead(holder)));
  const held = new Map(rows.filter(([name, row]) => row.remainingMs > 0 && !gone.has(name)));
  return { held, gone };
}

/** Those that somebody took and did not let go of. */
async function taken(
  store: Pick<Store, "list">,
  namespace: string,
  prefix: string,
  names: readonly string[],
): Promise<Leases> {
  const list = (of: string, limit: number, from: { cursor?: string } = {}): Promise<Page<LeaseRow>> =>
    store.list<"leases">({ of: "leases", namespace, prefix: of, limit, ...from });
  const wanted = new Set(names);
  const found = new Map<string, LeaseRow>();
  const look = (rows: readonly LeaseRow[]): void => {
    for (const row of rows) if (row.holder && wanted.has(row.name)) found.set(row.name, row);
  };
  if (wanted.size <= FEW) {
    // The prefix also matches longer names, but the exact one sorts before them.
    for (const { rows } of await Promise.all([...wanted].map((name) => list(name, 1)))) look(rows);
    return found;
  }
  look(await allRows((from) => list(prefix, PAGE, from)));
  return found;
}

export interface GoalStatus {
  readonly goal: string;
  readonly title: string | null;
  readonly status: string;
  readonly stale: boolean;
  readonly tasks: number;
  readonly done: number;
  readonly ready: number;
  readonly blocked: number;
  readonly submitted: number;
  readonly failed: number;
  readonly working: readonly Working[];
  /** What a merge did to work that somebody had done, the latest first. */
  readonly merged: readonly string[];
}

export interface Working {
  readonly task: string;
  readonly title: string;
  /** Null: whoever claimed it has let go of it, or its time has run out. */
  readonly by: string | null;
  /** It was claimed in another clone of the repository, whose leases are not seen from here. */
  readonly elsewhere: boolean;
}

export interface Status {
  readonly address: string;
  /** Where everything is now, if this store has moved: the rest is as it was then. */
  readonly moved: MovedStore | null;
  readonly unfinishedCopy: UnfinishedCopy | null;
  /** What git brought or a person wrote and could not be taken in. */
  readonly notTakenIn: readonly string[];
  readonly needs: readonly Need[];
  readonly goals: readonly GoalStatus[];
  /** Goals that are done, or beyond those shown. */
  readonly otherGoals: number;
  readonly sessions: {
    readonly running: number;
    readonly waiting: number;
    /** Whose process is gone, and never let go of them. */
    readonly crashed: number;
    readonly idle: number;
    readonly ended: number;
    readonly spentUsd: number;
    readonly limitUsd: number | null;
    /** Where there are more than were looked at: all of this is said of so many of the latest. */
    readonly ofLatest: number | null;
  };
  /** What to type next. */
  readonly next: Need;
}

export interface StatusOptions {
  readonly namespace?: string;
  readonly goal?: string | undefined;
  readonly now: number;
  /** What git brought or a person wrote and could not be taken in, as far as the caller has tried. */
  readonly notTakenIn?: readonly string[];
}

const GOALS_SHOWN = 5;
const SESSIONS_LOOKED_AT = 500;
const ROWS_AT_ONCE = 1_000;
const MERGED_SHOWN = 10;

export async function readStatus(store: Store, options: StatusOptions): Promise<Status> {
  const { namespace = "default", now, notTakenIn = [] } = options;
  const all = await goalRows(store, namespace);
  const isWanted = ({ stream, facets }: StreamRow): boolean =>
    options.goal === undefined ? facets.status !== "done" : idOf(stream).startsWith(options.goal);
  const wanted = all.filter(isWanted).slice(0, GOALS_SHOWN);
  if (options.goal !== undefined && wanted.length === 0) throw noGoal(options.goal, all);
  const { current: only } = knownGoals(all, null);
  /** Whoever types it means that goal, whichever others there are. */
  const naming = (goal: string): string => (goal === only ? "" : ` --goal ${goal}`);
  const goals: GoalStatus[] = [];
  const needs: Need[] = [];
  for (const row of wanted) {
    const goal = await goalStatus(store, namespace, row, now);
    goals.push(goal);
    const at = naming(goal.goal);
    needs.push(...goalNeeds(goal, at), ...(await blockerNeeds(store, namespace, row.stream, at, now)));
  }
  const calls = await openCallRows(store, namespace);
  const sessions = await sessionCounts(store, namespace);
  const urgent = [
    ...(await callNeeds(store, namespace, calls, now)),
    ...crashNeeds(sessions.crashed),
    ...(await leftAloneNeeds(store, namespace, now)),
  ];
  const otherGoals = all.length - wanted.length;
  const every = [...urgent, ...needs];
  const moved = await movedStore(store, namespace);
  const seal = { moved, unfinishedCopy: moved === null ? await unfinishedCopy(store) : null };
  const whole = { address: store.address, ...seal, notTakenIn, needs: every, goals, otherGoals, sessions };
  return { ...whole, next: nextCommand(every, goals, naming) };
}

async function goalStatus(store: Store, namespace: string, row: StreamRow, now: number): Promise<GoalStatus> {
  const { stream, facets } = row;
  const rows = await itemsOf(store, namespace, stream, "task");
  const count = (...statuses: string[]): number =>
    rows.filter(({ status }) => statuses.includes(status ?? "")).length;
  const inProgress = rows.filter(({ status }) => status === "in_progress");
  return {
    goal: idOf(stream),
    title: facets.title,
    status: facets.status ?? "active",
    stale: facets.expiresAt !== null && facets.expiresAt < now,
    tasks: rows.length - count("dropped"),
    done: count("done"),
    ready: count("open"),
    blocked: count("blocked"),
    submitted: count("submitted"),
    failed: count("failed"),
    working: await workingOn(store, namespace, stream, inProgress),
    merged: await mergedIn(store, namespace, stream, rows, now),
  };
}

/** Every call without an outcome, over all sessions. */
export function openCallRows(store: Pick<Store, "list">, namespace: string): Promise<ItemRow[]> {
  const request = { of: "items", namespace, kind: "call", open: true, limit: ROWS_AT_ONCE } as const;
  return allRows((from) => store.list<"items">({ ...request, ...from }));
}

function itemsOf(store: Store, namespace: string, stream: string, kind: string): Promise<ItemRow[]> {
  const request = { of: "items", namespace, kind, stream, limit: ROWS_AT_ONCE } as const;
  return allRows((from) => store.list<"items">({ ...request, ...from }));
}

/** Who has what: by the lease of the task, else by what the goal says of the claim. */
async function workingOn(
  store: Store,
  namespace: string,
  stream: string,
  tasks: readonly ItemRow[],
): Promise<Working[]> {
  const prefix = `${stream}/`;
  const holders = async (ids: readonly string[]): Promise<(id: string) => string | null> => {
    const names = ids.map((id) => prefix + id);
    const held = await heldLeases(store, namespace, prefix, names);
    return (id) => held.get(prefix + id)?.holder?.label ?? null;
  };
  const holder = await holders(tasks.map(({ id }) => id));
  const found = tasks.map(({ id, name }) => {
    return { task: id, title: name ?? "", by: holder(id), elsewhere: false };
  });
  if (found.every(({ by }) => by !== null)) return found;
  const state = await foldedGoal(store, namespace, stream);
  const claimOf = ({ task, by }: Working): TaskClaim | null =>
    by === null ? (state?.tasks.get(task)?.claim ?? null) : null;
  // A merge may have given the task another number since, but not its lease.
  const earlier = await holders(found.flatMap((each) => claimOf(each)?.as ?? []));
  return found.map((each) => {
    const claim = claimOf(each);
    if (!claim) return each;
    if (state?.origins.has(claim.uid ?? "")) return { ...each, by: claim.by.name, elsewhere: true };
    return { ...each, by: earlier(claim.as) };
  });
}

/** Null: it is encrypted, or of a later release, and lists are all that can be shown of it. */
async function foldedGoal(store: Store, namespace: string, stream: string): Promise<GoalState | null> {
  try {
    const reader = { store, namespace, payloads: new Payloads([]) };
    return (await loadStream(reader, goalFold, stream)).state;
  } catch (error) {
    if (!isHoldfastError(error) || error.code.startsWith("STORE_")) throw error;
    return null;
  }
}

/** Of work that is finished, nobody has to know any more. */
async function mergedIn(
  store: Store,
  namespace: string,
  stream: string,
  tasks: readonly ItemRow[],
  now: number,
): Promise<string[]> {
  const finished = new Set(
    tasks.filter(({ status }) => status === "done" || status === "dropped").map(({ id }) => id),
  );
  const notes = await itemsOf(store, namespace, stream, "merge");
  const news = notes.filter(
    ({ at, key, doneAt }) =>
      (doneAt ?? null) === null && now - (at ?? 0) <= MERGE_NEWS_MS && !finished.has(key ?? ""),
  );
  return news
    .sort((a, b) => (b.at ?? 0) - (a.at ?? 0))
    .slice(0, MERGED_SHOWN)
    .map(({ name }) => name ?? "");
}

function goalNeeds(goal: GoalStatus, at: string): Need[] {
  const needs: Need[] = [];
  if (goal.stale) needs.push({ what: `${goal.goal} is stale`, command: `holdfast resume --force${at}` });
  if (goal.status === "blocked")
    needs.push({ what: `nothing in ${goal.goal} can move`, command: `holdfast blockers${at}` });
  if (goal.submitted > 0)
    needs.push({
      what: `${goal.submitted} of ${goal.goal} to verify`,
      command: `holdfast task list --status submitted${at}`,
    });
  if (goal.failed > 0)
    needs.push({
      what: `${goal.failed} failed in ${goal.goal}`,
      command: `holdfast task list --status failed${at}`,
    });
  return needs;
}

async function blockerNeeds(
  store: Store,
  namespace: string,
  stream: string,
  at: string,
  now: number,
): Promise<Need[]> {
  const request = { of: "items", namespace, kind: "blocker", stream, open: true, limit: 50 } as const;
  const { rows } = await store.list<"items">(request);
  const active = rows.filter(({ status }) => status === "active");
  return active.map(({ id, name, at: since }) => {
    const what = `${id} ${name ?? ""}${since === null ? "" : `, since ${age(now - since)}`}`;
    return { what, command: `holdfast block resolve ${id} --how …${at}` };
  });
}

async function sessionCounts(store: Store, namespace: string): Promise<Status["sessions"]> {
  const limit = SESSIONS_LOOKED_AT;
  const asked = { of: "streams", namespace, kind: "session", limit } as const;
  const { rows, cursor } = await store.list<"streams">(asked);
  const active = rows.filter(({ facets }) => (facets.status ?? "active") === "active");
  const names = active.map(({ stream }) => stream);
  const { held, gone } = await leasesOf(store, namespace, "session/", names);
  const running = active.filter(({ stream }) => held.has(stream));
  const left = active.filter(({ stream }) => !held.has(stream) && !gone.has(stream));
  const waiting = left.filter(({ facets }) => facets.openCalls > 0).length;
  // What a sub-agent may spend is set aside in its parent's budget, and what it spent stands there when its call ends.
  const payers = active.filter(({ stream }) => !isSubAgent(idOf(stream)));
  const budgets = payers.map(({ facets }) => usdOf(facets.budget));
  const limits = budgets.flatMap((each) => (each?.limit == null ? [] : [each.limit]));
  return {
    running: running.length,
    waiting,
    crashed: gone.size,
    idle: left.length - waiting,
    ended: rows.length - active.length,
    spentUsd: sum(budgets.map((each) => each?.spent ?? 0)),
    limitUsd: limits.length === 0 ? null : sum(limits),
    ofLatest: cursor === null ? null : rows.length,
  };
}

function usdOf(budget: string | null): { spent: number; limit: number | null } | undefined {
  if (budget === null) return undefined;
  return (JSON.parse(budget) as { usd?: { spent: number; limit: number | null } }).usd;
}

function sum(numbers: readonly number[]): number {
  return Math.round(numbers.reduce((total, each) => total + each, 0) * 1e6) / 1e6;
}

function noGoal(typed: string, rows: readonly StreamRow[]): HoldfastError {
  const ids = rows.map(({ stream }) => idOf(stream));
  return new HoldfastError("GOAL_NOT_FOUND", `there is no goal ${JSON.stringify(typed)}`, {
    hint: `${didYouMean(typed, ids)}List them: holdfast goal list`,
    data: { typed },
  });
}

function nextCommand(
  needs: readonly Need[],
  goals: readonly GoalStatus[],
  naming: (goal: string) => string,
): Need {
  const [first] = needs;
  const goal = goals.find(({ ready, stale }) => ready > 0 && !stale) ?? goals[0];
  if (first && (!goal || goal.ready === 0 || goal.stale)) return first;
  if (!goal)
    return {
      what: "begin a goal",
      command: 'holdfast goal new <name> "what is to be reached"',
    };
  const at = naming(goal.goal);
  if (goal.ready > 0) return { what: "see what to claim", command: `holdfast next${at}` };
  if (goal.tasks === 0)
    return { what: "plan the work", command: `holdfast task add "what is to be done"${at}` };
  return { what: "see how it stands", command: `holdfast goal show ${goal.goal}` };
}

function idOf(stream: string): string {
  return stream.slice(stream.indexOf("/") + 1);
}
