import type { Journal } from "../../journal/index.ts";
import { streamName } from "../../model/names.ts";
import type { JsonObject } from "../../model/session/index.ts";
import type { Holdfast } from "../../open.ts";
import { drivenByMetadata, type Session } from "../../session/index.ts";
import { threadKind } from "./thread-kind.ts";
import { sessionIdOf, streamIdOf } from "./thread-name.ts";

interface Held {
  users: number;
  session: Promise<Session>;
}

/** With which a thread's session is opened. */
function metadataFor(threadStream: string): JsonObject {
  return drivenByMetadata("its thread", threadStream);
}

/** Whether that session keeps the effects of that thread, and is not somebody's own that has such an id. */
export async function keepsEffectsOf(
  journal: Journal,
  session: string,
  threadStream: string,
): Promise<boolean> {
  for await (const [, { data }] of journal.events(session, 0, 1)) {
    const { metadata = {} } = data as { readonly metadata?: JsonObject };
    return Object.entries(metadataFor(threadStream)).every(([name, value]) => metadata[name] === value);
  }
  return false;
}

/**
 * The sessions in which the effects of threads are recorded: `langgraph.<thread>`. One is held while some node of the
 * thread in this process is at work with it, and let go with the last, so that another process can go on at once.
 */
export class EffectSessions {
  private readonly holdfast: Holdfast;
  private readonly held = new Map<string, Held>();
  private readonly closing = new Map<string, Promise<void>>();

  constructor(holdfast: Holdfast) {
    this.holdfast = holdfast;
  }

  /** For one run of one node: `session` opens it at the first effect, `done` must be called in any case. */
  use(thread: string): { session(): Promise<Session>; done(): Promise<void> } {
    let mine: Held | null = null;
    return {
      session: () => {
        if (!mine) {
          mine = this.held.get(thread) ?? { users: 0, session: this.open(thread) };
          mine.users += 1;
          this.held.set(thread, mine);
        }
        return mine.session;
      },
      done: async () => {
        if (!mine) return;
        mine.users -= 1;
        if (mine.users === 0) await this.close(thread, mine);
      },
    };
  }

  private async open(thread: string): Promise<Session> {
    await this.closing.get(thread);
    return this.holdfast.session(sessionIdOf(thread), {
      title: `LangGraph thread ${thread}`,
      ttlMs: null,
      metadata: metadataFor(streamName(threadKind.kind, streamIdOf(thread))),
    });
  }

  private async close(thread: string, held: Held): Promise<void> {
    this.held.delete(thread);
    const closed = held.session.then(
      (session) => session.close(),
      // It was never opened, and whoever wanted it was told why.
      () => undefined,
    );
    this.closing.set(thread, closed);
    await closed;
    if (this.closing.get(thread) === closed) this.closing.delete(thread);
  }
}
