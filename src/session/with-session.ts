/**
 * A session for one request, closed when the response is over.
 *
 *     open ──▶ work ──▶ a value: close, return it
 *                  └──▶ a stream: return it ──read to its end, failed──▶ close
 *                                         └──dropped──▶ "stop": close, then cancel it
 *                                                  └──▶ "finish": read it to its end, close
 *
 * A web server drops a stream when its client disconnects: it cancels the body, or aborts the request's
 * signal. Neither reaches the model: the AI SDK hands out one branch of a stream and keeps the other. So the
 * session has to be closed here; that ends the model's answer, and a call in flight is finished first.
 */

import { HoldfastError } from "../model/errors.ts";
import { checkOption } from "../model/options.ts";
import type { SessionOptions } from "./opening.ts";
import { type Session, sessionCore } from "./session.ts";

/** The options of `withSession`: those of `holdfast.session`, and what becomes of a dropped stream. */
export interface WithSessionOptions extends SessionOptions {
  /** A session that is open is waited for (default), so that messages of one user queue; or `"throw"`. */
  readonly ifHeld?: "wait" | "throw";
  /** The request's signal, e.g. `request.signal`: ends the wait, and counts as a dropped stream later. */
  readonly signal?: AbortSignal;
  /** `"stop"` ends the answer and frees the session at once (default). `"finish"` records all of it. */
  readonly ifDropped?: "stop" | "finish";
}

/**
 * Opens a session, hands it to `work`, and closes it. A returned `Response` or `ReadableStream` is read to
 * its end first, unless the client disconnects. It is for routes that stream: a `finally` would close it
 * too early.
 *
 * @example
 * export const POST = (request: Request) =>
 *   withSession(holdfast, "chat-17", { signal: request.signal }, async (session) => {
 *     const d = durable(session);
 *     const messages = await d.messages((await request.json()).text);
 *     return streamText({ model: d.model(model), messages }).toUIMessageStreamResponse();
 *   });
 */
export async function withSession<Result>(
  holdfast: { session(id: string, options?: SessionOptions): Promise<Session> },
  id: string,
  options: WithSessionOptions,
  work: (session: Session) => Promise<Result> | Result,
): Promise<Result> {
  const { ifDropped = "stop", ...opening } = options;
  checkOption(`session ${id}: ifDropped`, ifDropped, ["stop", "finish"]);
  const session = await holdfast.session(id, { ifHeld: "wait", ...opening });
  const loan = new Loan(session, ifDropped, options.signal);
  try {
    const result = await work(session);
    if (isResponse(result) && result.body) {
      const { status, statusText, headers } = result;
      return new Response(loan.lend(result.body), { status, statusText, headers }) as Result;
    }
    if (isStream(result)) return loan.lend(result) as Result;
    refuseUnreadStream(id, result);
    await loan.close();
    return result;
  } catch (error) {
    await loan.close();
    throw error;
  }
}

/** Closes a session once: at the end of the stream that it was lent to, or when that is dropped. */
class Loan {
  private readonly session: Session;
  private readonly ifDropped: "stop" | "finish";
  private readonly signal: AbortSignal | undefined;
  private reader: ReadableStreamDefaultReader<unknown> | null = null;
  private closing: Promise<void> | null = null;

  constructor(session: Session, ifDropped: "stop" | "finish", signal: AbortSignal | undefined) {
    this.session = session;
    this.ifDropped = ifDropped;
    this.signal = signal;
    if (signal?.aborted) void this.drop();
    else signal?.addEventListener("abort", this.drop, { once: true });
  }

  lend(stream: ReadableStream<unknown>): ReadableStream<Uint8Array> {
    const reader = stream.getReader();
    this.reader = reader;
    if (this.signal?.aborted) void this.drop();
    return new ReadableStream({
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value as Uint8Array);
          // Before the end of the stream, so that the client's next request finds the session free.
          await this.close();
          controller.close();
        } catch (error) {
          await this.close();
          controller.error(error);
        }
      },
      cancel: async () => {
        await this.drop();
      },
    });
  }

  /** A call in flight is finished: cut off, it would wait for a person. */
  close(): Promise<void> {
    this.signal?.removeEventListener("abort", this.drop);
    const { warn } = sessionCore(this.session).journal;
    this.closing ??= this.session.close({ finish: "call" }).catch(warn);
    return this.closing;
  }

  private readonly drop = async (): Promise<void> => {
    if (this.ifDropped === "finish" && this.closing === null) return this.readToEnd();
    await this.close();
    // Resolves only when every branch of the stream is cancelled, which may be never.
    this.reader?.cancel().catch(() => undefined);
  };

  /** The reader may be busy for the client: reads queue, and end all together. */
  private async readToEnd(): Promise<void> {
    const { reader } = this;
    // Without a stream, `work` is still running: its result decides.
    if (!reader) return;
    try {
      while (!(await reader.read()).done);
    } catch {
      // The stream failed, or the session was closed meanwhile: there is no more to record.
    }
    await this.close();
  }
}

function isStream(result: unknown): result is ReadableStream<unknown> {
  return typeof (result as { getReader?: unknown } | null)?.getReader === "function";
}

function isResponse(result: unknown): result is Response {
  const { headers, status, body } = Object(result) as Partial<Response>;
  return (
    typeof status === "number" && typeof headers?.get === "function" && (body === null || isStream(body))
  );
}

/** The session would be closed before such a stream is read, and every answer would fail. */
function refuseUnreadStream(id: string, result: unknown): void {
  const { toUIMessageStreamResponse, [Symbol.asyncIterator]: iterator } = Object(result) as {
    toUIMessageStreamResponse?: unknown;
    [Symbol.asyncIterator]?: unknown;
  };
  if (typeof toUIMessageStreamResponse !== "function" && typeof iterator !== "function") return;
  const what = "returned a stream whose end cannot be seen (expected a Response or a ReadableStream)";
  throw new HoldfastError("INPUT_INVALID", `withSession ${id}: the work ${what}`, {
    hint: "Return streamText(…).toUIMessageStreamResponse(), or new Response(stream).",
  });
}
