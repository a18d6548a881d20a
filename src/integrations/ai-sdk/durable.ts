/**
 * For programs that stay with `generateText`, `streamText` and agents. Model, tools and messages are made durable together,
 * because one without the others is not enough: with durable tools alone, a program that is run again samples its
 * model again, which asks for the same charge with other words and another id.
 */

import { HoldfastError } from "../../model/errors.ts";
import { type Message, messageText, toolCalls } from "../../model/session/index.ts";
import { type MessageInput, type Session, sessionCore } from "../../session/index.ts";
import type { PriceTable } from "../prices.ts";
import {
  appendPrompt,
  appendQueued,
  checkNotCompacted,
  checkSameText,
  RecordedTurns,
  resultValue,
} from "../recorded-turns/index.ts";
import { durableModel, type ModelContext } from "./durable-model.ts";
import { durableTools, type ToolContext, type ToolDeclarations } from "./durable-tools.ts";
import type { LanguageModel, ModelMessage, ToolSet, UserModelMessage } from "./language-model.ts";
import { fromModelMessage, toModelMessages, wordsOf } from "./messages.ts";
import { MisreportedCalls } from "./misreported-calls.ts";

/** What `durable` may be told: which run this is, and what may change between two starts of it. */
export interface DurableOptions {
  /**
   * Names what is resumed as one. A program that is started again begins its run at the start and is answered from the
   * record until it comes to something new. `main` unless set; `messages(prompt)` begins a run for each prompt.
   */
  readonly run?: string;
  /** A changed system text is not another prompt: for texts that hold a date, or change with a deploy. */
  readonly ignoreSystem?: boolean;
  /** For the session's budget: what a million tokens cost, by model id. */
  readonly prices?: PriceTable;
  /**
   * Tools with `needsApproval`: `queue` (default) puts their calls before a person among the session's open calls;
   * `sdk` leaves them to the SDK's own requests and responses.
   */
  readonly approvals?: "queue" | "sdk";
}

/** Text, or a message with files. With an `id` a finished prompt is answered from the record; the id is for these words only. */
export type DurablePrompt =
  | string
  | { readonly id?: string; readonly text: string }
  | (Pick<UserModelMessage, "content" | "providerOptions"> & {
      readonly id?: string;
      readonly role?: "user";
    });

/**
 * What `durable(session)` returns. Use its model, tools and messages together in every step of a program: a program that is
 * run again is then answered from the record.
 */
export interface Durable {
  /** The model, with each response recorded before it is handed on. Give every step of a program this one. */
  model(model: LanguageModel): LanguageModel;
  /** The tools, with each call in the ledger. Undeclared tools count as mutating. */
  tools<Tools extends ToolSet>(tools: Tools, declarations?: ToolDeclarations<Tools>): Tools;
  /**
   * The conversation so far and the prompt, which begins a run of its own. A prompt that was not answered yet is taken up
   * again, not appended twice. What others have queued (`holdfast.sessions.prompt`) comes right before a new one. Without a
   * prompt: the last one, and once that is answered the last that was queued. Make the tools first: what a killed run left
   * without an outcome is found out with them.
   */
  messages(prompt?: DurablePrompt): Promise<ModelMessage[]>;
}

/** Makes a session's model, tools and messages durable for the AI SDK. One handle for everything in a program. */
export function durable(session: Session, options: DurableOptions = {}): Durable {
  const turns = new RecordedTurns(session, options.run === undefined ? {} : { run: options.run });
  const misreported = new MisreportedCalls(turns);
  const artifacts = sessionCore(session).journal;
  let prompt: Message | null = null;
  const forModel: ModelContext = {
    turns,
    misreported,
    artifacts,
    prices: options.prices,
    ignoreSystem: options.ignoreSystem ?? false,
    promptAt: (position) => (position === 0 ? prompt : null),
  };
  const forTools: ToolContext = {
    turns,
    misreported,
    artifacts,
    approvals: options.approvals ?? "queue",
  };
  return {
    model: (model) => durableModel(mustBeModel(model), forModel),
    tools: (tools, declarations = {}) => durableTools(tools, declarations, forTools),
    messages: async (given) => {
      const asked = await takePrompt(session, turns, given);
      prompt = asked;
      misreported.forget();
      turns.begin(asked.id);
      const until = session.messages.findLastIndex(({ id }) => id === asked.id);
      return toModelMessages(session.messages.slice(0, until + 1), artifacts, async (block) =>
        sessionCore(session).state.calls.get(block.callId)?.result || block.meta?.["result"] !== undefined
          ? { value: await resultValue(session, block) }
          : null,
      );
    },
  };
}

async function takePrompt(
  session: Session,
  turns: RecordedTurns,
  prompt: DurablePrompt | undefined,
): Promise<Message> {
  await session.refresh();
  if (prompt === undefined) return lastPrompt(session, turns);
  const id = typeof prompt === "string" ? undefined : prompt.id;
  const said = await promptMessage(session, prompt);
  if (id !== undefined) {
    const isIt = (each: { readonly id: string }): boolean => each.id === id;
    const known = session.messages.findLast(isIt);
    const words = (known ?? session.prompts.find(isIt))?.blocks;
    if (words) checkSameText(session, id, wordsOf(said.blocks), wordsOf(words));
    if (known) return known;
    checkNotCompacted(session, id);
    mustNameRun(session, id);
  }
  const unanswered = id === undefined ? unansweredLike(session, said) : undefined;
  if (unanswered) return unanswered;
  await turns.finish();
  return appendPrompt(session, { ...said, ...(id !== undefined && { id }) });
}

/** A prompt's id is the name of its run: one that cannot be is refused before anything is written. */
function mustNameRun(session: Session, id: string): void {
  new RecordedTurns(session, { run: id });
}

function promptMessage(session: Session, prompt: DurablePrompt): Promise<MessageInput> {
  const artifacts = sessionCore(session).journal;
  if (typeof prompt === "string") return fromModelMessage({ role: "user", content: prompt }, artifacts);
  if ("text" in prompt) return fromModelMessage({ role: "user", content: prompt.text }, artifacts);
  const { content, providerOptions } = prompt;
  return fromModelMessage({ role: "user", content, ...(providerOptions && { providerOptions }) }, artifacts);
}

/** The same words since the last answer that asked for nothing more: a program that was started again. */
function unansweredLike(session: Session, said: MessageInput): Message | undefined {
  const words = JSON.stringify(said.blocks);
  return unanswered(session).findLast((message) => JSON.stringify(message.blocks) === words);
}

function unanswered({ messages }: Session): Message[] {
  const answered = messages.findLastIndex(
    (message) => message.role === "assistant" && toolCalls(message).length === 0,
  );
  return messages.slice(answered + 1).filter(({ role }) => role === "user");
}

async function lastPrompt(session: Session, turns: RecordedTurns): Promise<Message> {
  if (session.prompts.length > 0 && unanswered(session).length === 0) {
    for (const { id } of session.prompts.slice(-1)) mustNameRun(session, id);
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

function mustBeModel(model: unknown): LanguageModel {
  if (typeof model === "object" && model !== null && "doGenerate" in model) return model as LanguageModel;
  throw new HoldfastError("INPUT_INVALID", `a model was expected, not ${JSON.stringify(model)}`, {
    hint: 'Pass the provider\'s model object, such as anthropic("claude-sonnet-5-5"), not its name.',
  });
}
