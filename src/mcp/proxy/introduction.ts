/**
 * What client and server have told each other about themselves, as far as the proxy has to know it: what a server that is
 * started again must be told first, what a request of our own has to carry, and which tools promise structured answers.
 */

import type { Downstream } from "./downstream.ts";
import { type Id, type Line, idAt, idText, notificationText, withId } from "./json-rpc.ts";

/**
 * What the server asks the client: sampling, elicitation, roots, a ping. Every process of the server counts its requests
 * from the start, so that the first question of a restarted server has the id of the first question of its predecessor,
 * which a person may still be reading: their yes would be taken for the answer to something else. So the client is given an
 * id of ours for each, which no two questions share; the answer goes back under the server's own.
 */



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



/** Every request of the protocol of 2026-07-28 and later carries these; before, `initialize` said it once. */
const ENVELOPE = [
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/clientInfo",
  "io.modelcontextprotocol/clientCapabilities",
] as const;

export class Introduction {
  /** The client speaks a protocol without `initialize`, and without requests from the server. */
  isModern = false;
  /** The server may be asked something. */
  isDone = false;
  envelope: Readonly<Record<string, unknown>> | undefined;
  private readonly downstream: Downstream;
  private readonly structured = new Set<string>();
  private greeting: { readonly id: Id; readonly raw: string } | undefined;

  constructor(downstream: Downstream) {
    this.downstream = downstream;
  }

  hasOutputSchema(tool: string): boolean {
    return this.structured.has(tool);
  }

  /** Something that the client said. */
  hear({ raw, message }: Line): void {
    const { id, method, params } = message;
    const uri = String(params?.["uri"]);
    if (method === "initialize" && id !== undefined) this.greeting = { id, raw };
    if (method === "notifications/initialized") {
      this.downstream.remember("initialized", raw);
      this.isDone = true;
    }
    if (method === "logging/setLevel") this.downstream.remember("level", raw);
    if (method === "resources/subscribe") this.downstream.remember(`subscription ${uri}`, raw);
    if (method === "resources/unsubscribe") this.downstream.forget(`subscription ${uri}`);
    const meta = params?.["_meta"] as Readonly<Record<string, unknown>> | undefined;
    if (meta?.[ENVELOPE[0]] === undefined || method === undefined) return;
    this.envelope = Object.fromEntries(ENVELOPE.flatMap((key) => (key in meta ? [[key, meta[key]]] : [])));
    this.isModern = true;
    this.isDone = true;
  }

  /** The server's answer to a request of the client that was passed on. */
  answered({ message }: Line, method: string | undefined): void {
    if (method === "initialize" && message.id === this.greeting?.id && message.error === undefined) {
      this.downstream.remember("initialize", this.greeting?.raw ?? "");
    }
    if (method !== "tools/list") return;
    const { tools = [] } = (message.result ?? {}) as {
      tools?: readonly { name: string; outputSchema?: unknown }[];
    };
    for (const { name, outputSchema } of tools) if (outputSchema !== undefined) this.structured.add(name);
  }
}
