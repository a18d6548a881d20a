/**
 * Tells subscribers that a resource has changed: an agent hears that another has claimed a task.
 *
 * A change is found by comparing the heads of the goals with the known ones. The store's `watch` is only a
 * hint, so the heads are also compared every second. A spurious update costs the client one read.
 */

import type { McpServer } from "@modelcontextprotocol/server";
import { streamId, streamName } from "../../model/names.ts";
import type { Context } from "../../operations/index.ts";
import type { AgentSession } from "./agent-session.ts";

const LOOK_MS = 1_000;
const GOALS = 100;

export class GoalChanges {
  private readonly agent: AgentSession;
  private readonly updated: (uri: string) => void;
  private readonly heads = new Map<string, string>();
  private timer: NodeJS.Timeout | null = null;
  private stopWatching: (() => void) | null = null;
  private looking: Promise<void> = Promise.resolve();

  constructor(agent: AgentSession, updated: (uri: string) => void) {
    this.agent = agent;
    this.updated = updated;
  }

  /** Resolves when the current heads are known: every later change is reported. */
  start(): Promise<void> {
    this.timer ??= setInterval(() => void this.look(), LOOK_MS).unref();
    return this.look();
  }

  stop(): void {
    if (this.timer) clearInterval(this.timer);
    this.stopWatching?.();
    this.timer = null;
    this.stopWatching = null;
    this.heads.clear();
  }

  /** Looks run one after another: two at once would report a change twice. */
  private look(): Promise<void> {
    const look = (): Promise<void> => this.agent.use((context) => this.compare(context));
    // A store that cannot be read now is compared at the next look; a call of the agent reports the error.
    this.looking = this.looking.then(look).catch(() => undefined);
    return this.looking;
  }

  private async compare(context: Context): Promise<void> {
    if (this.timer === null) return;
    const { journal } = await context.holdfast();
    this.stopWatching ??= journal.watch(null, () => void this.look());
    const { rows } = await journal.list<"streams">({ of: "streams", kind: "goal", limit: GOALS });
    const isFirst = this.heads.size === 0;
    const changed = rows.filter(({ stream, head }) => {
      const mark = `${head.generation}.${head.seq}`;
      const isNew = this.heads.get(stream) !== mark;
      this.heads.set(stream, mark);
      return isNew && !isFirst;
    });
    if (changed.length === 0) return;
    // Without a current goal, the resources of the current goal cannot be read either.
    const current = await context.goalId(undefined).catch(() => null);
    for (const { stream } of changed) {
      this.updated(`holdfast://state/${streamId(stream)}`);
      if (current === null || stream !== streamName("goal", current)) continue;
      this.updated("holdfast://state");
      this.updated("holdfast://decisions");
    }
  }
}

/** Serves subscriptions of one connection. The newer protocol filters outside: there every change is sent. */
export function addSubscriptions(server: McpServer, agent: AgentSession): GoalChanges {
  const { server: protocol } = server;
  const wanted = new Set<string>();
  const changes = new GoalChanges(agent, (uri) => {
    // A client that is gone needs no updates; its end stops the rest.
    if (wanted.size === 0 || wanted.has(uri)) protocol.sendResourceUpdated({ uri }).catch(() => undefined);
  });
  protocol.setRequestHandler("resources/subscribe", async ({ params }) => {
    wanted.add(params.uri);
    await changes.start();
    return {};
  });
  protocol.setRequestHandler("resources/unsubscribe", async ({ params }) => {
    wanted.delete(params.uri);
    if (wanted.size === 0) changes.stop();
    return {};
  });
  protocol.onclose = () => changes.stop();
  return changes;
}
