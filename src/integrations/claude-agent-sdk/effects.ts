/**
 * The agent's tool calls in the ledger of a session, by the SDK's hooks.
 *
 *     PreToolUse   the intent is durable, then the tool runs. A finished call is answered from the record.
 *     PostToolUse  the outcome is durable, then the model reads it.
 *
 * | crash                            | the same call in the resumed conversation                            |
 * |----------------------------------|----------------------------------------------------------------------|
 * | before the intent                | runs                                                                 |
 * | between intent and outcome       | `verify` decides, `idempotent` runs it again, otherwise a person     |
 * | after the outcome                | does not run: the model reads the recorded outcome                   |
 * | after its answer is in the       | the model has read the outcome, so it asks for another one: it runs, |
 * | stored transcript                | unless `dedupe` says that it never runs again                        |
 *
 * A resumed model gets new ids for its calls. So equal calls are numbered, `claude_<fingerprint>.<n>`: the
 * latest is the same call until its answer was delivered.
 *
 * A call without PostToolUse when its batch ends was not permitted: nothing has happened. A query that ends
 * before that leaves the outcome unknown.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { DefiniteFailure, NotFinished, type Tool } from "../../ledger/index.ts";
import { sha256 } from "../../model/digest.ts";
import { describeError } from "../../model/errors.ts";
import { canonicalJson, copyArgs, type Json, sameJson } from "../../model/json.ts";
import { type Call, isNotStarted, isOpen } from "../../model/session/index.ts";
import { type DirectOutcome, type Session, sessionCore } from "../../session/index.ts";
import type { DurableOptions, EffectRule, ToolInput } from "./options.ts";
import type { CanUseTool, HookInput, HookMatcher, HookOutput, SessionStoreEntry } from "./sdk-types.ts";

/** A person's answer is noticed after this long. */
const POLL_MS = 500;
/** Longest answer that is quoted in a note to the model. */
const QUOTED_CHARACTERS = 4_000;
/** Hooks of the SDK end after a minute unless they have another limit, in seconds. */
const HOOK_SECONDS = 7 * 24 * 3_600;
const PREFIX = "claude_";
const DELIVERED = "claude.delivered.";
/** Metadata of the session: the call that ended the last query because it waits for a person. */
export const DEFERRED = "claude.deferred";

/** A call that the agent runs at this moment: its hook has returned, its outcome is not known. */
interface Running {
  readonly callId: string;
  finish(value: Json): void;
  fail(error: Error): void;
  readonly outcome: Promise<DirectOutcome<unknown>>;
}

/** The agent asks to run a tool. */
interface Request {
  readonly toolUseId: string;
  readonly name: string;
  readonly input: Json;
  readonly rule: EffectRule;
}

type Verdict =
  /** `input` differs from the request's if a person changed it. `isApproved` by a person. */
  | { readonly run: true; readonly input: Json; readonly isApproved: boolean }
  | { readonly run: false; readonly note: string; readonly waitsFor: string | null };

export class AgentEffects {
  private readonly session: Session;
  private readonly options: DurableOptions;
  private readonly running = new Map<string, Running>();
  /** Numbers of equal calls whose answer this query has read. */
  private readonly answered = new Map<string, number>();
  /** Ids of the SDK for calls whose answer is on its way to the transcript. */
  private readonly unstored = new Map<string, string>();
  private hasDeferred = false;

  constructor(session: Session, options: DurableOptions) {
    this.session = session;
    this.options = options;
  }

  readonly hooks: Readonly<Record<string, readonly HookMatcher[]>> = Object.fromEntries(
    (
      [
        ["PreToolUse", (input) => this.before(input)],
        ["PostToolUse", (input) => this.after(input, (input.tool_response ?? null) as Json)],
        ["PostToolUseFailure", (input) => this.afterFailure(input)],
        ["PostToolBatch", (input) => this.afterBatch(input)],
      ] as const satisfies readonly [string, (input: HookInput) => Promise<HookOutput>][]
    ).map(([name, hook]) => [name, [{ hooks: [hook], timeout: HOOK_SECONDS, onFailure: "block" }]]),
  );

  /** Puts a request for permission into the queue of calls that wait for a person, and waits. */
  readonly canUseTool: CanUseTool = async (name, input, { toolUseID: toolUseId, signal }) => {
    const rule = this.ruleFor(name, input) ?? { tool: name };
    const issued = this.running.get(toolUseId);
    if (issued) {
      // Its hook could not know that a permission is needed. The call begins anew, with a person first.
      issued.fail(new DefiniteFailure("it waits for a permission"));
      await issued.outcome;
      this.running.delete(toolUseId);
    }
    const request = { toolUseId, name, input: input as Json, rule: { ...rule, needsApproval: true } };
    const verdict = await this.hold(request, await this.begin(request), signal);
    if (!verdict.run) return { behavior: "deny", message: verdict.note };
    return { behavior: "allow", updatedInput: verdict.input as Record<string, unknown> };
  };

  /** Settles the calls that a killed process left open, and tells which results the model has not read. */
  async settle(): Promise<string[]> {
    const isLost = (call: Call): boolean =>
      call.callId.startsWith(PREFIX) &&
      call.status !== "waiting" &&
      call.approval === null &&
      !ruleByName(this.options, call.tool).idempotent;
    const names = new Set(this.session.openCalls.filter(isLost).map(({ tool }) => tool));
    const tools = [...names].map((name) => this.toolOf(name, ruleByName(this.options, name), neverRuns));
    if (tools.length > 0) await this.session.settle(tools, isLost);
    return [...sessionCore(this.session).state.calls.values()]
      .filter((call) => call.callId.startsWith(PREFIX) && !this.wasDelivered(call))
      .map((call) => `[holdfast] ${call.tool} ${canonicalJson(call.args)}: ${this.noteOn(call)}`);
  }

  /** Called by the store for lines that are durable: an answer in the transcript was delivered. */
  async stored(entries: readonly SessionStoreEntry[]): Promise<void> {
    const metadata: Record<string, Json> = {};
    for (const toolUseId of entries.flatMap(resultsIn)) {
      const callId = this.unstored.get(toolUseId);
      this.unstored.delete(toolUseId);
      const { fingerprint, number } = callId === undefined ? NO_CALL : partsOf(callId);
      if (number > this.delivered(fingerprint)) metadata[DELIVERED + fingerprint] = number;
    }
    if (Object.keys(metadata).length > 0) await this.session.describe({ metadata });
  }

  /** The query has ended: no hook will report what is still running. */
  async ended(why: string): Promise<void> {
    const left = [...this.running.values()];
    this.running.clear();
    this.answered.clear();
    this.hasDeferred = false;
    for (const call of left) call.fail(new Error(why));
    await Promise.allSettled(left.map(({ outcome }) => outcome));
  }

  // ---- Hooks

  private async before(hook: HookInput): Promise<HookOutput> {
    const { tool_name: name = "", tool_input: input, tool_use_id: toolUseId = "" } = hook;
    const rule = this.ruleFor(name, (input ?? {}) as ToolInput);
    if (!rule) return {};
    const request = { toolUseId, name, input: (input ?? {}) as Json, rule };
    let verdict: Verdict;
    try {
      verdict = await this.begin(request);
    } catch (error) {
      return deny(`The call was not run: ${describeError(error).message}`);
    }
    if (!verdict.run && verdict.waitsFor !== null) {
      if (this.options.waiting === "hold") verdict = await this.hold(request, verdict);
      // The SDK resumes one deferred call, and only of the main agent.
      else if (!this.hasDeferred && hook.agent_id === undefined) return this.defer(request, verdict);
    }
    if (!verdict.run) return deny(verdict.note);
    if (!verdict.isApproved && sameJson(verdict.input, request.input)) return {};
    return decision("allow", "approved by a person", verdict.input as Record<string, unknown>);
  }

  private async defer({ toolUseId }: Request, verdict: Verdict & { run: false }): Promise<HookOutput> {
    this.hasDeferred = true;
    await this.session.describe({ metadata: { [DEFERRED]: { toolUseId, callId: verdict.waitsFor } } });
    return decision("defer", verdict.note);
  }

  private async after({ tool_use_id: toolUseId = "" }: HookInput, value: Json): Promise<HookOutput> {
    const call = this.running.get(toolUseId);
    if (!call) return {};
    this.running.delete(toolUseId);
    call.finish(value);
    try {
      const { status } = await call.outcome;
      if (status !== "waiting") this.deliver(toolUseId, call.callId);
      return {};
    } catch (error) {
      const why = `[holdfast] The outcome of call ${call.callId} was not recorded`;
      return { continue: false, stopReason: `${why}: ${describeError(error).message}` };
    }
  }

  /** A failure that the model reads is an outcome: it decides what comes next. An interruption is none. */
  private async afterFailure(hook: HookInput): Promise<HookOutput> {
    const { tool_use_id: toolUseId = "", error = "the tool failed", is_interrupt: isInterrupt } = hook;
    if (!isInterrupt) return this.after(hook, { isError: true, error });
    const call = this.running.get(toolUseId);
    this.running.delete(toolUseId);
    call?.fail(new Error(`interrupted: ${error}`));
    await call?.outcome.catch(ignoreReported);
    return {};
  }

  /** A call of the batch that still runs was not permitted, by a rule of the SDK or by its user. */
  private async afterBatch({ tool_calls: calls = [] }: HookInput): Promise<HookOutput> {
    for (const { tool_use_id: toolUseId, tool_response: response } of calls) {
      const call = this.running.get(toolUseId);
      if (!call) continue;
      this.running.delete(toolUseId);
      call.fail(new DefiniteFailure(`it was not permitted: ${textOf(response as Json)}`));
      await call.outcome.catch(ignoreReported);
    }
    return {};
  }

  // ---- The ledger

  /** Resolves when the intent is durable and the tool may run, or when the ledger answers instead. */
  private async begin(request: Request, waited?: string): Promise<Verdict> {
    const { toolUseId, name, rule } = request;
    await this.session.refresh();
    const input = copyArgs(request.input, `input of ${name}`);
    const callId = waited ?? this.deferredAs(toolUseId) ?? this.numbered(name, input, rule);
    const isApproved = (this.findCall(callId)?.approval ?? null) !== null;
    const started = deferred<Json>();
    const effect = deferred<Json>();
    let hasStarted = false;
    const execute = (args: Json): Promise<Json> => {
      // The ledger would try again at once. Only the agent can, when it asks for the call again.
      if (hasStarted) throw askAgain();
      hasStarted = true;
      started.resolve(args);
      return effect.promise;
    };
    const tool = this.toolOf(name, rule, execute as Tool["execute"]);
    const outcome = this.session.call({ tool, args: input, callId });
    outcome.catch(ignoreReported);
    const first = await Promise.race([started.promise.then((args) => ({ args })), outcome]);
    if (!("args" in first)) return this.answerFor(request, callId, first);
    this.running.set(toolUseId, { callId, finish: effect.resolve, fail: effect.reject, outcome });
    return { run: true, input: first.args, isApproved };
  }

  /** The ledger answers for the tool. */
  private answerFor(request: Request, callId: string, outcome: DirectOutcome<unknown>): Verdict {
    if (outcome.status === "waiting") {
      const call = this.findCall(callId);
      const note = call ? this.noteOn(call) : `An equal call is open: ${outcome.why}. It was not run.`;
      return { run: false, note: `[holdfast] ${note}`, waitsFor: callId };
    }
    this.deliver(request.toolUseId, callId);
    const call = this.findCall(callId);
    const note = call ? this.noteOn(call) : outcome.status;
    return { run: false, note: `[holdfast] ${note}`, waitsFor: null };
  }

  private async hold(request: Request, first: Verdict, signal?: AbortSignal): Promise<Verdict> {
    let verdict = first;
    while (!verdict.run && verdict.waitsFor !== null) {
      const { stop } = sessionCore(this.session);
      await sleep(POLL_MS, undefined, { signal: signal ? AbortSignal.any([signal, stop]) : stop });
      await this.session.refresh();
      const isAnswered = this.findCall(verdict.waitsFor)?.status !== "waiting";
      if (isAnswered) verdict = await this.begin(request, verdict.waitsFor);
    }
    return verdict;
  }

  private toolOf(name: string, rule: EffectRule, execute: Tool["execute"]): Tool {
    const { settleMs, interrupted, needsApproval, dedupe = "call", idempotent, verify } = rule;
    const declared = { settleMs, interrupted, needsApproval, idempotent, verify };
    return {
      ...Object.fromEntries(Object.entries(declared).filter(([, value]) => value !== undefined)),
      name,
      description: `The agent's tool ${name}`,
      effect: "mutate",
      dedupe: dedupe as Tool["dedupe"] & string,
      input: { "~standard": { version: 1, vendor: "holdfast", validate: (value) => ({ value }) } },
      execute,
    };
  }

  private ruleFor(name: string, input: ToolInput): EffectRule | undefined {
    return this.options.effects?.find((rule) => fits(rule, name) && (rule.when?.(input) ?? true));
  }

  private findCall(callId: string): Call | undefined {
    return sessionCore(this.session).state.calls.get(callId);
  }

  // ---- Which calls are the same

  private numbered(name: string, input: Json, { dedupe }: EffectRule): string {
    const fingerprint = sha256(canonicalJson([name, withoutDescription(input)])).slice(0, 24);
    let number = 1;
    while (this.findCall(idOf(fingerprint, number + 1))) number += 1;
    const latest = this.findCall(idOf(fingerprint, number));
    // With `dedupe` the ledger's own keys detect repeats.
    const isDone = latest && !isOpen(latest.status) && (dedupe !== undefined || this.wasDelivered(latest));
    return idOf(fingerprint, isDone ? number + 1 : number);
  }

  /** The SDK runs a deferred call under its old id once a person has answered. */
  private deferredAs(toolUseId: string): string | undefined {
    const deferred = Object(this.session.metadata[DEFERRED]) as { toolUseId?: string; callId?: string };
    return deferred.toolUseId === toolUseId ? deferred.callId : undefined;
  }

  /** True if the model knows the outcome. It reads every failure but the one that a person decided later. */
  private wasDelivered({ callId, status, settledBy }: Call): boolean {
    const { fingerprint, number } = partsOf(callId);
    if (status === "failed" && settledBy !== "person") return true;
    return Math.max(this.delivered(fingerprint), this.answered.get(fingerprint) ?? 0) >= number;
  }

  private delivered(fingerprint: string): number {
    return Number(this.session.metadata[DELIVERED + fingerprint] ?? 0);
  }

  private deliver(toolUseId: string, callId: string): void {
    const { fingerprint, number } = partsOf(callId);
    this.answered.set(fingerprint, number);
    this.unstored.set(toolUseId, callId);
  }

  /** Tells the model what became of a call that is not run now. */
  private noteOn(call: Call): string {
    const at = new Date(call.settledAt ?? call.issuedAt).toISOString();
    if (call.result) {
      const answer =
        call.result && "value" in call.result ? textOf(call.result.value) : "stored with the call";
      const by = call.settledBy === "person" ? `${call.by} confirmed that it took effect` : `It ran at ${at}`;
      return `Not run again. ${by}. Its recorded answer: ${answer}`;
    }
    if (call.status === "failed")
      return `Not run, nothing has happened: ${call.error?.message ?? "it failed"}`;
    if (isNotStarted(call)) return "It waits for a person's approval. Do not do the same in another way.";
    return (
      `It is unknown whether it took effect (${call.why ?? "the process ended"}). It is not run again. ` +
      "A person is asked. Do not do the same in another way."
    );
  }
}

function ruleByName({ effects = [] }: DurableOptions, name: string): EffectRule {
  return effects.find((rule) => fits(rule, name)) ?? { tool: name };
}

function fits({ tool }: EffectRule, name: string): boolean {
  if (!tool.includes("*")) return tool === name;
  const parts = tool.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(name);
}

/** The call stays open until the agent asks for it again: only the agent itself can run its tools. */
function askAgain(): NotFinished {
  return new NotFinished("the agent runs this tool when it asks for the call again");
}

const neverRuns: Tool["execute"] = () => {
  throw askAgain();
};

function deferred<Value>() {
  let resolve: (value: Value) => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<Value>((accept, refuse) => {
    resolve = accept;
    reject = refuse;
  });
  return { promise, resolve, reject };
}

/** The caller of the ledger has reported it. */
function ignoreReported(): void {}

/** The model words the description of a command anew each time. */
function withoutDescription(input: Json): Json {
  const { description: _text, ...rest } = Object(input) as { readonly [name: string]: Json };
  return "command" in rest ? rest : input;
}

function idOf(fingerprint: string, number: number): string {
  return `${PREFIX}${fingerprint}.${number}`;
}

const NO_CALL = { fingerprint: "", number: 0 };

function partsOf(callId: string): { readonly fingerprint: string; readonly number: number } {
  const [fingerprint = "", number] = callId.slice(PREFIX.length).split(".");
  return { fingerprint, number: Number(number) };
}

function decision(
  permissionDecision: "allow" | "deny" | "defer",
  permissionDecisionReason: string,
  updatedInput?: Record<string, unknown>,
): HookOutput {
  const answer = { hookEventName: "PreToolUse", permissionDecision, permissionDecisionReason } as const;
  return { hookSpecificOutput: { ...answer, ...(updatedInput && { updatedInput }) } };
}

function deny(note: string): HookOutput {
  return decision("deny", note);
}

/** Ids of the calls whose results are in a line of the transcript. */
function resultsIn({ type, message }: SessionStoreEntry): string[] {
  const { content } = Object(message) as { content?: unknown };
  if (type !== "user" || !Array.isArray(content)) return [];
  return content.flatMap((block: { type?: unknown; tool_use_id?: unknown } | null) =>
    block?.type === "tool_result" && typeof block.tool_use_id === "string" ? [block.tool_use_id] : [],
  );
}

/** The text of a tool's response: of the shell, of an MCP server, or the JSON itself. */
function textOf(response: Json): string {
  const { stdout, stderr, content, error } = Object(response) as Record<string, Json | undefined>;
  const blocks = Array.isArray(response) ? response : Array.isArray(content) ? content : null;
  let text: string;
  if (typeof response === "string") text = response;
  else if (typeof stdout === "string") text = [stdout, stderr].filter(Boolean).join("\n");
  else if (blocks)
    text = blocks.map((block) => String((Object(block) as { text?: Json }).text ?? "")).join("\n");
  else text = typeof error === "string" ? error : JSON.stringify(response ?? null);
  return text.length > QUOTED_CHARACTERS ? `${text.slice(0, QUOTED_CHARACTERS)} …` : text;
}
