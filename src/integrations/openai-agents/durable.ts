/**
 * For programs that stay with the SDK's `run()`. Model, tools, input and session are made durable together, because one without
 * the others is not enough: with durable tools alone, a program that is run again samples its model again, which asks
 * for the same charge in other words and with another id; and a session that was told half of a run hands it back as past.
 */

import type { AgentInputItem, FunctionTool, Model, ToolInputParameters } from "@openai/agents";
import type { Json } from "../../model/json.ts";
import { type Message, toolCalls } from "../../model/session/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import type { PriceTable } from "../prices.ts";
import {
  appendPrompt,
  checkNotCompacted,
  checkSameText,
  queuedWith,
  RecordedTurns,
} from "../recorded-turns/index.ts";
import { itemsOf, messageOf, textItem, wordsOf } from "./messages.ts";
import { durableModel, type ModelContext } from "./model.ts";
import { HoldfastSession } from "./session.ts";
import { type DurableToolOptions, durableTool, type ToolContext } from "./tools.ts";

/** Which recorded answer of a model something belongs to. */

/** As it is stored with each answer. */
interface Turn {
  readonly run: string;
  readonly position: number;
}

/** The turn whose answer asked for a call. */
function turnThatAsked({ messages }: Session, callId: string): Turn | null {
  const asked = messages.findLast(
    (message) => turnOf(message) && toolCalls(message).some(({ id }) => id === callId),
  );
  return asked ? turnOf(asked) : null;
}

/** The last answer of a run. */
function lastTurnOf({ messages }: Session, run: string): Message | undefined {
  return messages.findLast((message) => turnOf(message)?.run === run);
}

function turnOf({ role, meta }: Message): Turn | null {
  return role === "assistant" ? ((meta?.["turn"] as unknown as Turn | undefined) ?? null) : null;
}

/** What `durable` may be told beside the session. */
export interface DurableOptions {
  /** For the session's budget: what a million tokens cost, by model id. */
  readonly prices?: PriceTable;
  /**
   * Tools with `needsApproval`: `queue` (default) puts their calls before a person among the session's open calls; `sdk`
   * leaves them to the SDK's interruptions.
   */
  readonly approvals?: "queue" | "sdk";
  /**
   * Function tools by name, or `all`, that may be others than those of `durable(session).tool()`: of an MCP server, or
   * `agent.asTool()`. They run outside the ledger, and again after a crash. Unless named here, such tools are refused.
   */
  readonly plainTools?: readonly string[] | "all";
}

/** Text, or items of the SDK. With an `id` a finished input is answered from the record. */
export type DurableInput =
  | string
  | { readonly id?: string; readonly text: string }
  | { readonly id?: string; readonly items: readonly AgentInputItem[] };

/**
 * What `durable(session)` returns. Use its model, tools, input and session together in every `run()` of a program: a program
 * that is run again is then answered from the record.
 */
export interface Durable {
  /** The model, by name or as the SDK's object, with each response recorded before it is handed on. For every agent. */
  model(model: Model | string): Model;
  /** As the SDK's `tool`, with each call in the ledger. A tool that does not say its `effect` counts as mutating. */
  tool<Parameters extends ToolInputParameters = undefined, Context = unknown>(
    options: DurableToolOptions<Parameters, Context>,
  ): FunctionTool<Context, Parameters, unknown>;
  /**
   * What the user says, for `run()`. It begins a run, or takes up the last one again: the same words count as the same run
   * until its answer is in `session`. With an id, the same id is always the same run. What others have queued
   * (`holdfast.sessions.prompt`) comes right before a new one. Make the tools first: what a killed run left without an
   * outcome is found out with them.
   */
  input(input: DurableInput): Promise<AgentInputItem[]>;
  /** The conversation, for `run()`'s option `session`. */
  readonly session: HoldfastSession;
}

/** Makes a session's model, tools, input and items durable for OpenAI Agents. One handle for everything in a program. */
export function durable(session: Session, options: DurableOptions = {}): Durable {
  const turns = new RecordedTurns(session);
  const items = new HoldfastSession(sessionCore(session), session.id, session);
  const approvals = options.approvals ?? "queue";
  let inputIsStored = false;
  /** A call of another run, or of a later turn, comes from a state that the SDK has kept: the run is the one that asked for it. */
  const follow = (callId: string): void => {
    const asked = turnThatAsked(session, callId);
    if (!asked) return;
    if (turns.run !== asked.run) {
      turns.begin(asked.run);
      items.goOnWith(asked.run);
    }
    turns.skipTo(asked.position + 1);
  };
  const forModel: ModelContext = {
    turns,
    prices: options.prices,
    plainTools: options.plainTools ?? [],
    isHeard: (position) => inputIsStored && position === 0,
    follow: (callId) => {
      if (!inputIsStored || turnThatAsked(session, callId)?.run === turns.run) follow(callId);
    },
  };
  const forTools: ToolContext = { turns, approvals, follow };
  return {
    model: (model) => durableModel(model, forModel),
    tool: (toolOptions) => durableTool(toolOptions, forTools),
    input: async (input) => {
      const asked = await takeInput(session, turns, items, input, approvals);
      inputIsStored = true;
      turns.begin(asked.id);
      const before = asked.meta?.[BEFORE];
      items.beginRun(asked.id, typeof before === "number" ? before : null);
      return inputOf(session, asked);
    },
    session: items,
  };
}

/** In an input's `meta`: how many items the conversation had when it was given. They are its past, however often it is resumed. */
const BEFORE = "itemsBefore";

async function takeInput(
  session: Session,
  turns: RecordedTurns,
  conversation: HoldfastSession,
  input: DurableInput,
  approvals: "queue" | "sdk",
): Promise<Message> {
  await session.refresh();
  await conversation.mustHavePast();
  const id = typeof input === "string" ? undefined : input.id;
  const items = given(input);
  const says = wordsOf(items);
  if (id !== undefined) {
    const isIt = (each: { readonly id: string }): boolean => each.id === id;
    const known = session.messages.findLast(isIt);
    const on = known ?? session.prompts.find(isIt);
    if (on) checkSameText(session, id, says, wordsOf(itemsOf(on)));
    if (known) return known;
    checkNotCompacted(session, id);
  }
  const last = session.messages.findLast(isInput);
  if (id === undefined && last && wordsOf(itemsOf(last)) === says) {
    const added = await conversation.addedBy(last.id);
    const isMore = added.length > inputOf(session, last).length;
    if (!isMore || isInterrupted(session, last.id, added, approvals)) return last;
  }
  await turns.finish();
  const said = messageOf(items);
  const meta = { ...said.meta, [BEFORE]: await conversation.count() };
  return appendPrompt(session, { ...said, meta, ...(id !== undefined && { id }) });
}

/**
 * The SDK adds a run's items at its end, but also where it stops for an approval, and once that is given, before the model
 * is asked. Only a run whose last answer has calls can be at such a place.
 */
function isInterrupted(
  session: Session,
  run: string,
  added: readonly Json[],
  approvals: "queue" | "sdk",
): boolean {
  const last = lastTurnOf(session, run);
  const calls = last ? toolCalls(last) : [];
  const hasResult = (callId: string): boolean =>
    added.some((item) => {
      const { type, callId: of } = item as { type?: Json; callId?: Json };
      return type === "function_call_result" && of === callId;
    });
  // With all their results, it may as well have ended with its tools (`toolUseBehavior`), if nobody was to approve them.
  return calls.length > 0 && (approvals === "sdk" || !calls.every(({ id }) => hasResult(id)));
}

/** With what others had queued until then. */
function inputOf(session: Session, asked: Message): AgentInputItem[] {
  return [...queuedWith(session, asked), asked].flatMap(itemsOf);
}

function given(input: DurableInput): readonly AgentInputItem[] {
  if (typeof input === "string") return [textItem(input)];
  return "items" in input ? input.items : [textItem(input.text)];
}

/** What began a run, and not what somebody added in the middle of one. */
function isInput({ role, id, meta }: Message): boolean {
  return role === "user" && !id.startsWith("heard:") && meta?.["holdfast"] === undefined;
}
