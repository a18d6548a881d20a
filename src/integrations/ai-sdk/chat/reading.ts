/**
 * The stream of an answer for one reader, from whichever process produces it.
 *
 *     under way in this process     ──▶ its log in memory
 *     under way in another process  ──▶ its chunks in the store ──that process is done or gone──▶ look again
 *     unanswered, and no process    ──▶ the answer is resumed here
 *     answered                      ──▶ the recorded message
 *
 * A reader may pass from one source to the next. The chunks that it has are dropped from what follows. If the
 * words differ, its stream ends without a last chunk, and the transport asks again.
 */

import { type Call, openCallsOf, sessionKind, toolCalls } from "../../../model/session/index.ts";
import type { Holdfast } from "../../../open.ts";
import { followLiveAnswer } from "../../../session/index.ts";
import { Alignment, type Chunk, ChunkLog, type Position, START } from "../../chat-chunks.ts";
import { outcomesDue } from "../../recorded-turns/index.ts";
import { Answering, type AnsweringOptions, type ChatPrompt } from "./answering.ts";
import { chunksOf, toUIMessages } from "./ui-messages.ts";

export interface ReadingRequest {
  readonly prompt?: ChatPrompt | undefined;
  /** The position of a reader that reconnects: `<attempt>.<count>.<length>`. */
  readonly after?: string | null;
  /** Chunks that the reader has, of an answer that waited for a person. */
  readonly known?: readonly Chunk[];
}

const HEARTBEAT_MS = 15_000;

const HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  // Tells proxies such as nginx to pass each event at once.
  "x-accel-buffering": "no",
  "x-vercel-ai-ui-message-stream": "v1",
};

/** A response with these chunks and no more. */
export function chunksResponse(chunks: readonly Chunk[]): Response {
  return new Response(chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join(""), {
    headers: HEADERS,
  });
}

/** The response for a reader. Status 204 if nothing is under way, and the reader has all there is. */
export async function answerResponse(
  holdfast: Holdfast,
  id: string,
  options: AnsweringOptions,
  request: ReadingRequest,
): Promise<Response> {
  const isNew = request.prompt !== undefined || request.known !== undefined || Boolean(request.after);
  const isUnderWay = isNew || Answering.find(holdfast, id) !== null || (await isUnanswered(holdfast, id));
  if (!isUnderWay) return new Response(null, { status: 204 });
  const gone = new AbortController();
  const events = eventsFor(holdfast, id, options, request, gone.signal);
  const encoder = new TextEncoder();
  let heartbeat: NodeJS.Timeout | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      heartbeat = setInterval(() => controller.enqueue(encoder.encode(": still here\n\n")), HEARTBEAT_MS);
      heartbeat.unref();
    },
    async pull(controller) {
      const { done, value } = await events.next().catch((error: unknown) => {
        holdfast.journal.warn(error);
        return { done: true, value: undefined } as const;
      });
      if (!done) return controller.enqueue(encoder.encode(value));
      clearInterval(heartbeat);
      if (!gone.signal.aborted) controller.close();
    },
    cancel() {
      clearInterval(heartbeat);
      gone.abort();
    },
  });
  return new Response(body, { headers: HEADERS });
}

async function* eventsFor(
  holdfast: Holdfast,
  id: string,
  options: AnsweringOptions,
  { prompt, after, known }: ReadingRequest,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const out = new Outgoing(after ?? null, known);
  let local = Answering.find(holdfast, id, prompt?.id);
  if (!local) {
    for await (const live of followLiveAnswer(holdfast.journal, id, signal)) {
      local = Answering.find(holdfast, id, prompt?.id);
      if (local || (prompt && live?.prompt !== prompt.id)) break;
      if (live) yield* out.take(live.attempt, new ChunkLog(live.chunks as unknown as Chunk[]));
      if (out.isDiverged) return;
    }
  }
  if (signal.aborted) return;
  if (!local && (prompt || (await isUnanswered(holdfast, id))))
    local = Answering.find(holdfast, id, prompt?.id) ?? Answering.start(holdfast, id, prompt, options);
  if (!local) yield* out.take("recorded", await recordedLog(holdfast, id));
  else
    for await (const _ of local.changes(signal)) {
      yield* out.take(local.attempt, local.log);
      if (out.isDiverged) return;
    }
}

/** The chunks that one reader has, and how it continues after a change of source. */
class Outgoing {
  isDiverged = false;
  private attempt: string | null = null;
  private position: Position = START;
  private readonly asked: { readonly attempt: string; readonly position: Position } | null;
  private readonly sent = new ChunkLog();
  private alignment: Alignment | null;

  constructor(after: string | null, known: readonly Chunk[] | undefined) {
    this.asked = after === null ? null : parsePosition(after);
    this.alignment = known ? new Alignment(known) : null;
  }

  *take(attempt: string, log: ChunkLog): Generator<string> {
    if (this.attempt !== attempt) this.changeTo(attempt, log);
    for (const { chunk, position } of log.since(this.position)) {
      this.position = position;
      const chunks = this.alignment ? this.alignment.next(chunk) : [chunk];
      if (chunks === null) {
        this.isDiverged = true;
        return;
      }
      for (const each of chunks) {
        this.sent.add(each);
        const id = `${attempt}.${position.count}.${position.length}`;
        yield `id: ${id}\ndata: ${JSON.stringify(each)}\n\n`;
      }
    }
  }

  private changeTo(attempt: string, log: ChunkLog): void {
    const isFirst = this.attempt === null;
    this.attempt = attempt;
    this.position = START;
    if (!isFirst) this.alignment = new Alignment(this.sent.chunks);
    if (!isFirst || this.asked?.attempt !== attempt) return;
    this.position = this.asked.position;
    for (const chunk of log.upTo(this.position).chunks) this.sent.add(chunk);
  }
}

/** Null if it is not one: then the reader gets the answer from its start. */
function parsePosition(text: string): { readonly attempt: string; readonly position: Position } | null {
  const [, attempt = "", count, length] = /^([\w-]{1,64})\.(\d{1,9})\.(\d{1,9})$/.exec(text) ?? [];
  if (attempt === "") return null;
  return { attempt, position: { count: Number(count), length: Number(length) } };
}

async function recordedLog({ sessions, journal }: Holdfast, id: string): Promise<ChunkLog> {
  const messages = await toUIMessages(await sessions.get(id), journal);
  const last = messages.findLast(({ role }) => role === "assistant");
  return new ChunkLog(last ? chunksOf(last) : [{ type: "start" }, { type: "finish" }]);
}

/** Whether the session has a prompt or an outcome to answer, and no call that only a person can settle. */
async function isUnanswered({ journal }: Holdfast, id: string): Promise<boolean> {
  const { state, row } = await journal.load(sessionKind, id);
  if (row.state !== "live" || state.status === "cancelled") return false;
  const open = openCallsOf(state);
  if (open.some((call) => needsPerson(call) && !call.isAside)) return false;
  if (outcomesDue(state).some((call) => !needsPerson(call))) return true;
  const { messages } = state;
  const answered = messages.findLastIndex(
    (each) => each.role === "assistant" && toolCalls(each).length === 0,
  );
  return state.prompts.length > 0 || messages.slice(answered + 1).some(({ role }) => role === "user");
}

function needsPerson({ status, lacksTool }: Call): boolean {
  return status === "waiting" && !lacksTool;
}
