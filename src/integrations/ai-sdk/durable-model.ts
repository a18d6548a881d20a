/**
 * The model half of `durable`. For the SDK it is a model like any other; each of its calls is a turn of the session.
 * The protocol, its states and what a crash leaves are in `../recorded-turns/recorded-turns.ts`; here is what is the SDK's:
 *
 *  - Identity of a prompt: the messages that the SDK hands to the provider, system text included. Settings, headers, the
 *    list of tools and the model's name do not count: an answer that is on record stays the answer after a deploy that
 *    changes a temperature or a description.
 *  - A question that tells of a call what is not so is refused: see `misreported-calls.ts`.
 *  - Tools that did not come through the handle are refused: see `tool-marks.ts`.
 *  - Several steps: each is a turn, and its prompt holds the answers and results before it, all of them from the record.
 *  - The SDK's own retries (`maxRetries`): a call that throws writes nothing and leaves the cursor, so the next one takes its
 *    place. Errors of ours are no provider errors; the SDK does not retry them.
 *  - Streams: see `held-stream.ts`.
 *  - Two calls of `generateText` on one session, one after the other: their turns follow each other in the run, in the order
 *    in which the program makes them; `d.messages(prompt)` begins a run of its own for each prompt.
 */

import { HoldfastError } from "../../model/errors.ts";
import type { Message, SessionState, ToolResultBlock } from "../../model/session/index.ts";
import { type MessageInput, sessionCore } from "../../session/index.ts";
import type { PriceTable } from "../prices.ts";
import type { Question, RecordedTurns, Turn } from "../recorded-turns/index.ts";
import type { Artifacts } from "./file-data.ts";
import { heldStream } from "./held-stream.ts";
import type {
  CallOptions,
  GenerateResult,
  LanguageModel,
  ModelMessage,
  StreamResult,
} from "./language-model.ts";
import { fromModelMessage, wordsOf } from "./messages.ts";
import type { MisreportedCalls } from "./misreported-calls.ts";
import { type Part, resultBlock } from "./parts.ts";
import { answerOf, responseOf, streamOf } from "./response.ts";
import { mustBeInLedger, unmarked } from "./tool-marks.ts";

export interface ModelContext {
  readonly turns: RecordedTurns;
  readonly misreported: MisreportedCalls;
  readonly artifacts: Artifacts;
  readonly prices: PriceTable | undefined;
  readonly ignoreSystem: boolean;
  /** What `d.messages` has stored of what the user said before this turn. */
  promptAt(position: number): Message | null;
}

export function durableModel(inner: LanguageModel, context: ModelContext): LanguageModel {
  const { turns, artifacts, prices } = context;
  const pricing = { modelId: inner.modelId, prices };
  return {
    specificationVersion: inner.specificationVersion,
    provider: inner.provider,
    modelId: inner.modelId,
    get supportedUrls() {
      return inner.supportedUrls;
    },
    doGenerate: async (given): Promise<GenerateResult> => {
      const options = unmarked(given);
      const turn = await nextTurn(options, context);
      try {
        if (turn.recorded) return checked(await responseOf(turn.recorded, artifacts), given);
        const result = checked(await inner.doGenerate(withStop(options, turns)), given);
        if (result.finishReason.unified === "error") {
          turn.failed();
          return result;
        }
        const stored = await responseOf(
          await turn.record(await answerOf(result, artifacts, pricing)),
          artifacts,
        );
        return withTransport(stored, result);
      } catch (error) {
        turn.failed();
        throw error;
      }
    },
    doStream: async (given): Promise<StreamResult> => {
      const options = unmarked(given);
      const turn = await nextTurn(options, context);
      try {
        if (turn.recorded)
          return { stream: replay(checked(await responseOf(turn.recorded, artifacts), given)) };
        const result = await inner.doStream(withStop(options, turns));
        const record = async (whole: GenerateResult): Promise<GenerateResult> =>
          responseOf(await turn.record(await answerOf(checked(whole, given), artifacts, pricing)), artifacts);
        const isTaken = (id: string): boolean => {
          const { callSlots, calls } = stateOf(turns);
          return callSlots.has(id) || calls.has(id);
        };
        return { ...result, stream: heldStream(result.stream, { record, failed: turn.failed, isTaken }) };
      } catch (error) {
        turn.failed();
        throw error;
      }
    },
  };
}

/** An answer on its way to the record, or from it to the SDK. */
function checked(result: GenerateResult, given: CallOptions): GenerateResult {
  mustBeInLedger(result, given);
  return result;
}

function stateOf(turns: RecordedTurns): SessionState {
  return sessionCore(turns.session).state;
}

/** The turn is taken even if its question is to be refused: that it failed is what lets a program try again. */
async function nextTurn(options: CallOptions, context: ModelContext): Promise<Turn> {
  const refusal = context.misreported.refusal(options.prompt);
  let turn: Turn;
  try {
    turn = await context.turns.next(questionOf(options, context));
  } catch (error) {
    // Where a call is open, that is what has to be settled first. All else may follow from what was thrown.
    throw refusal && !isAboutOpenCalls(error) ? refusal.error : error;
  }
  if (!refusal) return turn;
  turn.failed();
  throw refusal.error;
}

function isAboutOpenCalls(error: unknown): boolean {
  return error instanceof HoldfastError && error.code === "SESSION_HAS_OPEN_CALLS";
}

/** A session that was lost or closed stops its model call, too. */
function withStop(options: CallOptions, { session }: RecordedTurns): CallOptions {
  const { abortSignal } = options;
  return {
    ...options,
    abortSignal: abortSignal
      ? AbortSignal.any([sessionCore(session).stop, abortSignal])
      : sessionCore(session).stop,
  };
}

/** Headers and bodies of the live exchange, for those who look at them. A replay has none. */
function withTransport(stored: GenerateResult, live: GenerateResult): GenerateResult {
  const { headers, body } = live.response ?? {};
  return {
    ...stored,
    ...(live.request && { request: live.request }),
    response: { ...stored.response, ...(headers && { headers }), ...(body !== undefined && { body }) },
  };
}

function replay(result: GenerateResult): StreamResult["stream"] {
  return new ReadableStream({
    start(controller) {
      for (const part of streamOf(result)) controller.enqueue(part);
      controller.close();
    },
  });
}

function questionOf({ prompt, abortSignal }: CallOptions, context: ModelContext): Question {
  return {
    prompt: context.ignoreSystem ? prompt.filter(({ role }) => role !== "system") : prompt,
    signal: abortSignal,
    newMessages: (position) => heardIn(prompt, context, position),
    outsideResults: (asked) => resultsIn(prompt, asked, context.artifacts),
  };
}

/** What the user said since the last answer, and since the prompt that is stored. */
async function heardIn(
  prompt: CallOptions["prompt"],
  { artifacts, turns, promptAt }: ModelContext,
  position: number,
): Promise<MessageInput[]> {
  const since = prompt.slice(prompt.findLastIndex(({ role }) => role !== "user") + 1);
  const said = await Promise.all(
    since.map((message) => fromModelMessage(message as ModelMessage, artifacts)),
  );
  const stored = promptAt(position);
  return said
    .slice(stored ? afterPrompt(said, stored) : 0)
    .map((message, index) => ({ ...message, id: `heard:${turns.run}:${position}:${index}` }));
}

/** A program may put messages of its own behind those of `d.messages`. If it has changed those, nobody knows what is new. */
function afterPrompt(said: readonly MessageInput[], stored: Message): number {
  const words = wordsOf(stored.blocks);
  const at = said.findLastIndex(({ blocks }) => wordsOf(blocks) === words);
  return at === -1 ? said.length : at + 1;
}

/** Results of calls that did not go through the ledger: refused by the SDK, denied, or run by the client. */
async function resultsIn(
  prompt: CallOptions["prompt"],
  asked: Message,
  artifacts: Artifacts,
): Promise<ToolResultBlock[]> {
  const wanted = new Set(asked.blocks.flatMap((block) => (block.kind === "tool_call" ? [block.id] : [])));
  const parts = prompt.flatMap((message) => (message.role === "tool" ? message.content : []));
  const results = parts.filter((part) => part.type === "tool-result" && wanted.has(part.toolCallId));
  return Promise.all(results.map((part) => resultBlock(part as unknown as Part, artifacts)));
}
