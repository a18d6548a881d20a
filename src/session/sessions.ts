/**
 * Sessions from outside: read, listed, cancelled, prompted and forked without the lease. Whoever holds a
 * session meets a conflict at its next write, rereads, and decides again on what is said here.
 */

import { commitResult, type Journal, type Log, type PruneReport } from "../journal/index.ts";
import { HoldfastError } from "../model/errors.ts";
import { streamId, streamName } from "../model/names.ts";
import { checkOption, checkOptions } from "../model/options.ts";
import {
  type Amounts,
  type Block,
  BUDGET_UNITS,
  type Budget,
  type Call,
  type Checkpoint,
  type JsonObject,
  type Message,
  type Plan,
  SESSION_STATUSES,
  type SessionDiff,
  type SessionState,
  type SessionStatus,
  sessionKind,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import type { Holder } from "../store.ts";
import { mustBeAmounts } from "./budget.ts";
import { isReferenced } from "./driven-by.ts";
import { mustSayTheSame, promptRecord } from "./prompts.ts";
import { incarnationOf } from "./session-core.ts";
import { cancelChildren, cancellation } from "./sub-agents.ts";
import {
  diffVersions,
  type ForkReport,
  forkSession,
  noSession,
  type SessionVersion,
  versionOf,
} from "./versions.ts";

/** A session as lists show it; `get` has the rest. */
export interface SessionSummary {
  readonly id: string;
  readonly status: SessionStatus;
  readonly title: string | null;
  readonly goal: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly openCalls: number;
  /** Past its time to live. */
  readonly stale: boolean;
}

/** A session as `get` found it: a copy, which does not change with it. */
export interface SessionDetail extends SessionSummary {
  readonly messages: readonly Message[];
  readonly plan: Plan | null;
  readonly budget: Budget;
  readonly calls: readonly Call[];
  readonly versions: readonly Checkpoint[];
  readonly version: number;
  readonly metadata: JsonObject;
  readonly scratchpadRoot: string | null;
  readonly forkedFrom: string | null;
  /** The latest version of that session which it shares; 0 where there was none. */
  readonly forkedAtVersion: number | null;
  /** A fork refuses to start effects until somebody has said `live`. */
  readonly effects: "live" | "refused";
  /** Of a sub-agent: whose call started it. */
  readonly parent: string | null;
  /** Who holds it right now, if anyone. */
  readonly heldBy: Holder | null;
}

/** Who speaks, and why: recorded with what they say. */
export interface Spoken {
  readonly by: string;
  readonly why?: string;
}

const SPOKEN = { by: "text", why: "text" } as const;

/** What is said from outside is somebody's. */
function mustSpeak(what: string, spoken: Spoken): void {
  checkOptions(what, spoken ?? {}, SPOKEN);
  checkOption(`${what}: by`, spoken?.by, "text");
}

const LIST_OPTIONS = {
  status: SESSION_STATUSES,
  goal: "text",
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
 * What `holdfast.sessions` gives: all sessions of a store, without holding any. For dashboards, operators and
 * the program that prompts an agent which runs elsewhere.
 */
export class Sessions {
  private readonly journal: Journal;
  private readonly companions: readonly string[];

  /**
   * `companions` are kinds of streams that integrations keep under a session's id, and that are removed with
   * it.
   */
  constructor(journal: Journal, companions: readonly string[] = []) {
    this.journal = journal;
    this.companions = companions;
  }

  /** Latest change first. */
  async list(
    filter: { status?: SessionStatus; goal?: string; openCalls?: true; limit?: number; cursor?: string } = {},
  ): Promise<{ sessions: SessionSummary[]; cursor: string | null }> {
    checkOptions("sessions.list", filter, LIST_OPTIONS);
    const { limit = 50, ...rest } = filter;
    const page = await this.journal.list<"streams">({ of: "streams", kind: "session", limit, ...rest });
    const now = this.journal.now();
    const sessions = page.rows.map((row) => ({
      id: streamId(row.stream),
      status: (row.facets.status ?? "active") as SessionStatus,
      title: row.facets.title,
      goal: row.facets.goal,
      createdAt: new Date(row.createdAt),
      updatedAt: new Date(row.updatedAt),
      openCalls: row.facets.openCalls,
      stale: row.facets.expiresAt !== null && row.facets.expiresAt < now,
    }));
    return { sessions, cursor: page.cursor };
  }

  /** One session with all that is in it, as it is now, and who holds it. */
  async get(id: string): Promise<SessionDetail> {
    const { state, row } = await this.load(id);
    const lease = await this.journal.leases.find(row.stream);
    return {
      id,
      status: state.status,
      title: state.title,
      goal: state.goal,
      createdAt: new Date(state.createdAt),
      updatedAt: new Date(state.updatedAt),
      openCalls: state.openCalls.size,
      stale: state.ttlMs !== null && state.updatedAt + state.ttlMs < this.journal.now(),
      messages: state.messages,
      plan: state.plan,
      budget: state.budget,
      calls: [...state.calls.values()],
      versions: [...state.checkpoints.values()],
      version: state.version,
      metadata: state.metadata,
      scratchpadRoot: state.scratchpadRoot,
      forkedFrom: state.forked?.session ?? null,
      forkedAtVersion: state.forked?.version ?? null,
      effects: state.effects,
      parent: state.parent?.session ?? null,
      heldBy: lease && lease.remainingMs > 0 ? lease.holder : null,
    };
  }

  /** A session as it was at a version: transcript, plan, budget. */
  at(id: string, version: number): Promise<SessionVersion> {
    return versionOf(this.journal, id, version);
  }

  /** What was said, planned and spent between two versions. */
  diff(id: string, before: number, after: number): Promise<SessionDiff> {
    return diffVersions(this.journal, id, before, after);
  }

  /**
   * Makes a session whose past is another's, up to a version (unless set, all of it). To try another way from
   * there: the past is shared, not copied, and it starts no effects until told to. The report names those
   * that it may repeat.
   */
  fork(from: string, id: string, options: { version?: number; effects?: "live" } = {}): Promise<ForkReport> {
    return forkSession(this.journal, from, id, options);
  }

  /**
   * Takes effect at once: a process that holds the session stops at its next look, well within a second.
   * Where none does, calls whose outcome is not known wait for a person from now on: nobody else would find
   * out.
   */
  async cancel(id: string, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.cancel", spoken);
    let held = true;
    const look = async (): Promise<void> => {
      held = await this.journal.leases.isHeld(streamName("session", id));
    };
    const say = (state: SessionState, isAsSeen: boolean): Draft[] =>
      cancellation(state, spoken, !held && isAsSeen);
    const log = await this.speak(id, say, look);
    await cancelChildren(this.journal, incarnationOf(id, log.head.generation), log.state, spoken);
  }

  /**
   * A person has looked at a session that is left alone, because its workers died again and again or because
   * it is past its time to live: a supervisor may start the next worker, and whoever opens it is not refused.
   */
  async retry(id: string, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.retry", spoken);
    await this.speak(id, (state) => {
      if (state.status !== "active") throw isEnded(id, state.status);
      return [{ type: "session.status", data: { status: "active", why: spoken.why ?? null, by: spoken.by } }];
    });
  }

  /**
   * Lets a fork start effects of its own, or not any more. Who runs it right now minds it from its next call
   * on.
   */
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
   * Queues a message for whoever runs the session; its next turn begins with it. The same id is queued once,
   * and with other words refused.
   */
  async prompt(id: string, prompt: { id?: string; text: string }, spoken: Spoken): Promise<string> {
    mustSpeak("sessions.prompt", spoken);
    const promptId = prompt.id ?? this.journal.newId();
    const blocks: Block[] = [{ kind: "text", text: prompt.text }];
    let isKnown = false;
    const log = await this.speak(id, (state) => {
      isKnown = state.messageIds.has(promptId) || state.prompts.some((each) => each.id === promptId);
      return isKnown ? [] : [{ type: "prompt.queued", data: { id: promptId, blocks, by: spoken.by } }];
    });
    const record = isKnown ? await promptRecord(this.journal, log, promptId) : null;
    const said = { id: promptId, text: prompt.text };
    if (record) mustSayTheSame(id, this.journal, said, record.text, "Nothing was queued");
    return promptId;
  }

  /** Raises (never lowers) the limits of a session, so that one that is paused can go on. */
  async raiseBudget(id: string, limits: Amounts, spoken: Spoken): Promise<void> {
    mustSpeak("sessions.raiseBudget", spoken);
    mustBeAmounts("limits", limits);
    await this.speak(id, ({ budget }) => {
      const raised = BUDGET_UNITS.filter(
        (unit) => (limits[unit] ?? 0) > (budget.limit[unit] ?? Number.POSITIVE_INFINITY),
      );
      const data = { limits: Object.fromEntries(raised.map((unit) => [unit, limits[unit]])), by: spoken.by };
      return raised.length === 0 ? [] : [{ type: "budget.limited", data }];
    });
  }

  /**
   * By age, status or count; at least one must be said. `keep` alone removes all but the latest so many,
   * active ones too. What has open calls or an owner is spared, and so is what somebody will look into again:
   * a sub-agent while the call that it works for has no outcome, the effects of a LangGraph thread while that
   * is there.
   */
  async prune(options: {
    olderThanMs?: number;
    status?: SessionStatus;
    keep?: number;
    dryRun?: boolean;
  }): Promise<PruneReport> {
    checkOptions("sessions.prune", options, PRUNE_OPTIONS);
    const { olderThanMs, ...rest } = options;
    const updatedBefore =
      olderThanMs === undefined ? {} : { updatedBefore: this.journal.now() - olderThanMs };
    const how = { isNeeded: this.isNeeded, companions: this.companions };
    return this.journal.prune({ kind: "session", ...rest, ...updatedBefore, ...how });
  }

  /**
   * For privacy: removes the session and every fork that shares its past, with the conversations that
   * integrations keep for them, and overwrites the bytes.
   */
  async erase(id: string): Promise<void> {
    const how = { erase: true, isNeeded: this.isNeeded, companions: this.companions } as const;
    const result = await this.journal.remove(streamName("session", id), how);
    if (result === "removed") return;
    if (result === "gone") throw noSession(id, this.journal.store.address);
    const reason =
      result === "held"
        ? "a process holds it"
        : result === "needed"
          ? "what it works for is not finished"
          : "it has calls without an outcome";
    throw new HoldfastError("STREAM_BUSY", `session ${id} cannot be erased: ${reason}`, {
      hint: "Cancel it or settle its calls, then erase it again.",
    });
  }

  private readonly isNeeded = (id: string): Promise<boolean> => isReferenced(this.journal, id);

  private async load(id: string) {
    const loaded = await this.journal.load(sessionKind, id);
    if (loaded.row.state !== "live") throw noSession(id, this.journal.store.address);
    return loaded;
  }

  /**
   * Appends without the lease, on the expected position; decided again on conflict. `look` comes after the
   * first look.
   */
  private async speak(
    id: string,
    say: (state: SessionState, isAsSeen: boolean) => Draft[],
    look?: () => Promise<void>,
  ): Promise<Log<SessionState>> {
    const log = await this.journal.open(sessionKind, id);
    if (!log.exists) throw noSession(id, this.journal.store.address);
    const { generation, seq } = log.head;
    await look?.();
    const outcome = await log.commit((state, head) => {
      // Removed meanwhile: whatever is said would bring it back, or be said to another that has its name.
      if (head.generation !== generation) throw noSession(id, this.journal.store.address);
      return { events: say(state, head.seq === seq), result: undefined };
    });
    commitResult(outcome);
    return log;
  }
}

function isEnded(id: string, status: SessionStatus): HoldfastError {
  return new HoldfastError("SESSION_ENDED", `session ${id} is ${status}: nothing of it is tried again`, {
    hint: "Nothing was changed. Its agent makes it active again with session.reopen().",
    data: { session: id },
  });
}
