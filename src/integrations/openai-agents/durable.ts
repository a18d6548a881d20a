/**
 * `durable`: for programs that keep the SDK's `run()`. Model, tools, input and session are durable together.
 * With durable tools only, a program that is run again would ask its model again, and the model would request
 * the same charge with another id. A session that got half of a run would return that half as history.
 */

import type { AgentInputItem, FunctionTool, Model, ToolInputParameters } from "@openai/agents";
import type { Json } from "../../model/json.ts";
import { type Message, toolCalls } from "../../model/session/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import { appendPrompt, findPrompt, queuedWith, RecordedTurns } from "../recorded-turns/index.ts";
import { comparableText, itemsOf, messageOf, textItem } from "./messages.ts";
import { durableModel, type ModelContext } from "./model.ts";
import type { DurableInput, DurableOptions, DurableToolOptions } from "./options.ts";
import { type ConversationRuns, conversationRuns, HoldfastSession } from "./session.ts";
import { durableTool, type ToolContext } from "./tools.ts";

/** The durable model, tools, input and session. Use them together in every `run()` of a program. */
export interface Durable {
  /** Wraps a model, by name or as an object: each response is recorded before the SDK sees it. */
  model(model: Model | string): Model;
  /** Makes a tool like the SDK's `tool()`, with each call in the ledger. Default `effect`: `mutate`. */
  tool<Parameters extends ToolInputParameters = undefined, Context = unknown>(
    options: DurableToolOptions<Parameters, Context>,
  ): FunctionTool<Context, Parameters, unknown>;
  /**
   * Returns the items of an input for `run()`. The same text resumes the last run until its answer is in
   * `session`; the same id is always the same run. Queued prompts (`holdfast.sessions.prompt`) come right
   * before a new one. Make the tools first: they settle calls of killed runs.
   */
  input(input: DurableInput): Promise<AgentInputItem[]>;
  /** The conversation, for the option `session` of `run()`. */
  readonly session: HoldfastSession;
}

/**
 * Makes a program that uses OpenAI Agents durable: killed anywhere and run again, it continues from the
 * record, and no tool call happens twice. Use one handle for everything in a program.
 * @example
 * const d = durable(await holdfast.session("order-4711"));
 * const charge = d.tool({ name: "charge", description, parameters, execute, idempotent: true });
 * const agent = new Agent({ name: "Clerk", model: d.model("gpt-5"), tools: [charge] });
 * await run(agent, await d.input("Ship it"), { session: d.session });
 */
export function durable(session: Session, options: DurableOptions = {}): Durable {
  const turns = new RecordedTurns(session, { onDiverge: options.onDiverge });
  const conversation = new HoldfastSession(sessionCore(session), session.id, session);
  const runs = conversationRuns(conversation);
  const approvals = options.approvals ?? "queue";
  let inputIsStored = false;
  /** The SDK may restore a state of its own, and continue after a call of another run or a later turn. */
  const moveAfter = (callId: string): void => {
    const turn = findTurnOfCall(session, callId);
    if (!turn) return;
    if (turns.run !== turn.run) {
      turns.begin(turn.run);
      runs.resume(turn.run);
    }
    turns.skipTo(turn.position + 1);
  };
  const forModel: ModelContext = {
    turns,
    prices: options.prices,
    plainTools: options.plainTools ?? [],
    isInputStored: (position) => inputIsStored && position === 0,
    moveAfter: (callId) => {
      if (!inputIsStored || findTurnOfCall(session, callId)?.run === turns.run) moveAfter(callId);
    },
  };
  const forTools: ToolContext = { turns, approvals, moveAfter };
  return {
    model: (model) => durableModel(model, forModel),
    tool: (toolOptions) => durableTool(toolOptions, forTools),
    input: async (input) => {
      const message = await findOrAppendInput(session, turns, runs, input, options);
      inputIsStored = true;
      turns.begin(message.id);
      const before = message.meta?.[BEFORE];
      runs.begin(message.id, typeof before === "number" ? before : null);
      return inputOf(session, message);
    },
    session: conversation,
  };
}

/** In an input's `meta`: the number of items before it, which are its history on every resume. */
const BEFORE = "itemsBefore";

async function findOrAppendInput(
  session: Session,
  turns: RecordedTurns,
  runs: ConversationRuns,
  input: DurableInput,
  { approvals = "queue", onDiverge }: DurableOptions,
): Promise<Message> {
  await session.refresh();
  await runs.checkHistory();
  const { id, ...content } = typeof input === "string" ? { text: input } : input;
  const items = "items" in content ? content.items : [textItem(content.text)];
  const text = comparableText(items);
  if (id !== undefined) {
    const compared = (stored: Pick<Message, "blocks" | "meta">) => comparableText(itemsOf(stored));
    const known = findPrompt(session, id, text, compared, onDiverge);
    if (known) return known;
  }
  const last = session.messages.findLast(isInput);
  if (id === undefined && last && comparableText(itemsOf(last)) === text) {
    const added = await runs.itemsOf(last.id);
    const isMore = added.length > inputOf(session, last).length;
    if (!isMore || isInterrupted(session, last.id, added, approvals)) return last;
  }
  await turns.finish();
  const message = messageOf(items);
  const meta = { ...message.meta, [BEFORE]: await runs.countItems() };
  return appendPrompt(session, { ...message, meta, ...(id !== undefined && { id }) });
}

/** The SDK adds items also when a run stops for an approval. Then the last answer has calls. */
function isInterrupted(
  session: Session,
  run: string,
  added: readonly Json[],
  approvals: "queue" | "sdk",
): boolean {
  const last = session.messages.findLast((message) => turnOf(message)?.run === run);
  const calls = last ? toolCalls(last) : [];
  const hasResult = (callId: string): boolean =>
    added.some((item) => {
      const { type, callId: of } = item as { type?: Json; callId?: Json };
      return type === "function_call_result" && of === callId;
    });
  // With all results and no approvals, the run may also have ended with its tools (`toolUseBehavior`).
  return calls.length > 0 && (approvals === "sdk" || !calls.every(({ id }) => hasResult(id)));
}

/** The items of an input, after those of the queued prompts that were delivered with it. */
function inputOf(session: Session, message: Message): AgentInputItem[] {
  return [...queuedWith(session, message), message].flatMap(itemsOf);
}

/** True for a message that began a run, false for one that was added in the middle of a run. */
function isInput({ role, id, meta }: Message): boolean {
  return role === "user" && !id.startsWith("heard:") && meta?.["holdfast"] === undefined;
}

type Turn = { readonly run: string; readonly position: number };

function findTurnOfCall({ messages }: Session, callId: string): Turn | null {
  const answer = messages.findLast(
    (message) => turnOf(message) && toolCalls(message).some(({ id }) => id === callId),
  );
  return answer ? turnOf(answer) : null;
}

function turnOf({ role, meta }: Message): Turn | null {
  return role === "assistant" ? ((meta?.["turn"] as unknown as Turn | undefined) ?? null) : null;
}
