/**
 * A chat that survives: routes for `useChat` on web `Request` and `Response`.
 *
 *     POST <path>                    { id, message } or the SDK's { id, messages }: the answer as a stream
 *     GET  <path>/<id>/stream        the answer under way, from its start; 204 if there is none
 *     GET  <path>/<id>/stream?after= the answer after a position
 *     GET  <path>/<id>               { messages }: the conversation
 *
 * A message comes from a browser and is checked here. Its id must not look like one of the record. Answers to
 * approvals count only for calls of its own session.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { isHoldfastError } from "../../../model/errors.ts";
import { type Call, isNotStarted } from "../../../model/session/index.ts";
import type { Holdfast } from "../../../open.ts";
import type { SessionDetail } from "../../../session/index.ts";
import type { Chunk } from "../../chat-chunks.ts";
import type { AnsweringOptions, ChatPrompt } from "./answering.ts";
import { answerResponse, chunksResponse } from "./reading.ts";
import { chunksOf, outcomeChunks, toUIMessages } from "./ui-messages.ts";

export type { AnswerContext, AnswerFunction, AnswerStream } from "./answering.ts";
export { toUIMessages } from "./ui-messages.ts";

/** Options of `durableResponse`. */
export interface DurableResponseOptions extends AnsweringOptions {
  /** The user's message, with the id that the browser gave it. Absent: continues what is under way. */
  readonly prompt?: ChatPrompt;
  /** The position of a reader that reconnects, from `?after=`. */
  readonly after?: string | null;
}

/**
 * Answers a prompt with a stream that outlives its request. A second request with the same prompt, or
 * without one, joins the answer, in this process or another. 204 if nothing is under way.
 * @example
 * export const POST = async (request: Request) => {
 *   const { chat, id, text } = await request.json();
 *   return durableResponse(holdfast, `chat-${chat}`, { answer, prompt: { id, text } });
 * };
 */
export function durableResponse(
  holdfast: Holdfast,
  session: string,
  { prompt, after = null, ...options }: DurableResponseOptions,
): Promise<Response> {
  return answerResponse(holdfast, session, options, { prompt, after });
}

/** Options of `chatHandler`. */
export interface ChatHandlerOptions extends AnsweringOptions {
  /** Where the routes are. Default: `/api/chat`. */
  readonly path?: string;
  /**
   * The session of a chat, for the user of this request. Null if the user may not see it. Default:
   * `chat-<id>` for everyone, so set it where users log in.
   */
  readonly sessionOf?: (chatId: string, request: Request) => string | null | Promise<string | null>;
  /**
   * The name under which a user's approval is recorded. Null if the user may not approve this call. Default:
   * `chat`.
   */
  readonly approver?: (call: Call, request: Request) => string | null | Promise<string | null>;
}

/**
 * Makes the handler of a chat's routes. Any server that speaks web `Request` and `Response` can use it; for
 * `node:http` see `nodeListener`.
 * @example
 * const chat = chatHandler(holdfast, {
 *   answer: async ({ durable: d, prompt }) =>
 *     streamText({ model: d.model(model), tools: d.tools({ pay }), messages: await d.messages(prompt) }),
 * });
 * app.all("/api/chat/*", (c) => chat(c.req.raw)); // Hono
 * export { chat as GET, chat as POST }; // Next
 */
export function chatHandler(
  holdfast: Holdfast,
  options: ChatHandlerOptions,
): (request: Request) => Promise<Response> {
  const routes = new ChatRoutes(holdfast, options);
  return async (request) => {
    try {
      return await routes.handle(request);
    } catch (error) {
      if (error instanceof Rejected) return new Response(error.message, { status: error.status });
      if (isHoldfastError(error, "NAME_INVALID")) return new Response(error.message, { status: 400 });
      holdfast.journal.warn(error);
      return new Response("the request failed on the server", { status: 500 });
    }
  };
}

class Rejected extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** A part of a message, as a browser sends it. */
type SentPart = { readonly type?: unknown; readonly [member: string]: unknown };
type SentMessage = { readonly id: string; readonly role: unknown; readonly parts: readonly SentPart[] };

class ChatRoutes {
  private readonly holdfast: Holdfast;
  private readonly options: ChatHandlerOptions;

  constructor(holdfast: Holdfast, options: ChatHandlerOptions) {
    this.holdfast = holdfast;
    this.options = options;
  }

  async handle(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const { path = "/api/chat" } = this.options;
    if (pathname !== path && !pathname.startsWith(`${path}/`))
      throw new Rejected(404, "there is no such route");
    const [chatId, rest, ...more] = pathname
      .slice(path.length + 1)
      .split("/")
      .map(decoded);
    const isGet = request.method === "GET";
    if (request.method === "POST" && !chatId) return this.post(request);
    if (!isGet || !chatId || more.length > 0) throw new Rejected(404, "there is no such route");
    const session = await this.sessionOf(chatId, request);
    if (rest === "stream")
      return answerResponse(this.holdfast, session, this.options, { after: searchParams.get("after") });
    if (rest !== undefined) throw new Rejected(404, "there is no such route");
    const detail = await this.find(session);
    return Response.json({ messages: detail ? await toUIMessages(detail, this.holdfast) : [] });
  }

  private async post(request: Request): Promise<Response> {
    const body = (await request.json().catch(() => null)) as { [member: string]: unknown } | null;
    const { id, messages, message = Array.isArray(messages) ? messages.at(-1) : undefined } = body ?? {};
    if (typeof id !== "string" || id === "") throw new Rejected(400, "id: missing (expected the chat's id)");
    if (body?.["trigger"] === "regenerate-message")
      throw new Rejected(400, "regenerate: not supported (an answer on record is not asked for again)");
    const sent = checkedMessage(message);
    const session = await this.sessionOf(id, request);
    if (sent.role === "assistant") return this.continueAfter(session, sent, request);
    return answerResponse(this.holdfast, session, this.options, { prompt: promptOf(sent) });
  }

  /** A message of the assistant comes back with the user's answers to its approvals. */
  private async continueAfter(session: string, sent: SentMessage, request: Request): Promise<Response> {
    const detail = await this.find(session);
    if (!detail) throw new Rejected(404, `session ${session}: there is none`);
    const messages = await toUIMessages(detail, this.holdfast);
    const shown =
      messages.find(({ id }) => id === sent.id) ?? messages.findLast(({ role }) => role === "assistant");
    for (const part of sent.parts) {
      const call = detail.calls.find(({ callId }) => callId === part["toolCallId"]);
      // Sent twice, or answered elsewhere meanwhile: the first answer counts.
      if (part["state"] === "approval-responded" && call && isNotStarted(call))
        await this.answerCall(session, call, part["approval"], request);
    }
    const responded = sent.parts.filter(({ state }) => state === "approval-responded");
    const answered = new Set(responded.map(({ toolCallId }) => toolCallId));
    const calls = detail.calls.filter(({ callId }) => answered.has(callId));
    if (shown && calls.length > 0 && calls.every(({ isAside }) => isAside))
      return this.answeredParts(session, shown.id, calls);
    const known = shown ? chunksOf(shown).filter(({ type }) => type !== "finish") : [];
    return answerResponse(this.holdfast, session, this.options, { known });
  }

  /**
   * Calls that were set aside: the answer to their outcome is another message, for the next `GET`. Until then
   * an approved call has a preliminary output. Otherwise a page that sends by itself would send for ever.
   */
  private async answeredParts(session: string, messageId: string, answered: readonly Call[]) {
    const { calls } = await this.holdfast.sessions.get(session);
    const chunks = answered.flatMap(({ callId: toolCallId }): Chunk[] => {
      const call = calls.find(({ callId }) => callId === toolCallId);
      const found = call ? outcomeChunks(call) : [];
      const output = "approved: it runs before the next answer";
      return found.length > 0
        ? found
        : [{ type: "tool-output-available", toolCallId, output, preliminary: true }];
    });
    return chunksResponse([{ type: "start", messageId }, ...chunks, { type: "finish" }]);
  }

  private async answerCall(session: string, call: Call, approval: unknown, request: Request): Promise<void> {
    const by = await (this.options.approver ?? (() => "chat"))(call, request);
    if (by === null) throw new Rejected(403, `call ${call.callId}: you may not answer it`);
    const { approved, reason } = Object(approval) as { approved?: unknown; reason?: unknown };
    const why = typeof reason === "string" && reason !== "" ? reason : null;
    const name = { session, callId: call.callId };
    try {
      if (approved === true)
        await this.holdfast.calls.approve(name, { by, via: "chat", ...(why !== null && { why }) });
      else await this.holdfast.calls.deny(name, { by, via: "chat", why: why ?? "denied in the chat" });
    } catch (error) {
      // Another answer came first, and counts.
      if (!isHoldfastError(error, "CALL_NOT_WAITING")) throw error;
    }
  }

  private async sessionOf(chatId: string, request: Request): Promise<string> {
    const find = this.options.sessionOf ?? ((id: string) => `chat-${id}`);
    const session = await find(chatId, request);
    if (session === null) throw new Rejected(404, `chat ${chatId}: there is none`);
    return session;
  }

  private find(session: string): Promise<SessionDetail | null> {
    return this.holdfast.sessions.get(session).catch((error: unknown) => {
      if (isHoldfastError(error, "STREAM_NOT_FOUND")) return null;
      throw error;
    });
  }
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new Rejected(400, "the address is not valid UTF-8");
  }
}

/** Ids of the record have other characters (`turn:…`), so a browser cannot name one of its messages. */
const MESSAGE_ID = /^[\w-]{1,128}$/;

function checkedMessage(message: unknown): SentMessage {
  const { id, role, parts } = Object(message) as Partial<SentMessage>;
  if ((role !== "user" && role !== "assistant") || !Array.isArray(parts))
    throw new Rejected(400, "message: not one of a user or an assistant with parts");
  const list = parts.map((part: unknown) => Object(part) as SentPart);
  if (typeof id !== "string" || (role === "user" && !MESSAGE_ID.test(id)))
    throw new Rejected(400, "message: its id is not made of 1 to 128 letters, digits, - and _");
  return { id, role, parts: list };
}

function promptOf({ id, parts }: SentMessage): ChatPrompt {
  const content = parts.flatMap((part): ({ type: "text"; text: string } | FilePart)[] => {
    const { type, text, url, mediaType, filename } = part;
    if (type === "text" && typeof text === "string") return [{ type, text }];
    if (type !== "file" || typeof url !== "string" || typeof mediaType !== "string") return [];
    // Only bytes: the server would have to fetch any other address for the user.
    if (!url.startsWith("data:")) throw new Rejected(400, "message: a file is not a data URL");
    return [{ type, data: url, mediaType, ...(typeof filename === "string" && { filename }) }];
  });
  if (content.length === 0) throw new Rejected(400, "message: it has neither text nor files");
  const texts = content.flatMap((part) => (part.type === "text" ? [part.text] : []));
  return texts.length === content.length ? { id, text: texts.join("") } : { id, role: "user", content };
}

type FilePart = { type: "file"; data: string; mediaType: string; filename?: string };

/**
 * Serves a web handler with `node:http`. A client that leaves cancels the body, and the answer continues.
 * @example createServer(nodeListener(chat)).listen(3000);
 */
export function nodeListener(
  handle: (request: Request) => Promise<Response>,
): (incoming: IncomingMessage, outgoing: ServerResponse) => void {
  return (incoming, outgoing) => {
    serve(handle, incoming, outgoing).catch((error: Error) => outgoing.destroy(error));
  };
}

async function serve(
  handle: (request: Request) => Promise<Response>,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const { method = "GET", url = "/" } = incoming;
  const parts: Uint8Array[] = [];
  for await (const part of incoming) parts.push(part as Uint8Array);
  const headers = new Headers();
  for (const [name, value] of Object.entries(incoming.headers))
    if (typeof value === "string") headers.set(name, value);
  const address = new URL(url, `http://${incoming.headers.host ?? "localhost"}`);
  const hasBody = method !== "GET" && method !== "HEAD";
  const request = new Request(address, { method, headers, ...(hasBody && { body: Buffer.concat(parts) }) });
  const response = await handle(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  const reader = response.body?.getReader();
  outgoing.once("close", () => void reader?.cancel().catch(() => undefined));
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
    if (done) break;
    outgoing.write(value);
  }
  outgoing.end();
}
