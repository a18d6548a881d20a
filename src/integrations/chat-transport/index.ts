/**
 * `holdfast/chat-transport`: the transport for `useChat`. It reconnects by itself, so that a lost connection
 * or a killed server shows as a pause.
 *
 *     POST ──response──▶ chunks ──last chunk──▶ closed
 *       │ lost: send again        │ lost
 *       └── same message id,      └──▶ GET …/stream?after=<position> ──▶ chunks after that position
 *           so it is one prompt         another attempt ──▶ aligned: only what the page lacks
 *                                       other words ──▶ `onRestart`, or the part `data-restarted`
 *
 * This file runs in a browser. It imports nothing at run time.
 */

import type { ChatTransport, UIMessage, UIMessageChunk } from "ai";
import { Alignment, type Chunk, ChunkLog, isLast } from "../chat-chunks.ts";

type Maker<Value> = Value | (() => Value | Promise<Value>);

/** Options of `DurableChatTransport`. */
export interface DurableChatTransportOptions {
  /** The route that `chatHandler` serves. Default: `/api/chat`. */
  readonly api?: string;
  /** Headers of every request: `() => ({ authorization: await token() })`. */
  readonly headers?: Maker<Record<string, string>>;
  /** More members of the body of a POST. */
  readonly body?: Maker<object>;
  /** Whether requests carry cookies: `"include"` for a server on another origin. */
  readonly credentials?: "omit" | "same-origin" | "include";
  /** For tests, or a client of your own. Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
  /** How long the server may be away before the chat reports an error. Default: two minutes. */
  readonly giveUpAfterMs?: number;
  /**
   * Called if a resumed answer has other words than the page shows. Pass `() => chat.resumeStream()`, which
   * shows the new answer in place of the old one.
   */
  readonly onRestart?: () => void;
}

type Sent<Message extends UIMessage> = Parameters<ChatTransport<Message>["sendMessages"]>[0];
type Reconnected<Message extends UIMessage> = Parameters<ChatTransport<Message>["reconnectToStream"]>[0];
type Asked = {
  readonly headers?: Record<string, string> | Headers | undefined;
  readonly signal?: AbortSignal | undefined;
};
type FetchResponse = Awaited<ReturnType<typeof globalThis.fetch>>;

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 4_000;
const GIVE_UP_MS = 120_000;

/**
 * A `ChatTransport` that survives lost connections and killed servers. It sends only the newest message: the
 * server has the others.
 * @example
 * const { messages, sendMessage } = useChat({ id, messages: loaded, resume: true, transport });
 */
export class DurableChatTransport<Message extends UIMessage = UIMessage> implements ChatTransport<Message> {
  /** A reconnected stream begins with the answer's first chunk. */
  readonly resumeStreamIsReplay = true;
  private readonly options: DurableChatTransportOptions;

  constructor(options: DurableChatTransportOptions = {}) {
    this.options = options;
  }

  /** Sends the newest message, and streams the answer across lost connections. `useChat` calls it. */
  async sendMessages(sent: Sent<Message>): Promise<ReadableStream<UIMessageChunk>> {
    const { chatId, messages, trigger, messageId, abortSignal: signal, headers, body } = sent;
    const target = messages.find(({ id }) => id === messageId);
    const message = target?.role === "assistant" ? target : messages.at(-1);
    const own = await made(this.options.body);
    const text = JSON.stringify({ ...own, ...body, id: chatId, message, trigger, messageId });
    const response = await this.request("POST", "", text, { headers: plain(headers), signal });
    return this.follow(chatId, response, { headers: plain(headers), signal });
  }

  /** Streams the answer under way from its first chunk; null if there is none. `useChat` calls it. */
  async reconnectToStream(wanted: Reconnected<Message>): Promise<ReadableStream<UIMessageChunk> | null> {
    const { abortSignal: signal } = wanted as { abortSignal?: AbortSignal };
    const asked = { headers: plain(wanted.headers), signal };
    const response = await this.request("GET", streamPath(wanted.chatId), undefined, asked);
    return response.status === 204 ? null : this.follow(wanted.chatId, response, asked);
  }

  /** Sends a request until the server answers. Its answers below 500 are final. */
  private async request(
    method: string,
    path: string,
    body: string | undefined,
    asked: Asked,
  ): Promise<FetchResponse> {
    const { api = "/api/chat", credentials, giveUpAfterMs = GIVE_UP_MS } = this.options;
    const fetch = this.options.fetch ?? globalThis.fetch;
    const giveUpAt = Date.now() + giveUpAfterMs;
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      const headers = { ...(await made(this.options.headers)), ...plain(asked.headers) };
      const type = body === undefined ? {} : { "content-type": "application/json" };
      const init = { method, headers: { ...type, ...headers }, ...(body !== undefined && { body }) };
      try {
        const response = await fetch(`${api}${path}`, {
          ...init,
          ...(credentials && { credentials }),
          ...(asked.signal && { signal: asked.signal }),
        });
        if (response.ok) return response;
        if (response.status < 500) throw new Refused(await response.text());
        if (Date.now() > giveUpAt) throw new Refused(await response.text());
      } catch (error) {
        if (error instanceof Refused || asked.signal?.aborted || Date.now() > giveUpAt) throw error;
        // The server is away: it is being restarted, or the network is.
      }
      await pause(wait, asked.signal);
    }
  }

  private follow(chatId: string, first: FetchResponse, asked: Asked): ReadableStream<UIMessageChunk> {
    const answer = new ReceivedAnswer();
    let response: FetchResponse | null = first;
    let events: AsyncGenerator<ServerEvent> | null = null;
    const next = async (): Promise<readonly Chunk[] | null> => {
      if (answer.isComplete) return null;
      response ??= await this.request("GET", streamPath(chatId, answer.position), undefined, asked);
      // Nothing is under way: the answer waits for a person, or its session is gone.
      if (response.status === 204) return answer.end();
      events ??= eventsOf(response);
      const event = await events.next().catch(() => ({ done: true, value: undefined }) as const);
      if (!event.done && event.value) return answer.take(event.value);
      asked.signal?.throwIfAborted();
      response = null;
      events = null;
      await pause(FIRST_WAIT_MS, asked.signal);
      return [];
    };
    const { onRestart } = this.options;
    return new ReadableStream<UIMessageChunk>({
      async pull(controller) {
        for (;;) {
          const chunks = await next();
          if (chunks === null || (answer.hasRestarted && onRestart)) {
            controller.close();
            await events?.return(undefined);
            if (chunks !== null) setTimeout(() => onRestart?.(), 0);
            return;
          }
          for (const chunk of chunks) controller.enqueue(chunk as UIMessageChunk);
          if (chunks.length > 0) return;
        }
      },
      async cancel() {
        await events?.return(undefined);
      },
    });
  }
}

/** The chunks that the page has, and its position in the server's answer. */
class ReceivedAnswer {
  isComplete = false;
  hasRestarted = false;
  position: string | null = null;
  private readonly log = new ChunkLog();
  private attempt = new ChunkLog();
  private alignment: Alignment | null = null;

  take({ id, chunk }: ServerEvent): readonly Chunk[] {
    if (id !== null && this.position !== null && attemptOf(id) !== attemptOf(this.position)) {
      this.alignment = new Alignment(this.log.chunks);
      this.attempt = new ChunkLog();
    }
    this.position = id ?? this.position;
    this.attempt.add(chunk);
    const chunks = (this.alignment ? this.alignment.next(chunk) : [chunk]) ?? this.restart(attemptOf(id));
    for (const each of chunks) this.log.add(each);
    if (isLast(chunk)) this.isComplete = true;
    return chunks;
  }

  end(): readonly Chunk[] {
    this.isComplete = true;
    return [{ type: "finish" }];
  }

  /** The step of the new attempt so far, after a part that says so. The steps before it are the same. */
  private restart(attempt: string): readonly Chunk[] {
    this.alignment = null;
    this.hasRestarted = true;
    const { chunks } = this.attempt;
    const step = chunks.slice(chunks.findLastIndex(({ type }) => type === "start-step") + 1);
    return [{ type: "data-restarted", id: `restarted-${attempt}`, data: {} }, ...step];
  }
}

function attemptOf(id: string | null): string {
  return id?.split(".")[0] ?? "";
}

interface ServerEvent {
  readonly id: string | null;
  readonly chunk: Chunk;
}

/** The server-sent events of a response. Comments and `[DONE]` are skipped. */
async function* eventsOf({ body }: FetchResponse): AsyncGenerator<ServerEvent> {
  if (!body) return;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const id = /^id: (.*)$/m.exec(block)?.[1] ?? null;
        const data = /^data: (.*)$/m.exec(block)?.[1];
        if (data !== undefined && data !== "[DONE]") yield { id, chunk: JSON.parse(data) as Chunk };
      }
    }
  } finally {
    // The connection may be gone already.
    await reader.cancel().catch(() => undefined);
  }
}

class Refused extends Error {}

function streamPath(chatId: string, after: string | null = null): string {
  const path = `/${encodeURIComponent(chatId)}/stream`;
  return after === null ? path : `${path}?after=${encodeURIComponent(after)}`;
}

function plain(headers: Record<string, string> | Headers | undefined): Record<string, string> {
  return headers instanceof Headers ? Object.fromEntries(headers) : { ...headers };
}

async function made<Value extends object>(maker: Maker<Value> | undefined): Promise<Partial<Value>> {
  return maker === undefined ? {} : typeof maker === "function" ? await (maker as () => Value)() : maker;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}
