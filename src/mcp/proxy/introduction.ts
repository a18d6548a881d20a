/**
 * State of the connection that outlives a restart of the server: the handshake to replay, the `_meta`
 * of our own requests, the tools with structured output, and the server's open requests to the client.
 */

import type { Downstream } from "./downstream.ts";
import { type Id, idAt, idText, type Line, notificationText, withId } from "./json-rpc.ts";

/**
 * Requests of the server to the client: sampling, elicitation, roots, ping. A restarted server counts its ids
 * from the start, so its first question has the id of its predecessor's first question, which a person may
 * still be reading. Their yes would answer another question. So the client sees an id of ours for each
 * question.
 */
export class ServerQuestions {
  private readonly newId: () => string;
  /** Our id to the server's id. */
  private readonly open = new Map<Id, Id>();

  constructor(newId: () => string) {
    this.newId = newId;
  }

  /** The request to send to the client. */
  asked(raw: string, id: Id): string {
    const own = this.newId();
    this.open.set(own, id);
    return withId(raw, idText(own));
  }

  /** The response to send to the server, or null if the question was withdrawn or its process ended. */
  answered(raw: string, own: Id): string | null {
    const id = this.open.get(own);
    this.open.delete(own);
    return id === undefined ? null : withId(raw, idText(id));
  }

  /** The cancellation to send to the client, or null if the client has already answered. */
  withdrawn(line: Line): string | null {
    const id = idAt(line, "requestId");
    const [own] = [...this.open].find(([, theirs]) => theirs === id) ?? [];
    if (own === undefined) return null;
    this.open.delete(own);
    return notificationText("notifications/cancelled", { ...line.message.params, requestId: own });
  }

  /** Cancellations to send to the client after the server's process ended. */
  ended(why: string): string[] {
    const left = [...this.open.keys()];
    this.open.clear();
    const reason = `the server ${why} and no longer waits for the answer`;
    return left.map((requestId) => notificationText("notifications/cancelled", { requestId, reason }));
  }
}

/** Since the protocol of 2026-07-28 every request carries these; before, `initialize` sent them once. */
const ENVELOPE = [
  "io.modelcontextprotocol/protocolVersion",
  "io.modelcontextprotocol/clientInfo",
  "io.modelcontextprotocol/clientCapabilities",
] as const;

export class Introduction {
  /** True for the newer protocol, which has no `initialize` and no requests from the server. */
  isModern = false;
  /** True once the handshake is over. */
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

  /** Reads a message of the client. */
  observe({ raw, message }: Line): void {
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

  /** Reads the server's response to a forwarded request. */
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
