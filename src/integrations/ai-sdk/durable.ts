/**
 * `durable`: for programs that keep `generateText`, `streamText` and agents. Model, tools and messages become
 * durable together. With durable tools only, a program that is run again would ask its model again, and the
 * model would request the same charge in other words with another id.
 */

import { HoldfastError } from "../../model/errors.ts";
import { type Message, messageText, toolCalls } from "../../model/session/index.ts";
import { type MessageInput, type Session, sessionCore } from "../../session/index.ts";
import {
  appendPrompt,
  appendQueued,
  findPrompt,
  RecordedTurns,
  resultValue,
} from "../recorded-turns/index.ts";
import { Approvals } from "./approvals.ts";
import { notAModel } from "./errors.ts";
import { comparableText, fromModelMessage, toModelMessages } from "./messages.ts";
import { durableModel } from "./model.ts";
import type { DurableOptions, DurablePrompt, ToolDeclarations } from "./options.ts";
import type { LanguageModel, ModelMessage, ToolSet } from "./sdk-types.ts";
import { CallErrors, type DurableContext, durableTools } from "./tools.ts";

/** The durable model, tools and messages of a session. Use them together in every step of a program. */
export interface Durable {
  /** Wraps a provider's model: each response is recorded before the SDK sees it. */
  model<Model extends LanguageModel>(model: Model): Model;
  /** Wraps the SDK's tools: each call goes through the ledger. Undeclared tools count as mutating. */
  tools<Tools extends ToolSet>(tools: Tools, declarations?: ToolDeclarations<Tools>): Tools;
  /**
   * Wraps the option `toolApproval` of AI SDK 7: a call that needs a person waits in `holdfast calls`.
   * @example toolApproval: d.toolApproval({ charge: ({ eur }) => (eur > 100 ? "user-approval" : undefined) })
   */
  toolApproval<Approval>(approval: Approval): Approval;
  /**
   * Returns the conversation with the prompt, which begins a run of its own. An unanswered prompt is resumed.
   * Queued prompts (`holdfast.sessions.prompt`) come right before a new one. Default: the last prompt, or
   * after its answer the last queued one. Make the tools first: they settle calls of killed runs.
   */
  messages(prompt?: DurablePrompt): Promise<ModelMessage[]>;
}

/**
 * Makes a program that uses the AI SDK durable: killed anywhere and run again, it continues from the record,
 * and no tool call happens twice. Use one handle for everything in a program.
 * @example
 * const d = durable(await holdfast.session("order-4711"));
 * const model = d.model(anthropic("claude-sonnet-5-5"));
 * const tools = d.tools({ charge }, { charge: { idempotent: true } });
 * const { text } = await generateText({ model, tools, messages: await d.messages("Ship it"), stopWhen });
 */
export function durable(session: Session, options: DurableOptions = {}): Durable {
  const turns = new RecordedTurns(session, options);
  const callErrors = new CallErrors(turns);
  const artifacts = sessionCore(session).journal;
  const approvals = new Approvals(options.approvals);
  let prompt: Message | null = null;
  const context: DurableContext = {
    options,
    turns,
    callErrors,
    approvals,
    artifacts,
    promptAt: (position) => (position === 0 ? prompt : null),
  };
  return {
    model: <Model extends LanguageModel>(model: Model) => {
      // Programs may pass a model's name all the same.
      if (!("doGenerate" in Object(model))) throw notAModel(model);
      return durableModel(model, context) as Model;
    },
    toolApproval: (approval) => approvals.wrap(approval),
    tools: (tools, declarations = {}) => durableTools(tools, declarations, context),
    messages: async (input) => {
      const current = await findOrAppendPrompt(session, turns, input, options);
      prompt = current;
      callErrors.clear();
      turns.begin(current.id);
      const end = session.messages.findLastIndex(({ id }) => id === current.id) + 1;
      return toModelMessages(session.messages.slice(0, end), artifacts, async (block) =>
        sessionCore(session).state.calls.get(block.callId)?.result || block.meta?.["result"] !== undefined
          ? { value: await resultValue(session, block) }
          : null,
      );
    },
  };
}

async function findOrAppendPrompt(
  session: Session,
  turns: RecordedTurns,
  prompt: DurablePrompt | undefined,
  { onDiverge }: DurableOptions,
): Promise<Message> {
  await session.refresh();
  if (prompt === undefined) return lastPrompt(session, turns);
  const id = typeof prompt === "string" ? undefined : prompt.id;
  const message = await promptMessage(session, prompt);
  if (id !== undefined) {
    const compared = ({ blocks }: Pick<MessageInput, "blocks">): string => comparableText(blocks);
    const known = findPrompt(session, id, compared(message), compared, onDiverge);
    if (known) return known;
    checkRunName(session, id);
  }
  if (id === undefined) {
    // The program was restarted if an unanswered prompt has the same content.
    const content = JSON.stringify(message.blocks);
    const same = unanswered(session).findLast(({ blocks }) => JSON.stringify(blocks) === content);
    if (same) return same;
  }
  await turns.queueOutcomes();
  await turns.finish();
  return appendPrompt(session, { ...message, ...(id !== undefined && { id }) });
}

/** A prompt's id names its run. An invalid name is refused before anything is written. */
function checkRunName(session: Session, id: string): void {
  new RecordedTurns(session, { run: id });
}

export function promptMessage(session: Session, prompt: DurablePrompt): Promise<MessageInput> {
  const artifacts = sessionCore(session).journal;
  if (typeof prompt === "string") return fromModelMessage({ role: "user", content: prompt }, artifacts);
  if ("text" in prompt) return fromModelMessage({ role: "user", content: prompt.text }, artifacts);
  const { content, providerOptions } = prompt;
  return fromModelMessage({ role: "user", content, ...(providerOptions && { providerOptions }) }, artifacts);
}

function unanswered({ messages }: Session): Message[] {
  const answered = messages.findLastIndex(
    (message) => message.role === "assistant" && toolCalls(message).length === 0,
  );
  return messages.slice(answered + 1).filter(({ role }) => role === "user");
}

async function lastPrompt(session: Session, turns: RecordedTurns): Promise<Message> {
  const isIdle = unanswered(session).length === 0;
  if (isIdle) await turns.queueOutcomes();
  if (isIdle && session.prompts.length > 0) {
    for (const { id } of session.prompts.slice(-1)) checkRunName(session, id);
    await turns.finish();
    const queued = await appendQueued(session);
    if (queued) return queued;
  }
  const last = session.messages.findLast(({ role }) => role === "user");
  if (last && messageText(last) !== undefined) return last;
  throw new HoldfastError("INPUT_INVALID", `session ${session.id} has no message to answer`, {
    hint: "Pass a prompt to messages(), or append a user message first.",
  });
}
