/**
 * `durable`: for programs that keep the SDK's `query()`. Transcript, tool calls, permissions, spending and
 * prompts belong to one Holdfast session, which one process owns at a time.
 *
 * | the program was killed                 | the same `d.query` again                                      |
 * |----------------------------------------|---------------------------------------------------------------|
 * | before the prompt is in the transcript | sends the prompt                                              |
 * | after that                             | resumes the conversation, and names the outcomes of its calls |
 * | while a call waited for a person       | resumes with that call, once the person has answered          |
 * | after the answer was recorded          | yields the recorded result; the model is not asked            |
 */

import { randomUUID } from "node:crypto";
import { HoldfastError } from "../../model/errors.ts";
import { copyJson } from "../../model/json.ts";
import type { Amounts, JsonObject, Message } from "../../model/session/index.ts";
import { type Session, sessionCore } from "../../session/index.ts";
import { amountsOf } from "../prices.ts";
import { appendPrompt, findPrompt, outcomePending, queuedWith } from "../recorded-turns/index.ts";
import { AgentEffects, DEFERRED } from "./effects.ts";
import type { DurableOptions } from "./options.ts";
import type { HookMatcher, QueryOptions, SdkMessage, SessionStoreEntry } from "./sdk-types.ts";
import { SessionTranscripts } from "./session-store.ts";

/** Metadata of the session: its conversation of the SDK, and the Holdfast session that began it. */
const CONVERSATION = "claude.conversation";

interface Conversation {
  readonly id: string;
  readonly owner: string;
}

/** A prompt. With an id it is asked once, ever: `{ id: "ship", text: "Ship it" }`. */
export type DurablePrompt = string | { readonly id?: string; readonly text: string };

/** The SDK's `query`, or a function like it. */
export type Query<Options, Output> = (input: {
  prompt: string | AsyncIterable<never>;
  options?: Options;
}) => AsyncIterable<Output>;

/** A durable `query`. */
export interface Durable<Options, Output> {
  /**
   * Like the SDK's `query()`. A string prompt that is the last one and unanswered is resumed; so is a prompt
   * with a known id. Its messages are those of the SDK.
   */
  query(input: { prompt: DurablePrompt; options?: Options }): AsyncGenerator<Output, void>;
}

/**
 * Makes programs that use the Claude Agent SDK durable: killed anywhere and run again, the conversation
 * continues, and no effect that `effects` names happens twice.
 * @example
 * import { query } from "@anthropic-ai/claude-agent-sdk";
 *
 * const session = await holdfast.session("order-4711");
 * const d = durable(session, query, { effects: [{ tool: "mcp__shop__charge" }] });
 * for await (const message of d.query({ prompt: "Charge order 4711", options: { mcpServers } }))
 *   if (message.type === "result") console.log(message.subtype);
 */
export function durable<Options extends object, Output>(
  session: Session,
  query: Query<Options, Output>,
  options: DurableOptions = {},
): Durable<Options, Output> {
  const agent = new DurableAgent(session, query as unknown as Query<QueryOptions, SdkMessage>, options);
  return {
    query: ({ prompt, options: own }) =>
      agent.run(prompt, (own ?? {}) as QueryOptions) as unknown as AsyncGenerator<Output, void>,
  };
}

class DurableAgent {
  private readonly session: Session;
  private readonly query: Query<QueryOptions, SdkMessage>;
  private readonly options: DurableOptions;
  private readonly effects: AgentEffects;
  private readonly transcripts: SessionTranscripts;

  constructor(session: Session, query: Query<QueryOptions, SdkMessage>, options: DurableOptions) {
    this.session = session;
    this.query = query;
    this.options = options;
    this.effects = new AgentEffects(session, options);
    this.transcripts = new SessionTranscripts(sessionCore(session));
  }

  async *run(input: DurablePrompt, given: QueryOptions): AsyncGenerator<SdkMessage, void> {
    await this.session.refresh();
    const prompt = await this.findOrAppend(input);
    const answer = this.session.messages.find(({ id }) => id === answerId(prompt.id));
    if (answer) return yield answer.meta?.["result"] as unknown as SdkMessage;
    const notes = await this.effects.settle();
    const resumed = this.deferredCall();
    const place = await this.place();
    const limits = this.limits(given);
    const asked = openPrompt();
    const question = await this.question(prompt, place, notes);
    const messages = this.query({
      prompt: resumed ? asked.stream : question,
      options: { ...given, ...limits, ...place.options, ...this.ours(given, place), env: environment(given) },
    });
    const spending = new Spending(this.session, this.options, place.costUsd);
    let why = "the query ended before the call did";
    try {
      for await (const message of messages) {
        await spending.count(message);
        if (message.type === "result") {
          asked.end();
          await this.recordAnswer(prompt, message, place);
        }
        yield message;
      }
    } catch (error) {
      why = `the query failed before the call ended: ${String(error)}`;
      throw error;
    } finally {
      asked.end();
      await this.effects.ended(why);
    }
  }

  // ---- The prompt

  private async findOrAppend(input: DurablePrompt): Promise<Message> {
    const { id, text } = typeof input === "string" ? { id: undefined, text: input } : input;
    const { session } = this;
    if (id !== undefined) {
      const known = findPrompt(session, id, text, textOf);
      if (known) return known;
    }
    const last = session.messages.findLast(
      ({ role, meta }) => role === "user" && meta?.["with"] === undefined,
    );
    const isAnswered = session.messages.some((each) => last && each.id === answerId(last.id));
    if (id === undefined && last && !isAnswered && textOf(last) === text) return last;
    return appendPrompt(session, { role: "user", text, ...(id !== undefined && { id }) });
  }

  /** The prompt, or a request to continue if the transcript has the prompt already. */
  private async question(prompt: Message, { entries }: Place, notes: readonly string[]): Promise<string> {
    const texts = [...queuedWith(this.session, prompt), prompt].map(textOf);
    const text = texts.join("\n\n");
    const last = entries.findLastIndex((entry) => promptOf(entry) === text);
    if (last < 0) return text;
    return ["Continue from where you left off.", ...notes].join("\n");
  }

  // ---- The conversation

  /** The SDK's conversation of this session: a new one, the same again, or a fork's copy of its parent's. */
  private async place(): Promise<Place> {
    const { session } = this;
    const known = session.metadata[CONVERSATION] as unknown as Conversation | undefined;
    const entries = known ? await this.load(known) : [];
    const costUsd = entries.reduce((cost, entry) => costOf(entry) ?? cost, 0);
    if (known && entries.length > 0 && known.owner === session.id)
      return { conversation: known, from: known, entries, costUsd, options: { resume: known.id } };
    const conversation = { id: randomUUID(), owner: session.id };
    await session.describe({ metadata: { [CONVERSATION]: conversation, [DEFERRED]: null } });
    if (!known || entries.length === 0)
      return {
        conversation,
        from: conversation,
        entries: [],
        costUsd: 0,
        options: { sessionId: conversation.id },
      };
    const at = session.messages.findLast(({ meta }) => typeof meta?.["uuid"] === "string")?.meta?.["uuid"];
    const options = { resume: known.id, forkSession: true, sessionId: conversation.id };
    return {
      conversation,
      from: known,
      entries: [],
      costUsd,
      options: { ...options, ...(at !== undefined && { resumeSessionAt: at }) },
    };
  }

  private async load({ id, owner }: Conversation): Promise<SessionStoreEntry[]> {
    return (await this.transcripts.load({ projectKey: owner, sessionId: id })) ?? [];
  }

  /** The options that are Holdfast's: the store, the hooks and the permissions. */
  private ours(given: QueryOptions, { from }: Place): QueryOptions {
    const { session, transcripts, effects } = this;
    const scoped = <Key extends { sessionId: string }>(key: Key) => ({
      ...key,
      projectKey: key.sessionId === from.id ? from.owner : session.id,
    });
    const hooks: Record<string, readonly HookMatcher[]> = {};
    for (const name of new Set([...Object.keys(effects.hooks), ...Object.keys(given.hooks ?? {})]))
      hooks[name] = [...(effects.hooks[name] ?? []), ...(given.hooks?.[name] ?? [])];
    const asks = this.options.permissions === "sdk" ? given.canUseTool : effects.canUseTool;
    return {
      sessionStore: {
        append: async (key: never, entries: SessionStoreEntry[]) => {
          await transcripts.append(scoped(key), entries);
          await effects.stored(entries);
        },
        load: (key: never) => transcripts.load(scoped(key)),
        listSubkeys: (key: never) => transcripts.listSubkeys(scoped(key)),
      },
      sessionStoreFlush: "eager",
      hooks,
      ...(asks && { canUseTool: asks }),
    };
  }

  /** True if the SDK itself resumes the call that ended the last query. Throws if no person has answered. */
  private deferredCall(): boolean {
    const { session } = this;
    const { callId } = Object(session.metadata[DEFERRED]) as { callId?: string };
    const call = callId === undefined ? undefined : sessionCore(session).state.calls.get(callId);
    if (!call) return false;
    if (call.status !== "waiting") return !call.tool.startsWith("mcp__");
    throw outcomePending(session, call.callId, call.tool, call.why ?? "it waits for a person");
  }

  private async recordAnswer(prompt: Message, message: SdkMessage, { conversation }: Place): Promise<void> {
    const { session } = this;
    const isDeferred =
      message.stop_reason === "tool_deferred" || message["terminal_reason"] === "tool_deferred_unavailable";
    if (!isDeferred && session.metadata[DEFERRED]) await session.describe({ metadata: { [DEFERRED]: null } });
    // An error is no answer: the same prompt again resumes the conversation.
    if (isDeferred || message.subtype !== "success" || message.is_error === true) return;
    const entries = await this.load(conversation);
    const uuid = entries.findLast(({ type }) => type === "assistant")?.uuid;
    const result = copyJson(JSON.parse(JSON.stringify(message)), "result of the query");
    const meta: JsonObject = { result, ...(uuid !== undefined && { uuid }) };
    const answer = { id: answerId(prompt.id), role: "assistant", text: message.result ?? "", meta } as const;
    await session.append(answer, { checkpoint: true });
  }

  // ---- The budget

  /** Limits of the session become limits of the query. */
  private limits({ maxBudgetUsd, maxTurns }: QueryOptions): QueryOptions {
    const { limit, spent } = this.session.budget;
    const left = (unit: keyof Amounts): number | undefined =>
      limit[unit] === undefined ? undefined : limit[unit] - (spent[unit] ?? 0);
    for (const unit of ["usd", "tokens", "turns"] as const) {
      if ((left(unit) ?? 1) > 0) continue;
      throw new HoldfastError("BUDGET_EXCEEDED", `session ${this.session.id}: ${unit} is used up`, {
        hint: `Raise it: session.limit({ ${unit}: … }), or \`holdfast budget\`. The model was not asked.`,
        data: { session: this.session.id, unit, limit: limit[unit], spent: spent[unit] },
      });
    }
    const least = (one?: number, other?: number): number => Math.min(one ?? Infinity, other ?? Infinity);
    const usd = least(maxBudgetUsd, left("usd"));
    const turns = least(maxTurns, left("turns"));
    return {
      ...(Number.isFinite(usd) && { maxBudgetUsd: usd }),
      ...(Number.isFinite(turns) && { maxTurns: turns }),
    };
  }
}

interface Place {
  /** The conversation that this query writes, and the one that it reads. They differ for a new fork. */
  readonly conversation: Conversation;
  readonly from: Conversation;
  readonly entries: readonly SessionStoreEntry[];
  /** The cost that the transcript has saved, with which the SDK's count begins. */
  readonly costUsd: number;
  readonly options: QueryOptions;
}

/**
 * Counts a query's spending as it happens, so that a killed query is counted too. Each answer of the model
 * counts by its tokens and the list price. The end adds the difference to the total that the SDK reports.
 */
class Spending {
  private readonly session: Session;
  private readonly options: DurableOptions;
  private readonly before: number;
  private readonly counted = new Set<string>();
  private usd = 0;

  constructor(session: Session, options: DurableOptions, before: number) {
    this.session = session;
    this.options = options;
    this.before = before;
  }

  async count({ type, message, total_cost_usd: total }: SdkMessage): Promise<void> {
    if (type === "assistant" && message?.id !== undefined && !this.counted.has(message.id)) {
      this.counted.add(message.id);
      const spent = amountsOf(tokensOf(message.usage ?? {}), message.model ?? "", this.options.prices);
      this.usd += spent.usd ?? 0;
      await this.session.spend({ ...spent, turns: 1 });
    }
    if (type !== "result" || typeof total !== "number") return;
    const more = total - this.before - this.usd;
    if (more <= 1e-9) return;
    this.usd += more;
    await this.session.spend({ usd: more });
  }
}

function tokensOf(usage: Readonly<Record<string, unknown>>) {
  const count = (name: string): number => (typeof usage[name] === "number" ? (usage[name] as number) : 0);
  return {
    input: count("input_tokens"),
    output: count("output_tokens"),
    cacheRead: count("cache_read_input_tokens"),
    cacheWrite: count("cache_creation_input_tokens"),
  };
}

/** The SDK writes its count of costs into the transcript at the end of a query. */
function costOf({ type, totalCostUSD: cost }: SessionStoreEntry): number | undefined {
  return type === "cost-state" && typeof cost === "number" ? cost : undefined;
}

function answerId(prompt: string): string {
  return `${prompt}.answer`;
}

function textOf({ blocks }: Pick<Message, "blocks">): string {
  return blocks.map((block) => (block.kind === "text" ? block.text : "")).join("");
}

/** The text of a person in a line of the transcript. */
function promptOf({ type, message }: SessionStoreEntry): string | undefined {
  const { content } = Object(message) as { content?: unknown };
  if (type !== "user") return undefined;
  if (typeof content === "string") return content;
  const [only] = Array.isArray(content) ? content : [];
  return (Object(only) as { text?: string }).text;
}

/**
 * The SDK runs a deferred call before its MCP servers are connected. Such a call is dropped, and the prompt
 * tells the model to ask for it again.
 */
function environment({ env }: QueryOptions): Record<string, string | undefined> {
  return { ...(env ?? process.env), CLAUDE_CODE_DROP_UNAVAILABLE_DEFERRED_TOOL: "1" } as NodeJS.ProcessEnv;
}

/** An empty prompt that stays open: the SDK runs the deferred call, and its hooks need an open connection. */
function openPrompt() {
  let end: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const next = (): Promise<IteratorReturnResult<undefined>> =>
    ended.then(() => ({ done: true, value: undefined }));
  const stream: AsyncIterable<never> = { [Symbol.asyncIterator]: () => ({ next }) };
  return { stream, end };
}
