/**
 * What client and server have told each other about themselves, as far as the proxy has to know it: what a server that is
 * started again must be told first, what a request of our own has to carry, and which tools promise structured answers.
 */

import type { Downstream } from "./downstream.ts";
import type { Id, Line } from "./json-rpc.ts";

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
