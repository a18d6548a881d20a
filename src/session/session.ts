/**
 * One agent's conversation, held by one owner at a time.
 *
 * A session is a log under the lease `session/<id>`. Everything here appends events and reads the fold; memory
 * is never ahead of the store. Whoever holds the lease may write; others may answer waiting calls, cancel, queue
 * prompts and raise budgets (`sessions.ts`, `call-desk.ts`).
 */

import { failpoint } from "../failpoint.ts";
import type { CallProgress, CallsOutcome, Finishing, Tool } from "../ledger/index.ts";
import { HoldfastError } from "../model/errors.ts";
import {
  type Amounts,
  type Call,
  compareTranscripts,
  type JsonObject,
  type Message,
  type Plan,
  reactivate,
  type SessionDiff,
  type SessionStatus,
  toolCalls,
} from "../model/session/index.ts";
import type { Draft } from "../model/stream/index.ts";
import { cancelChildren } from "./children.ts";
import { type DirectCall, type DirectOutcome, runDirectCall } from "./direct-call.ts";
import { checkpointDraft, hasOpenCalls, noVersion } from "./drafts.ts";
import { asRunOf, isWithinRunOf } from "./nesting.ts";
import { OwnedSession } from "./owned-session.ts";
import { runLoop } from "./run.ts";
import { checkRunOptions, type RunOptions, type RunResult } from "./run-options.ts";
import { withNamedPrompt } from "./sub-agent-prompts.ts";
import { diffVersions, type ForkReport, forkSession, type SessionVersion, versionOf } from "./versions.ts";

/**
 * What `holdfast.session(id)` gives: the one handle that may write to this conversation until it is closed or lost.
 * Use `run` for the whole agent loop; `append`, `calls` and `call` for a loop of your own; `save` to keep what another
 * framework runs. Every promise here resolves once what it did is durable. When `lost` aborts, another process goes on:
 * stop. To look at a session, or to speak to one that somebody else runs, use `holdfast.sessions` instead.
 */
export class Session extends OwnedSession {
  private loop: Promise<unknown> = Promise.resolve();

  /**
   * Saves a whole transcript, plan and spending as a new version, as checkpointers of other systems do. Only what is
   * new is stored, also when messages were edited, compacted or left out. Returns the version's number.
   */
  async save(content: {
    readonly messages: readonly unknown[];
    readonly plan?: Plan | null;
    readonly spent?: Amounts;
    readonly label?: string;
  }): Promise<number> {
    const messages = this.knownMessages(content.messages);
    return this.write((state) => {
      const change = compareTranscripts(state.messages, messages);
      const events: Draft[] = [];
      if (change.kind === "appended") {
        for (const message of change.messages) events.push({ type: "message", data: { message } });
      }
      if (change.kind === "replaced")
        events.push({ type: "transcript.replaced", data: { segments: change.segments } });
      if (content.plan !== undefined) events.push({ type: "plan.set", data: { plan: content.plan } });
      if (content.spent) events.push({ type: "budget.spent", data: { amounts: content.spent } });
      events.push(checkpointDraft(state, content.label ?? true));
      return { events: reactivate(state, events), result: state.version + 1 };
    });
  }

  /**
   * Replaces the transcript, for example by a summary and its last messages, when the context runs out. Versions
   * before this stay loadable. Returns the number of the version made right before.
   */
  async compact(messages: readonly unknown[], why?: string): Promise<number> {
    const next = this.knownMessages(messages);
    return this.write((state) => {
      const change = compareTranscripts(state.messages, next);
      const segments =
        change.kind === "replaced"
          ? change.segments
          : [
              ...(state.messages.length > 0 ? [{ keep: [0, state.messages.length] }] : []),
              ...(change.kind === "appended" ? [{ add: change.messages }] : []),
            ];
      const events: Draft[] = [
        checkpointDraft(state, "before compaction"),
        { type: "transcript.replaced", data: { segments, ...(why !== undefined && { why }) } },
      ];
      return { events, result: state.version + 1 };
    });
  }

  /** Gives the session as it is now a number, and optionally a label. */
  async checkpoint(label?: string): Promise<number> {
    const version = await this.write((state) => {
      return { events: [checkpointDraft(state, label ?? true)], result: state.version + 1 };
    });
    failpoint("checkpoint.saved");
    return version;
  }

  /** Deletes a version's label and number; numbers are not reused, and resume does not need it. */
  async deleteVersion(version: number): Promise<void> {
    await this.write((state) => {
      if (!state.checkpoints.has(version)) throw noVersion(this.id, version);
      return { events: [{ type: "checkpoint.deleted", data: { version } }], result: undefined };
    });
  }

  /** The session as it was at a version: transcript, plan, budget. */
  at(version: number): Promise<SessionVersion> {
    return versionOf(this.internals.journal, this.id, version);
  }

  /** What was said, planned and spent between two versions. */
  diff(before: number, after: number): Promise<SessionDiff> {
    return diffVersions(this.internals.journal, this.id, before, after);
  }

  /** A new session that shares its past with this one up to a version. It starts no effects until told to. */
  fork(id: string, options: { version?: number; effects?: "live" } = {}): Promise<ForkReport> {
    return forkSession(this.internals.journal, this.id, id, options);
  }

  /** Lets a fork start effects of its own. */
  async allowEffects(): Promise<void> {
    await this.write(() => ({
      events: [{ type: "session.effects", data: { effects: "live" } }],
      result: undefined,
    }));
  }

  /** Replaces the plan; null for none. `save` can do it together with the transcript. */
  async setPlan(plan: Plan | null): Promise<void> {
    await this.write(() => ({ events: [{ type: "plan.set", data: { plan } }], result: undefined }));
  }

  /** Sets limits per unit; `null` takes one away. */
  async limit(limits: { usd?: number | null; tokens?: number | null; turns?: number | null }): Promise<void> {
    await this.write(() => ({ events: [{ type: "budget.limited", data: { limits } }], result: undefined }));
  }

  /** Counts spending that happened outside `run`. */
  async spend(amounts: Amounts): Promise<void> {
    await this.write(() => ({ events: [{ type: "budget.spent", data: { amounts } }], result: undefined }));
  }

  /** Changes title, scratchpad root, goal, time to live, or metadata (merged by key). */
  async describe(description: {
    title?: string | null;
    scratchpadRoot?: string | null;
    goal?: string | null;
    ttlMs?: number | null;
    metadata?: JsonObject;
  }): Promise<void> {
    await this.write(() => ({
      events: [{ type: "session.described", data: description }],
      result: undefined,
    }));
  }

  /**
   * Runs the agent loop until the prompt is answered, a person is needed, or something says stop. Run it again after a
   * crash, a pause or an answer: it finds its place from the log. One run at a time; a second one waits for the first,
   * and is refused where the first waits for it, as in one of its tools.
   */
  run(options: RunOptions): Promise<RunResult> {
    if (isWithinRunOf(this)) return Promise.reject(nestedRun(this.id));
    try {
      checkRunOptions(this.id, options);
    } catch (error) {
      return Promise.reject(error);
    }
    const named = withNamedPrompt(this, options);
    // One loop at a time: a second one would ask the model about a conversation that the first is changing.
    const before = this.loop;
    const run = this.watched(async () => {
      await before.catch(() => undefined);
      await this.refresh();
      return asRunOf(this, () => runLoop(this, named));
    });
    this.loop = run;
    return run;
  }

  /**
   * Runs all calls of a message with the ledger's promises, and appends their results. For loops of one's own; the
   * message must have been appended, so that a crash finds it again.
   */
  calls(
    message: Message,
    tools: readonly Tool[],
    options: { parallel?: number; signal?: AbortSignal; on?: (progress: CallProgress) => void } = {},
  ): Promise<CallsOutcome & { readonly count: number }> {
    return this.duringCommit(async () => {
      const stored = this.findMessage(message.id);
      if (!stored) throw notAppended(this.id, message.id);
      const { done, waiting, later, blocked } = await this.ledger(tools, options).run(
        stored,
        WITH_CHECKPOINT,
      );
      if (!done) await this.mustHold();
      return { done, waiting, later, blocked, count: toolCalls(stored).length };
    });
  }

  /** One call of one tool outside any message, with the same promises. Its id makes it the same call after a crash. */
  call<Result>(direct: DirectCall<Result>): Promise<DirectOutcome<Result>> {
    return this.duringCommit(() => runDirectCall(this, direct));
  }

  /** Settles what an earlier process left without an outcome, as far as these tools can: all of it, unless told which. */
  settle(
    tools: readonly Tool[],
    isMeant: (call: Call) => boolean = () => true,
  ): Promise<{ settled: string[]; open: string[] }> {
    return this.during(async () => {
      const report = await this.ledger(tools, {}).settle(isMeant);
      if (report.open.length > 0) await this.mustHold();
      this.noteSettled();
      return report;
    });
  }

  /** Says that the work is done. Refused while calls have no outcome; a later `run`, `append` or `call` goes on all the same. */
  complete(why?: string): Promise<void> {
    return this.end("completed", why);
  }

  /** The same for work that is given up. */
  fail(why: string): Promise<void> {
    return this.end("failed", why);
  }

  /** Stops it until it is reopened: nothing new is begun. Also cancels the sub-agents that work for it. */
  async cancel(why?: string): Promise<void> {
    await this.end("cancelled", why);
    const by = this.internals.own.lease.holder.label;
    await cancelChildren(this.internals.journal, this.life, this.state, {
      by,
      ...(why !== undefined && { why }),
    });
  }

  /** Makes an ended session active again. */
  async reopen(): Promise<void> {
    const data = { status: "active", why: null, by: this.internals.own.lease.holder.label };
    await this.watched(() =>
      this.internals.own.write(() => ({ events: [{ type: "session.status", data }], result: undefined })),
    );
  }

  private async end(status: Exclude<SessionStatus, "active">, why?: string): Promise<void> {
    const data = { status, why: why ?? null, by: this.internals.own.lease.holder.label };
    await this.duringCommit(() =>
      this.internals.own.write((state) => {
        if (status !== "cancelled" && state.openCalls.size > 0)
          throw hasOpenCalls(this.id, state.openCalls.size);
        const events = state.status === status ? [] : [{ type: "session.status", data }];
        return { events, result: undefined };
      }),
    );
  }
}

const WITH_CHECKPOINT: Finishing = (state) => [checkpointDraft(state, true)];

function nestedRun(session: string): HoldfastError {
  return new HoldfastError(
    "INPUT_INVALID",
    `session ${session}: run was called from within a run of the same session, which would wait for itself`,
    {
      hint: "Call it when that run has ended. For a sub-agent use agentTool(); sessions.prompt() queues a message.",
      data: { session },
    },
  );
}

function notAppended(session: string, message: string): HoldfastError {
  return new HoldfastError("INPUT_INVALID", `session ${session}: message ${message} was not appended`, {
    hint: "Append it first and pass what append() returned: a crash must find the message that asked for the calls.",
  });
}
