/**
 * Sessions from outside: read, listed, cancelled, prompted and forked without the lease. The owner of a
 * session meets these events as a conflict at its next write, rereads, and decides again.
 */

import {
  allRows,
  type Companions,
  commitResult,
  type Journal,
  type Log,
  type PruneReport,
} from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { streamId, streamName } from "../model/names.ts";
import { checkOption, checkOptions } from "../model/options.ts";
import type {
  Amounts,
  Block,
  Budget,
  Call,
  Checkpoint,
  JsonObject,
  Message,
  Plan,
  QueuedPrompt,
  SessionDiff,
  SessionState,
  SessionStatus,
} from "../model/session/index.ts";
import { BUDGET_UNITS, metadataTag, SESSION_STATUSES, sessionKind } from "../model/session/index.ts";
import { type Draft, decodeCursor, pageOf } from "../model/stream/index.ts";
import type { Holder, Page, StreamRow } from "../store.ts";
import { mustBeAmounts } from "./budget.ts";
import { isReferenced } from "./driven-by.ts";
import { checkPrompt, mustSayTheSame, promptRecord } from "./prompts.ts";
import { incarnationOf } from "./session-core.ts";
import { cancelChildren, cancellation, type Spoken } from "./sub-agents.ts";
import type { ForkReport, SessionVersion } from "./versions.ts";
import { diffVersions, forkSession, noSession, noVersion, versionOf } from "./versions.ts";

/** A session as `sessions.list` returns it. `get` has the rest. */
export interface SessionSummary {
  readonly id: string;
  readonly status: SessionStatus;
  readonly title: string | null;
  readonly goal: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly openCalls: number;
  /** True if the session is past its time to live. */
  readonly stale: boolean;
}

/** A session as `sessions.get` returns it: a copy, which does not change. */
export interface SessionDetail extends SessionSummary {
  readonly messages: readonly Message[];
  /** Prompts that wait for the session's next turn, or for its agent to run again. */
  readonly prompts: readonly QueuedPrompt[];
  readonly plan: Plan | null;
  readonly budget: Budget;
  readonly calls: readonly Call[];
  readonly versions: readonly Checkpoint[];
  readonly version: number;
  readonly metadata: JsonObject;
  readonly scratchpadRoot: string | null;
  readonly forkedFrom: string | null;
  /** The latest version it shares with that session; 0 if there was none. */
  readonly forkedAtVersion: number | null;
  /** A fork starts no effects while this is `refused`. */
  readonly effects: "live" | "refused";
  /** For a sub-agent: the id of the session whose call started it. */
  readonly parent: string | null;
  readonly heldBy: Holder | null;
}

/** Values by which sessions are found: `{ user: "42" }`. */
export type Metadata = Readonly<Record<string, string | number | boolean>>;

/** The sessions that `erase` removed, and those that it could not. */
export interface EraseReport {
  readonly erased: readonly string[];
  readonly spared: readonly { readonly id: string; readonly why: string }[];
}

interface SessionFilter {
  readonly status?: SessionStatus;
  readonly goal?: string;
  readonly openCalls?: true;
  readonly metadata?: Metadata;
  readonly limit?: number;
  readonly cursor?: string;
}

const PARALLEL_READS = 16;

/** At least one: no condition would match every session. */
function metadataTags(metadata: Metadata): string[] {
  const tags = Object.entries(metadata).map(([name, value]) => {
    const tag = metadataTag(name, value);
    if (tag !== null) return tag;
    throw new HoldfastError("INPUT_INVALID", `metadata: ${name} is not a text, a number or a boolean`, {
      hint: "Only such values of a session's metadata are indexed.",
    });
  });
  if (tags.length > 0) return tags;
  throw new HoldfastError("INPUT_INVALID", "metadata: no value was given", {
    hint: 'For example: { metadata: { user: "42" } }',
  });
}

/** A page after the position in `cursor`, of rows that are sorted already. */
function pageOfRows(rows: readonly StreamRow[], limit: number, cursor?: string): Page<StreamRow> {
  const [at, name] = decodeCursor(cursor, [0, ""] as [number, string]) ?? [Number.POSITIVE_INFINITY, ""];
  const rest = rows.filter((row) => row.updatedAt < at || (row.updatedAt === at && row.stream > name));
  const same = (row: StreamRow): StreamRow => row;
  return pageOf(rest, limit, same, ({ updatedAt, stream }) => [updatedAt, stream]);
}

function mustSpeak(what: string, spoken: Spoken): void {
  checkOptions(what, spoken ?? {}, { by: "text", why: "text", via: "text" });
  checkOption(`${what}: by`, spoken?.by, "text");
}

const LIST_OPTIONS = {
  status: SESSION_STATUSES,
  goal: "text",
  metadata: "object",
  openCalls: "flag",
  limit: "number",
  cursor: "text",
} as const;

const PRUNE_OPTIONS = {
  olderThanMs: "age",
  status: SESSION_STATUSES,
  keep: "count",
  dryRun: "flag",
} as const;

/**
 * `holdfast.sessions`: all sessions of a store, without holding any. For dashboards, operators, and programs
 * that prompt an agent that runs elsewhere.
 *
 * @example
 * const { sessions } = await holdfast.sessions.list({ status: "active" });
 * await holdfast.sessions.prompt("order-17", { text: "Use the new address." }, { by: "ann" });
 */
export class Sessions {
  private readonly journal: Journal;
  private readonly retention: {
    readonly isNeeded: (id: string) => Promise<boolean>;
    readonly companions: Companions;
  };

  /** `companions`: streams about a session that others keep, removed with it. */
  constructor(journal: Journal, companions: Companions = () => []) {
    this.journal = journal;
    this.retention = { isNeeded: (id) => isReferenced(journal, id), companions };
  }

  /**
   * Lists sessions, latest change first. Pass `cursor` for more. `metadata` finds texts, numbers and booleans
   * by an index; all of them must match.
   *
   * @example
   * await holdfast.sessions.list({ goal: "checkout", status: "active" });
   * await holdfast.sessions.list({ metadata: { user: "42" } });
   */
  async list(filter: SessionFilter = {}): Promise<{ sessions: SessionSummary[]; cursor: string | null }> {
    checkOptions("sessions.list", filter, LIST_OPTIONS);
    const { limit = 50, metadata, ...rest } = filter;
    const page = metadata
      ? pageOfRows(await this.rowsWith(metadata, rest), limit, rest.cursor)
      : await this.journal.list<"streams">({ of: "streams", kind: "session", limit, ...rest });
    const now = this.journal.now();
    const sessions = page.rows.map(({ stream, createdAt, updatedAt, facets }) => ({
      id: streamId(stream),
      status: (facets.status ?? "active") as SessionStatus,
      title: facets.title,
      goal: facets.goal,
      createdAt: new Date(createdAt),
      updatedAt: new Date(updatedAt),
      openCalls: facets.openCalls,
      stale: facets.expiresAt !== null && facets.expiresAt < now,
    }));
    return { sessions, cursor: page.cursor };
  }

  /** The live sessions that have all of these values, latest change first. */
  private async rowsWith(
    metadata: Metadata,
    { status, goal, openCalls }: Pick<SessionFilter, "status" | "goal" | "openCalls"> = {},
  ): Promise<StreamRow[]> {
    const lists = await Promise.all(
      metadataTags(metadata).map((id) =>
        allRows((from) =>
          this.journal.list<"items">({ of: "items", kind: "metadata", id, limit: 1_000, ...from }),
        ),
      ),
    );
    const [first = new Set<string>(), ...others] = lists.map(
      (items) => new Set(items.filter((item) => item.status === "current").map(({ stream }) => stream)),
    );
    const streams = [...first].filter((stream) => others.every((each) => each.has(stream)));
    const rows: StreamRow[] = [];
    for (let at = 0; at < streams.length; at += PARALLEL_READS) {
      const some = streams.slice(at, at + PARALLEL_READS).map((stream) => this.journal.row(stream));
      rows.push(...(await Promise.all(some)));
    }
    return rows
      .filter(({ state }) => state === "live")
      .filter(({ facets }) => status === undefined || (facets.status ?? "active") === status)
      .filter(({ facets }) => goal === undefined || facets.goal === goal)
      .filter(({ facets }) => openCalls === undefined || facets.openCalls > 0)
      .sort((a, b) => b.updatedAt - a.updatedAt || (a.stream < b.stream ? -1 : 1));
  }

  /** Returns one session with everything in it, and its current owner. */
  async get(id: string): Promise<SessionDetail> {
    const { state, row } = await this.journal.load(sessionKind, id);
    if (row.state !== "live") throw noSession(id, this.journal.store.address);
    const lease = await this.journal.leases.find(row.stream);
    const { status, title, goal, messages, plan, budget, version, metadata, scratchpadRoot, effects } = state;
    return {
      ...{ id, status, title, goal },
      createdAt: new Date(state.createdAt),
      updatedAt: new Date(state.updatedAt),
      openCalls: state.openCalls.size,
      stale: state.ttlMs !== null && state.updatedAt + state.ttlMs < this.journal.now(),
      ...{ messages, plan, budget, prompts: state.prompts },
      calls: [...state.calls.values()],
      versions: [...state.checkpoints.values()],
      ...{ version, metadata, scratchpadRoot },
      forkedFrom: state.forked?.session ?? null,
      forkedAtVersion: state.forked?.version ?? null,
      effects,
      parent: state.parent?.session ?? null,
      heldBy: lease && lease.remainingMs > 0 ? lease.holder : null,
    };
  }

  /** Transcript, plan and budget at a version. */
  at(id: string, version: number): Promise<SessionVersion> {
    return versionOf(this.journal, id, version);
  }

  /** Messages, plan changes and spending between two versions. */
  diff(id: string, before: number, after: number): Promise<SessionDiff> {
    return diffVersions(this.journal, id, before, after);
  }

  /**
   * Makes a session that shares another's past up to a version (all of it unless set). It starts no effects
   * until allowed. The report names the effects that it may repeat.
   *
   * @example
   * const { laterEffects } = await holdfast.sessions.fork("order-17", "order-17-b", { version: 3 });
   */
  fork(from: string, id: string, options: { version?: number; effects?: "live" } = {}): Promise<ForkReport> {
    return forkSession(this.journal, from, id, options);
  }

  /**
   * Cancels a session and its sub-agents. A process that holds the session stops well within a second. If
   * none does, calls with an unknown outcome wait for a person from now on, since no process would find out.
   */
  async cancel(id: string, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.cancel", spoken);
    let isHeld = true;
    const prepare = async (): Promise<void> => {
      isHeld = await this.journal.leases.isHeld(streamName("session", id));
    };
    const say = (state: SessionState, isSame: boolean) => cancellation(state, spoken, !isHeld && isSame);
    const log = await this.speak(id, say, prepare);
    await cancelChildren(this.journal, incarnationOf(id, log.head.generation), log.state, spoken);
  }

  /** Deletes a version's number and label, also while a process runs the session. Numbers are not reused. */
  async deleteVersion(id: string, version: number, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.deleteVersion", spoken);
    await this.speak(id, (state) => {
      if (!state.checkpoints.has(version)) throw noVersion(id, version);
      return [{ type: "checkpoint.deleted", data: { version } }];
    });
  }

  /** Lets a session go on that was left alone because its workers kept dying or because it is stale. */
  async retry(id: string, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.retry", spoken);
    await this.speak(id, (state) => {
      if (state.status !== "active") {
        const problem = `session ${id} is ${state.status}: there is nothing to retry`;
        const hint = "Nothing was changed. Call session.reopen() in its agent to make it active again.";
        throw new HoldfastError("SESSION_ENDED", problem, { hint, data: { session: id } });
      }
      const { by, why = null, via } = spoken;
      const data = { status: "active", why, by, ...(via !== undefined && { via }) };
      return [{ type: "session.status", data }];
    });
  }

  /** Switches a fork's effects on (`"live"`) or off. A running owner follows at its next call. */
  async setEffects(id: string, effects: "live" | "refused", spoken: Spoken): Promise<void> {
    mustSpeak("sessions.setEffects", spoken);
    await this.speak(id, (state) => {
      if (!state.forked) {
        throw new HoldfastError("INPUT_INVALID", `session ${id} is no fork: its effects are always on`, {
          hint: "Nothing was changed. To stop a session, cancel it.",
          data: { session: id },
        });
      }
      return state.effects === effects ? [] : [{ type: "session.effects", data: { effects, ...spoken } }];
    });
  }

  /**
   * Queues a message. The session's next turn starts with it. A repeated id is queued once, and rejected with
   * other words. Resolves to the prompt's id.
   *
   * @example
   * await holdfast.sessions.prompt("order-17", { id: "mail-93", text: mail.body }, { by: "inbox" });
   */
  async prompt(id: string, prompt: { id?: string; text: string }, spoken: Spoken): Promise<string> {
    mustSpeak("sessions.prompt", spoken);
    checkPrompt(`session ${id}`, prompt.text);
    const promptId = prompt.id ?? this.journal.newId();
    const blocks: Block[] = [{ kind: "text", text: prompt.text }];
    let isKnown = false;
    const log = await this.speak(id, (state) => {
      isKnown = state.messageIds.has(promptId) || state.prompts.some((each) => each.id === promptId);
      return isKnown ? [] : [{ type: "prompt.queued", data: { id: promptId, blocks, by: spoken.by } }];
    });
    const record = isKnown ? await promptRecord(this.journal, log, promptId) : null;
    const put = { id: promptId, text: prompt.text };
    if (record) mustSayTheSame(id, this.journal, put, record.text, "Nothing was queued");
    return promptId;
  }

  /** Raises limits (never lowers), to continue a paused session: `raiseBudget(id, { usd: 10 }, { by })`. */
  async raiseBudget(id: string, limits: Amounts, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.raiseBudget", spoken);
    mustBeAmounts("limits", limits);
    await this.speak(id, ({ budget }) => {
      const isRaised = (unit: (typeof BUDGET_UNITS)[number]) =>
        (limits[unit] ?? 0) > (budget.limit[unit] ?? Number.POSITIVE_INFINITY);
      const raised = BUDGET_UNITS.filter(isRaised).map((unit) => [unit, limits[unit]]);
      const data = { limits: Object.fromEntries(raised), ...spoken };
      return raised.length === 0 ? [] : [{ type: "budget.limited", data }];
    });
  }

  /**
   * Removes sessions by age, status or count; at least one is required. `{ keep: 100 }` alone removes all but
   * the latest 100, active ones too. Sessions stay if they have open calls or an owner, or others need them.
   *
   * @example
   * await holdfast.sessions.prune({ status: "completed", olderThanMs: 30 * 86_400_000 });
   */
  async prune(options: {
    olderThanMs?: number;
    status?: SessionStatus;
    keep?: number;
    dryRun?: boolean;
  }): Promise<PruneReport> {
    checkOptions("sessions.prune", options, PRUNE_OPTIONS);
    const { olderThanMs, ...rest } = options;
    const since = olderThanMs === undefined ? {} : { updatedBefore: this.journal.now() - olderThanMs };
    return this.journal.prune({ kind: "session", ...rest, ...since, ...this.retention });
  }

  /**
   * Removes sessions for privacy, with their forks, what integrations store, and the artifacts that only they
   * refer to; overwrites the bytes. By id it throws if that is not possible. By metadata it erases all it can
   * and names the rest. Nothing of the id is left, either, unless another session mentions it
   * (docs/guides/privacy.md).
   *
   * @example
   * await holdfast.sessions.erase("order-17");
   * const { erased, spared } = await holdfast.sessions.erase({ metadata: { user: "42" } });
   */
  async erase(
    which: string | { readonly metadata: Metadata },
    options: { readonly dryRun?: boolean } = {},
  ): Promise<EraseReport> {
    checkOptions("sessions.erase", options, { dryRun: "flag" });
    if (typeof which === "string") return this.eraseOne(which, options.dryRun ?? false);
    checkOptions("sessions.erase", which, { metadata: "object" });
    const rows = await this.rowsWith(which.metadata);
    const ids = rows.map(({ stream }) => streamId(stream));
    if (options.dryRun) return { erased: ids, spared: [] };
    const report: { erased: string[]; spared: { id: string; why: string }[] } = { erased: [], spared: [] };
    for (const id of ids) {
      const why = await this.eraseUnlessBusy(id);
      // Null and `gone` alike: a fork is erased with its parent.
      if (why === null || why === "gone") report.erased.push(id);
      else report.spared.push({ id, why });
    }
    return report;
  }

  private async eraseOne(id: string, isDryRun: boolean): Promise<EraseReport> {
    const { state } = await this.journal.row(streamName("session", id));
    const why = isDryRun ? (state === "live" ? null : "gone") : await this.eraseUnlessBusy(id);
    if (why === null) return { erased: [id], spared: [] };
    if (why === "gone") throw noSession(id, this.journal.store.address);
    throw new HoldfastError("STREAM_BUSY", `session ${id} cannot be erased: ${why}`, {
      hint: "Cancel it or settle its calls, then erase it again.",
    });
  }

  /** Null if it was erased, else why not. */
  private async eraseUnlessBusy(id: string): Promise<string | null> {
    const result = await this.journal.remove(streamName("session", id), { erase: true, ...this.retention });
    if (result === "removed") return null;
    if (result === "gone") return "gone";
    const isNeeded = result === "needed" ? "what it works for is not finished" : null;
    return result === "held" ? "a process holds it" : (isNeeded ?? "it has calls without an outcome");
  }

  /** Appends without the lease; decides again on a conflict. `prepare` runs before the decision. */
  private async speak(
    id: string,
    say: (state: SessionState, isAsSeen: boolean) => Draft[],
    prepare?: () => Promise<void>,
  ): Promise<Log<SessionState>> {
    const log = await this.journal.open(sessionKind, id);
    if (!log.exists) throw noSession(id, this.journal.store.address);
    const { generation, seq } = log.head;
    await prepare?.();
    const outcome = await log.commit((state, head) => {
      // Removed meanwhile: these events would revive it, or reach a new session of the same name.
      if (head.generation !== generation) throw noSession(id, this.journal.store.address);
      return { events: say(state, head.seq === seq), result: undefined };
    });
    commitResult(outcome);
    return log;
  }
}
