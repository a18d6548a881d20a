/**
 * The MCP server over Streamable HTTP, for agents that do not start a process of their own.
 *
 *     POST /mcp     2026-07-28: a request with everything it needs    2025: a message of a session
 *     GET /mcp      2025: the messages of the server                  DELETE /mcp   2025: ends the session
 *
 * Many agents share one server. An agent is known by the header `Holdfast-By`, else by its client's name, so
 * it keeps its claims when the server restarts.
 */

import { randomUUID } from "node:crypto";
import {
  CLIENT_INFO_META_KEY,
  createMcpHandler,
  InMemoryServerEventBus,
  isLegacyRequest,
  type McpHttpHandler,
  WebStandardStreamableHTTPServerTransport,
} from "@modelcontextprotocol/server";
import { Refusal } from "../../loopback-http.ts";
import { type HttpAddress, serveRequests } from "../http-front.ts";
import { AgentSession, type ServerOptions } from "./agent-session.ts";
import { addSubscriptions, GoalChanges } from "./goal-changes.ts";
import { buildServer } from "./server.ts";

const MAX_AGENTS = 64;
const MAX_SESSIONS = 256;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$/;

export async function serveHttp(options: ServerOptions, address: HttpAddress): Promise<void> {
  const agents = new Agents(options);
  const onerror = (error: Error): void => {
    process.stderr.write(`holdfast mcp: ${error.message}\n`);
  };
  const modern = modernHandler(agents, onerror);
  const sessions = new Sessions(agents);
  try {
    await serveRequests(address, "holdfast mcp --http", async (request, body) => {
      agents.meet(request, body);
      const isLegacy = await isLegacyRequest(request, body);
      return isLegacy ? sessions.fetch(request, body) : modern.fetch(request, { parsedBody: body });
    });
  } finally {
    await modern.close();
    await sessions.close();
    await agents.close();
  }
}

/** The agents of this server. Each has its own name, and so its own claims. */
class Agents {
  private readonly options: ServerOptions;
  private readonly known = new Map<string, AgentSession>();
  private readonly asking = new WeakMap<Request, string>();

  constructor(options: ServerOptions) {
    this.options = options;
  }

  /** Learns who sends a request. */
  meet(request: Request, body: unknown): void {
    const name = this.options.by ?? request.headers.get("holdfast-by") ?? clientName(body);
    if (!NAME.test(name))
      throw new Refusal(400, "Holdfast-By: letters, digits and . _ @ - only, at most 64 characters");
    this.asking.set(request, name);
  }

  of(request: Request | undefined): AgentSession {
    return this.named((request && this.asking.get(request)) ?? "agent");
  }

  named(name: string): AgentSession {
    const known = this.known.get(name);
    if (known) return known;
    if (this.known.size >= MAX_AGENTS) throw new Refusal(429, `more than ${MAX_AGENTS} agents`);
    const made = new AgentSession({ ...this.options, by: name });
    this.known.set(name, made);
    return made;
  }

  async close(): Promise<void> {
    await Promise.all([...this.known.values()].map((agent) => agent.close()));
  }
}

function clientName(body: unknown): string {
  const { params } = Object(body) as { params?: { clientInfo?: unknown; _meta?: Record<string, unknown> } };
  const info = params?.clientInfo ?? params?._meta?.[CLIENT_INFO_META_KEY];
  const { name } = Object(info) as { name?: unknown };
  const word = String(name ?? "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+/, "")
    .slice(0, 60);
  return word || "agent";
}

/** Serves the protocol of 2026-07-28. The goals are compared while at least one client listens. */
function modernHandler(agents: Agents, onerror: (error: Error) => void): McpHttpHandler {
  const bus = new InMemoryServerEventBus(onerror);
  let changes: GoalChanges | null = null;
  const handler = createMcpHandler(({ requestInfo }) => buildServer(agents.of(requestInfo)), {
    legacy: "reject",
    onerror,
    bus: {
      publish: (event) => bus.publish(event),
      subscribe(listener) {
        const stop = bus.subscribe(listener);
        const publish = (uri: string): void => bus.publish({ kind: "resource_updated", uri });
        changes ??= new GoalChanges(agents.named("subscriptions"), publish);
        void changes.start();
        return () => {
          stop();
          if (bus.listenerCount === 0) changes?.stop();
        };
      },
    },
  });
  const close = async (): Promise<void> => {
    changes?.stop();
    await handler.close();
  };
  return { ...handler, close };
}

/** Sessions of the protocols with a handshake. The session that was idle longest makes room for a new one. */
class Sessions {
  private readonly agents: Agents;
  private readonly open = new Map<string, WebStandardStreamableHTTPServerTransport>();

  constructor(agents: Agents) {
    this.agents = agents;
  }

  async fetch(request: Request, body: unknown): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const parsed = body === undefined ? {} : { parsedBody: body };
    if (id === null) return (await this.begin(this.agents.of(request))).handleRequest(request, parsed);
    const known = this.open.get(id);
    if (!known) return Response.json(NO_SESSION, { status: 404 });
    this.open.delete(id);
    this.open.set(id, known);
    return known.handleRequest(request, parsed);
  }

  async close(): Promise<void> {
    await Promise.all([...this.open.values()].map((transport) => transport.close()));
  }

  private async begin(agent: AgentSession): Promise<WebStandardStreamableHTTPServerTransport> {
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => {
        this.open.set(id, transport);
        const [oldest] = this.open.size > MAX_SESSIONS ? this.open : [];
        if (oldest) void this.end(...oldest);
      },
      onsessionclosed: (id) => void this.open.delete(id),
    });
    const server = buildServer(agent);
    addSubscriptions(server, agent);
    await server.connect(transport);
    return transport;
  }

  private async end(id: string, transport: WebStandardStreamableHTTPServerTransport): Promise<void> {
    this.open.delete(id);
    await transport.close();
  }
}

const NO_SESSION = {
  jsonrpc: "2.0",
  id: null,
  error: { code: -32_001, message: "the session is not known: initialize again" },
};
