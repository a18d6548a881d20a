/**
 * State of the connection that outlives a restart of the server: the handshake to replay, and the server's
 * open requests to the client.
 */

import type { Downstream } from "./downstream.ts";
import { exactText, type Id, idAt, idText, type Line, notificationText, withId } from "./json-rpc.ts";
import type { ToolHints } from "./proxy-config.ts";

/**
 * Requests of the server to the client: sampling, elicitation, roots, ping. A restarted server reuses the ids
 * of its predecessor, whose question a person may still be reading. Their yes would answer another question,
 * so the client sees an id of ours for each.
 */
export class ServerQuestions {
  private readonly newId: () => string;
  private readonly open = new Map<Id, Id>();

  constructor(newId: () => string) {
    this.newId = newId;
  }

  asked(raw: string, id: Id): string {
    const own = this.newId();
    this.open.set(own, id);
    return withId(raw, idText(own));
  }

  /** Null if the question was withdrawn or its process ended. */
  answered(raw: string, own: Id): string | null {
    const id = this.open.get(own);
    this.open.delete(own);
    return id === undefined ? null : withId(raw, idText(id));
  }

  /** Null if the client has already answered. */
  withdrawn(line: Line): string | null {
    const id = idAt(line, "requestId");
    const [own] = [...this.open].find(([, theirs]) => theirs === id) ?? [];
    if (own === undefined) return null;
    this.open.delete(own);
    return notificationText("notifications/cancelled", { ...line.message.params, requestId: own });
  }

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
  isDone = false;
  /** True for the protocol of 2025-11-25, in which a client may ask for a task. */
  knowsTasks = false;
  /** True if the server has tasks of its own, such as those of reads. */
  serverHasTasks = false;
  serverListsTasks = false;
  envelope: Readonly<Record<string, unknown>> | undefined;
  private readonly downstream: Downstream;
  private readonly structured = new Set<string>();
  private readonly hints = new Map<string, ToolHints>();
  private greeting: { readonly id: Id; readonly raw: string } | undefined;

  constructor(downstream: Downstream) {
    this.downstream = downstream;
  }

  hasOutputSchema(tool: string): boolean {
    return this.structured.has(tool);
  }

  /** The hints of a listed tool. */
  hintsOf(tool: string): ToolHints | undefined {
    return this.hints.get(tool);
  }

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

  answered({ message }: Line, method: string | undefined): void {
    if (method === "initialize" && message.id === this.greeting?.id && message.error === undefined) {
      this.downstream.remember("initialize", this.greeting?.raw ?? "");
    }
    const isGreeting = method === "initialize" || method === "server/discover";
    if (isGreeting && message.error === undefined) this.learnTasks(message.result);
    if (method !== "tools/list") return;
    for (const { name, outputSchema, annotations, execution } of toolsIn(message.result)) {
      if (outputSchema !== undefined) this.structured.add(name);
      const { taskSupport } = Object(execution) as ToolHints;
      this.hints.set(name, { ...(Object(annotations) as ToolHints), taskSupport });
    }
  }

  private learnTasks(result: unknown): void {
    const { protocolVersion, capabilities } = Object(result) as { [name: string]: unknown };
    const { tasks, extensions } = Object(capabilities) as { tasks?: unknown; extensions?: unknown };
    this.knowsTasks = protocolVersion === WITH_TASKS;
    this.serverHasTasks = tasks !== undefined || Object.hasOwn(Object(extensions), TASKS);
    this.serverListsTasks = Object.hasOwn(Object(tasks), "list");
  }
}

/** The version whose core has tasks. The next one has them as an extension. */
const WITH_TASKS = "2025-11-25";
export const TASKS = "io.modelcontextprotocol/tasks";
const OWN_TASKS = { list: {}, cancel: {}, requests: { tools: { call: {} } } };

/** The server's capabilities with the proxy's tasks. An error of the server stays as it is. */
export function withTasks(line: Line): string {
  if (line.message.error !== undefined) return line.raw;
  const { protocolVersion, capabilities, ...rest } = Object(line.message.result) as {
    [name: string]: unknown;
  };
  const own = Object(capabilities) as { [name: string]: unknown };
  const isModern = protocolVersion === undefined;
  if (!isModern && protocolVersion !== WITH_TASKS) return line.raw;
  const added = isModern
    ? { extensions: { ...Object(own["extensions"]), [TASKS]: {} } }
    : { tasks: { ...Object(own["tasks"]), ...OWN_TASKS } };
  const version = isModern ? {} : { protocolVersion };
  return withResult(line, { ...version, capabilities: { ...own, ...added }, ...rest });
}

function withResult({ message, inexact }: Line, result: unknown): string {
  // An id beyond 2^53 is written as it came, like every other such number.
  const { id } = message;
  return exactText({ ...message, ...(typeof id === "bigint" && { id: Number(id) }), result }, inexact);
}

interface ListedTool {
  readonly name: string;
  readonly outputSchema?: unknown;
  readonly annotations?: unknown;
  readonly execution?: unknown;
}

/** The tools of an answer to `tools/list`. The server may send anything. */
export function toolsIn(result: unknown): readonly ListedTool[] {
  const { tools } = Object(result) as { tools?: unknown };
  if (!Array.isArray(tools)) return [];
  return tools.filter((each) => typeof (Object(each) as { name?: unknown }).name === "string");
}

/** The field of `structuredContent` with the proxy's note. Some clients show the model nothing else. */
export const NOTE_FIELD = "holdfast/note";
const NOTE_SCHEMA = { type: "string", description: "A note of the durable proxy about this call." };

/**
 * The listed tools with room for a note in their answers, and as tasks where `asTask` says so. A schema that
 * allows no further members gets one for the note, because clients reject an answer that does not match.
 */
export function shownTools(line: Line, asTask: (tool: string) => boolean): string {
  const { tools } = Object(line.message.result) as { tools?: unknown };
  const known = new Set<unknown>(toolsIn(line.message.result));
  if (!Array.isArray(tools)) return line.raw;
  const shown = tools.map((tool) => {
    const opened = isClosed(tool) ? withNoteField(tool) : tool;
    return known.has(tool) && asTask(tool.name) ? withTaskSupport(opened) : opened;
  });
  if (shown.every((each, at) => each === tools[at])) return line.raw;
  return withResult(line, { ...Object(line.message.result), tools: shown });
}

function withTaskSupport(tool: ListedTool): ListedTool {
  const execution = Object(tool.execution) as ToolHints;
  if (execution.taskSupport === "required") return tool;
  return { ...tool, execution: { ...execution, taskSupport: "optional" } };
}

interface ClosedTool {
  readonly outputSchema: Readonly<Record<string, unknown>> & { readonly properties: object };
}

function isClosed(tool: unknown): tool is ClosedTool {
  const { outputSchema } = Object(tool) as { outputSchema?: unknown };
  const { properties, additionalProperties } = Object(outputSchema) as Record<string, unknown>;
  return additionalProperties === false && typeof properties === "object" && properties !== null;
}

function withNoteField(tool: ClosedTool): ClosedTool {
  const { outputSchema } = tool;
  const properties = { ...outputSchema.properties, [NOTE_FIELD]: NOTE_SCHEMA };
  return { ...tool, outputSchema: { ...outputSchema, properties } };
}
