/**
 * The agent that the server acts for, and its store.
 *
 * Name: `--by`; else the session that the agent's hooks started, such as `claude-7f2a91bc0001`; else the
 * client's name and process id, such as `claude-code-1k2`. Hooks and server are one agent: a claim over MCP
 * belongs to the session, so it comes back when the agent dies and stays when its conversation is resumed.
 * Every name survives restarts of this server, because the name proves a claim.
 *
 * Store: opened on first use; a call that fails, or can only read, is followed by another attempt.
 *
 * Claims: while the server runs, the leases of the agent's tasks are renewed every minute for five minutes.
 * An agent whose server restarts keeps its tasks; five minutes after it is gone, others may claim them.
 */

import { processAbove, sessionOfProcess, spoolFolder } from "../../agent-sessions/index.ts";
import type { Actor, GoalRole } from "../../model/goal/index.ts";
import { streamName } from "../../model/names.ts";
import { Context, type Operation, perform } from "../../operations/index.ts";
import { noteOf } from "../note.ts";

export interface ServerOptions {
  readonly store: string | undefined;
  readonly namespace: string | undefined;
  readonly goal: string | undefined;
  readonly by: string | undefined;
  readonly role: GoalRole;
}

const RENEW_MS = 60_000;
const CLAIM_MS = 5 * 60_000;
const warn = (error: unknown): void => {
  process.stderr.write(`holdfast mcp: ${noteOf(error)}\n`);
};

const CLAIMING = ["task claim", "task start"];
/** Operations that act on the agent's own session unless one is named. */
const OF_SESSION = [...CLAIMING, "brief", "resume", "note", "handoff", "finish"];

export class AgentSession {
  private readonly options: ServerOptions;
  private client: string | undefined;
  private opening: Promise<Context> | undefined;
  private context: Context | undefined;
  private closing: Promise<void> | undefined;
  private users = 0;
  private readonly goals = new Set<string>();
  /** The session that `resume` started. Claims belong to it, so that `handoff` releases them. */
  private session: { readonly goal: string; readonly id: string } | undefined;
  private readonly above = processAbove();
  /** The session of the hooks that the same agent process runs. */
  private hookSession: string | null = null;
  private readonly timer: NodeJS.Timeout;

  constructor(options: ServerOptions) {
    this.options = options;
    this.timer = setInterval(() => void this.renewQuietly(), RENEW_MS).unref();
  }

  /** Sent once in the older protocol, with every request in the newer one. The first counts. */
  meet(client: string | undefined): void {
    this.client ??= client;
  }

  get by(): Actor {
    const { by, role } = this.options;
    const client = (this.client ?? "agent")
      .toLowerCase()
      .replace(/[^a-z0-9]+/g, "-")
      .slice(0, 60);
    const own = this.above?.pid ?? process.ppid;
    return { name: by ?? this.hookSession ?? `${client}-${own.toString(36)}`, role };
  }

  /** Looks again at each call: an agent may start another conversation in the same process. */
  private findHookSession({ place }: Context): void {
    if (this.options.by !== undefined || place.isNamed || this.above === null) return;
    this.hookSession = sessionOfProcess(spoolFolder(place.home), this.above);
  }

  perform(operation: Operation, input: Readonly<Record<string, unknown>>): Promise<unknown> {
    return this.use(async (context) => {
      const isClaim = CLAIMING.includes(operation.name);
      this.findHookSession(context);
      context.by = this.by;
      const said = OF_SESSION.includes(operation.name)
        ? { ...(await this.ownSession(context, input["goal"])), ...input }
        : input;
      const result = (await perform(operation, context, said)) as { goal?: string; session?: string | null };
      const { goal, session } = result;
      if (operation.name === "resume" && goal !== undefined && session) this.session = { goal, id: session };
      if (["handoff", "finish"].includes(operation.name)) this.session = undefined;
      if (isClaim && goal !== undefined) {
        this.goals.add(goal);
        await this.renewQuietly();
      }
      return result;
    });
  }

  async use<Result>(act: (context: Context) => Promise<Result>): Promise<Result> {
    this.users++;
    try {
      return await act(await this.open());
    } finally {
      this.users--;
      await this.closeReadOnly();
    }
  }

  /** Closes a store that could only be opened for reading. The next call tries to open it for writing. */
  private async closeReadOnly(): Promise<void> {
    const { context } = this;
    if (this.users > 0 || !context?.isReadOnly) return;
    this.opening = undefined;
    this.context = undefined;
    this.closing = context.close();
    await this.closing;
  }

  private open(): Promise<Context> {
    this.opening ??= this.openAnew().catch((error: unknown) => {
      this.opening = undefined;
      throw error;
    });
    return this.opening;
  }

  async close(): Promise<void> {
    clearInterval(this.timer);
    // The call that needed the store has reported the error.
    const context = await this.opening?.catch(() => null);
    await context?.close();
    await this.closing;
  }

  private async openAnew(): Promise<Context> {
    const { store, namespace, goal } = this.options;
    await this.closing;
    const context = await Context.of({ store, namespace, goal, by: this.by, caller: "agent", warn });
    await context.holdfast();
    this.context = context;
    return context;
  }

  private async ownSession(context: Context, goal: unknown): Promise<{ session?: string }> {
    if (this.hookSession !== null && this.options.by === undefined)
      return this.activeHookSession(context, goal);
    if (!this.session) return {};
    const isSame = (await context.goalId(goal as string | undefined)) === this.session.goal;
    return isSame ? { session: this.session.id } : {};
  }

  /** The hook session, if the goal has it: its lines may belong to another goal. */
  private async activeHookSession(context: Context, goal: unknown): Promise<{ session?: string }> {
    const { state } = await context.readGoal(goal as string | undefined);
    const session = this.hookSession ?? "";
    return state.history.has(session) ? { session } : {};
  }

  /** An error here is only logged: the next call that needs the claim or the store reports it. */
  private async renewQuietly(): Promise<void> {
    if (this.goals.size === 0) return;
    await this.use((context) => this.renew(context)).catch(warn);
  }

  private async renew(context: Context): Promise<void> {
    const { journal } = await context.holdfast();
    const { name } = this.by;
    for (const goal of this.goals) {
      const { state } = await context.readGoal(goal);
      const leases = [...state.tasks.values()].flatMap(({ id, claim }) =>
        claim?.by.name === name && !state.origins.has(claim.uid ?? "")
          ? [{ lease: `${streamName("goal", goal)}/${claim.as ?? id}`, token: claim.token }]
          : [],
      );
      if (leases.length === 0) this.goals.delete(goal);
      else await journal.store.lease({ act: "renew", namespace: journal.namespace, leases, ttlMs: CLAIM_MS });
    }
  }
}
