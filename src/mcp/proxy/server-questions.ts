/**
 * What the server asks the client: sampling, elicitation, roots, a ping. Every process of the server counts its requests
 * from the start, so that the first question of a restarted server has the id of the first question of its predecessor,
 * which a person may still be reading: their yes would be taken for the answer to something else. So the client is given an
 * id of ours for each, which no two questions share; the answer goes back under the server's own.
 */

import { type Id, idAt, idText, type Line, notificationText } from "./json-rpc.ts";
import { withId } from "./json-text.ts";

export class ServerQuestions {
  private readonly newId: () => string;
  /** The server's ids, by ours. */
  private readonly open = new Map<Id, Id>();

  constructor(newId: () => string) {
    this.newId = newId;
  }

  /** What the client is asked. */
  asked(raw: string, id: Id): string {
    const own = this.newId();
    this.open.set(own, id);
    return withId(raw, idText(own));
  }

  /** What the server is told; null if nobody waits for that answer: who asked has ended, or asks no more. */
  answered(raw: string, own: Id): string | null {
    const id = this.open.get(own);
    this.open.delete(own);
    return id === undefined ? null : withId(raw, idText(id));
  }

  /** The server asks no more; null if the client has answered already. */
  withdrawn(line: Line): string | null {
    const id = idAt(line, "requestId");
    const [own] = [...this.open].find(([, theirs]) => theirs === id) ?? [];
    if (own === undefined) return null;
    this.open.delete(own);
    return notificationText("notifications/cancelled", { ...line.message.params, requestId: own });
  }

  /** The process that asked is gone: what the client is told, so that nobody goes on answering. */
  ended(why: string): string[] {
    const left = [...this.open.keys()];
    this.open.clear();
    const reason = `the server ${why}, and does not wait for the answer any more`;
    return left.map((requestId) => notificationText("notifications/cancelled", { requestId, reason }));
  }
}
