/** How users declare tools: `tool()`, its options, and the answers of `execute` and `verify`. */

import { describeError, HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { quoteValue } from "../model/names.ts";
import { checkOption, checkOptions, type OptionRule } from "../model/options.ts";
import { type Amounts, EFFECTS, type Effect, type JsonObject } from "../model/session/index.ts";

/**
 * Declares a tool. Say what it does to the world and, if you can, how to find out whether it did: that
 * decides what happens after a crash in the middle of it.
 *
 * @example
 * const charge = tool({
 *   name: "charge",
 *   description: "Charges a customer's card.",
 *   input: z.object({ order: z.string(), cents: z.int() }),
 *   effect: "mutate",
 *   idempotent: true,
 *   execute: ({ order, cents }, { key }) => payments.charge({ order, cents, idempotencyKey: key }),
 * });
 */
export function tool<Args, Result, Input = unknown>(
  spec: ToolSpec<Args, Result, Input>,
): ToolSpec<Args, Result, Input> {
  checkToolSpec(spec);
  checkToolName(spec.name);
  parametersOf(spec);
  return spec;
}

/**
 * The options of `tool()`. Only `effect` comes on top of what every framework asks for. The rest says what
 * may be done about an interrupted call:
 *
 * - The vendor accepts an idempotency key: pass it `key`, and set `idempotent`.
 * - The target can be asked: write `verify`.
 * - Neither: a person is asked, unless you set `interrupted: "fail"`.
 */
export interface ToolSpec<Args, Result, Input = unknown> {
  /**
   * The name the model calls: 1 to 64 letters, digits, `_` or `-`, as vendors require. If you rename a tool,
   * its open calls wait for a person.
   */
  readonly name: string;
  readonly description: string;
  /**
   * Any Standard Schema, e.g. `z.object({ order: z.string() })`. The model reads its JSON Schema. Input that
   * it rejects is a failed call.
   */
  readonly input: StandardSchema<Input, Args>;
  /** Checks the result. The effect has happened by then, so a mismatch is only noted with the call. */
  readonly output?: StandardSchema<unknown, Result>;
  /** The parameters that the model reads, if not those of `input`: `{ type: "object", properties: {} }`. */
  readonly inputJsonSchema?: Json;
  /**
   * - `"read"` changes nothing. It simply runs again after a crash.
   * - `"write"` sets something to a state, e.g. a file's content.
   * - `"mutate"` does something that counts, e.g. a payment or an e-mail.
   */
  readonly effect: Effect;
  /** Which calls count as the same and get the recorded result: `"session"` unless set. See `Dedupe`. */
  readonly dedupe?: Dedupe<Args>;
  /** A retry with the same `key` is safe: always (`true`), or for `{ forMs: 86_400_000 }`. */
  readonly idempotent?: true | { readonly forMs: number };
  /** Limits an attempt, e.g. `30_000`: then its outcome is unknown. Also limits `verify` (default 60 s). */
  readonly timeoutMs?: number;
  /** Nothing sent can take effect after this time, e.g. `60_000`: then the tool runs again after `notYet`. */
  readonly settleMs?: number;
  /** A call whose outcome cannot be found out waits for a person (`"ask"`, default) or fails. */
  readonly interrupted?: "ask" | "fail";
  /**
   * A person approves or denies each call before it runs: `true`, or only some, `({ eur }) => eur > 100`. A
   * text counts as true, and the person reads it: `({ eur }) => eur > 100 && "over the limit"`. See
   * `holdfast.calls.approve`. A function that throws counts as true.
   */
  readonly needsApproval?: boolean | ((args: Args) => boolean | string | Promise<boolean | string>);
  /**
   * Answers for calls of this tool (`resolve`, `approve`, `deny`) need the signature of an approver's key:
   * `requireApprover: true`. Keys: `holdfast approver add`.
   */
  readonly requireApprover?: boolean;
  /** Agents may answer for calls of this tool too, by `--as-agent`. The answer is recorded as theirs. */
  readonly agentAnswers?: boolean;
  /** Lets the model repeat a finished call if it passes `againBecause: "the file was deleted"`. */
  readonly repeatable?: boolean;
  /**
   * Decides whether nothing can have happened after an error. If undefined: for a refused connection, an
   * unknown host and an HTTP 4xx (except 408 and 409), which is wrong for a tool that sends several requests.
   *
   * @example
   * definite: (error) => (error instanceof CardDeclined ? true : undefined),
   */
  readonly definite?: (error: unknown) => boolean | undefined;
  /** Does the work. See `ExecuteContext` for its second argument. */
  readonly execute: (args: Args, context: ExecuteContext) => Promise<Result> | Result;
  /**
   * Asks the target whether an attempt took effect, before anything is retried. It is asked up to three times
   * if it throws; then it counts as `unsure`.
   *
   * @example
   * verify: async (_args, { key }) => {
   *   const charge = await payments.findByKey(key);
   *   return charge ? landed(charge) : notYet({ againInMs: 5_000 });
   * },
   */
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<Result>> | Verdict<Result>;
}

/** Any tool, whatever its types. Every `ToolSpec` is one. `Input` is what its schema accepts. */
export interface Tool<Result = unknown, Input = unknown>
  extends Omit<ToolSpec<never, Result>, "input" | "output"> {
  readonly input: StandardSchema<Input, unknown>;
  readonly output?: StandardSchema<unknown, Result>;
}

/**
 * Which calls count as the same. A call that is the same as a finished one does not run: it gets the recorded
 * result.
 *
 *     "session"       same session, tool and arguments: the default
 *     "global"        the same over all sessions of the namespace, e.g. one payment for one order, ever
 *     "call"          every call is its own: for tools that may do the same thing twice
 *     { scope, key }  `key` returns a non-empty string that stands for all arguments:
 *                     { scope: "global", key: ({ order }) => order }
 */
export type Dedupe<Args> =
  | "call"
  | "session"
  | "global"
  | { readonly scope: "session" | "global"; readonly key: (args: Args) => string };

/** The second argument of `execute`. */
export interface ExecuteContext {
  /** Pass this to the vendor as its idempotency key. It is the same for all attempts in doubt. */
  readonly key: string;
  readonly callId: string;
  readonly session: string;
  /** The lease's fencing token. A target that remembers the highest one it saw can refuse a zombie. */
  readonly token: number;
  readonly attempt: number;
  /** Aborts on timeout, when the session is cancelled, and when another process has taken over. */
  readonly signal: AbortSignal;
  /** Opens this call's sub-agent. `budget` limits what it may spend of its parent's. See `agentTool`. */
  child(budget?: Amounts): Promise<ChildSession>;
}

/** The second argument of `verify`. */
export interface VerifyContext extends Omit<ExecuteContext, "child"> {
  /** Wall clock of the attempt in question, in milliseconds. */
  readonly issuedAt: number;
}

/** The open session of a sub-agent. Run it, call `finished`, and close it. */
export interface ChildSession {
  readonly session: SubAgentSession;
  /** Call this when the sub-agent is done: its spending becomes durable with the call's outcome. */
  finished(): void;
}

/** The part of a `Session` that a tool needs. It is a whole one: cast it to `Session` for everything else. */
export interface SubAgentSession {
  readonly id: string;
  /** `"completed"` if an earlier attempt finished it and crashed before its call was recorded. */
  readonly status: string;
  /** Takes the `RunOptions` of `session.run`. If the result is not `"done"`, throw `NotFinished`. */
  run(options: object): Promise<{ readonly status: string; readonly reason: string; readonly text: string }>;
  complete(why?: string): Promise<void>;
  close(): Promise<void>;
}

/** The answer of `verify`. Make it with `landed`, `never`, `notYet` or `unsure`. */
export type Verdict<Result> =
  | { readonly answer: "landed"; readonly result: Result }
  | { readonly answer: "never" }
  | { readonly answer: "notYet"; readonly againInMs: number }
  | { readonly answer: "unsure"; readonly why: string };

/**
 * It happened: the result is recorded and the tool does not run again.
 *
 * @example
 * verify: async (_args, { key }) => ((await payments.has(key)) ? landed({ paid: true }) : never())
 */
export function landed<Result>(result: Result): Verdict<Result> {
  return { answer: "landed", result };
}

/**
 * It did not happen and cannot any more, because the target refuses our key: the tool runs again.
 *
 * @example
 * verify: async (_args, { token }) => ((await queue.fence(token)) ? never() : unsure("no fence"))
 */
export function never(): Verdict<never> {
  return { answer: "never" };
}

/**
 * There is no trace of it, but it may still arrive. `verify` is asked again until `settleMs` is over, then
 * the tool runs again. Without `settleMs` a person is asked after a minute.
 *
 * @example
 * verify: async (_args, { key }) =>
 *   (await payments.has(key)) ? landed({ paid: true }) : notYet({ againInMs: 5_000 })
 */
export function notYet(options: { againInMs: number }): Verdict<never> {
  return { answer: "notYet", againInMs: options.againInMs };
}

/**
 * It cannot be found out: a person is asked. Only an `idempotent` tool runs again. See `interrupted`.
 *
 * @example
 * verify: () => unsure("the mail server keeps no log")
 */
export function unsure(why: string): Verdict<never> {
  return { answer: "unsure", why };
}

/**
 * Throw this from `execute` if nothing has happened for certain: the call fails instead of being unknown.
 *
 * @example
 * if (stock === 0) throw new DefiniteFailure("sold out"); // before anything was sent
 */
export class DefiniteFailure extends Error {
  override readonly name = "DefiniteFailure";
}

/**
 * Throw this from `execute` if the work continues elsewhere: the call stays open, and the next run continues.
 *
 * @example
 * if (job.state === "running") throw new NotFinished(`job ${job.id} still runs`);
 */
export class NotFinished extends Error {
  override readonly name = "NotFinished";
  /** True if a person has to answer something first. */
  readonly person: boolean;
  /** False if nothing has happened yet for certain: the next run makes another attempt. */
  readonly started: boolean;

  constructor(
    message: string,
    options: ErrorOptions & { readonly person?: boolean; readonly started?: boolean } = {},
  ) {
    super(message, options);
    this.person = options.person ?? false;
    this.started = options.started ?? true;
  }
}

/** The common interface of zod, valibot, arktype and others (standardschema.dev). */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
    /** The schema as JSON Schema: zod from 4.2 and arktype from 2.1.28 have it. */
    readonly jsonSchema?: { readonly input: (options: { target: "draft-2020-12" }) => object };
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

type Path = readonly (PropertyKey | { readonly key: PropertyKey })[];
type Issue = { readonly message: string; readonly path?: Path | undefined };

type Checked<Output> = { value: Output } | { problem: string };

/** The schema's output, or its first problems as text. A promise only if the schema returns one. */
export function validate<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
): Checked<Output> | Promise<Checked<Output>> {
  try {
    const result = schema["~standard"].validate(value);
    if ("then" in result) return Promise.resolve(result).then(readIssues).catch(schemaThrew);
    return readIssues(result);
  } catch (error) {
    return schemaThrew(error);
  }
}

function schemaThrew(error: unknown): { problem: string } {
  return { problem: `the schema threw: ${describeError(error).message}` };
}

function readIssues<Output>(result: Validated<Output>): Checked<Output> {
  if (!result.issues) return { value: result.value };
  const problems = result.issues.slice(0, 5).map((issue) => {
    const path = (issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return path.length === 0 ? issue.message : `${path.map(String).join(".")}: ${issue.message}`;
  });
  return { problem: problems.join("; ") };
}

/** Why a person has to approve a call with these arguments; null if none has to. */
export function whyApproval({ name, needsApproval }: Tool, args: unknown): MaybePromise<string | null> {
  if (!needsApproval) return null;
  const why = `${name} needs approval`;
  if (needsApproval === true) return why;
  const threw = (error: unknown): string => `${why}: needsApproval threw: ${describeError(error).message}`;
  try {
    const needed = needsApproval(args as never);
    const answer = (given: boolean | string): string | null => {
      if (typeof given === "string") return given === "" ? why : `${why}: ${given}`;
      return given ? why : null;
    };
    return typeof needed === "object" ? Promise.resolve(needed).then(answer, threw) : answer(needed);
  } catch (error) {
    return threw(error);
  }
}

// ---- The parameters that a model reads

const derived = new WeakMap<object, JsonObject>();

/**
 * The JSON Schema of a tool's parameters: `inputJsonSchema`, otherwise the one that `input` derives. Refuses
 * a tool that has neither, because a model that does not see the parameters has to guess them.
 */
export function parametersOf({ name, input, inputJsonSchema }: Parameterized): Json {
  if (inputJsonSchema !== undefined) return inputJsonSchema;
  const known = derived.get(input);
  if (known) return known;
  const schema = derivedSchema(name, input);
  derived.set(input, schema);
  return schema;
}

type Parameterized = Pick<Tool, "name" | "input" | "inputJsonSchema">;

function derivedSchema(name: string, input: Tool["input"]): JsonObject {
  mustBeSchema(`tool ${name}`, "input", input);
  const { vendor, jsonSchema } = input["~standard"];
  // A converter from before Standard JSON Schema: arktype 2.0.
  const { toJsonSchema } = input as { toJsonSchema?: () => object };
  let schema: object | undefined;
  let cause: unknown;
  try {
    if (typeof jsonSchema?.input === "function") schema = jsonSchema.input({ target: "draft-2020-12" });
    else if (typeof toJsonSchema === "function") schema = toJsonSchema.call(input);
  } catch (error) {
    cause = error;
  }
  if (!schema) throw noParameters(name, vendor, cause);
  const { $schema: _dialect, ...members } = JSON.parse(JSON.stringify(schema)) as JsonObject;
  // Vendors require the type, which a union of objects (`anyOf`) lacks.
  return { type: "object", ...members };
}

function noParameters(name: string, vendor: string, cause: unknown): HoldfastError {
  const why = cause === undefined ? `${vendor} has no converter on it` : describeError(cause).message;
  const problem = `its input schema has no JSON Schema that a model could read (${why})`;
  return new HoldfastError("INPUT_INVALID", `tool ${name}: ${problem}`, {
    hint:
      "Pass `inputJsonSchema`: with zod 4 z.toJSONSchema(schema), " +
      "with valibot toJsonSchema(schema) of @valibot/to-json-schema.",
    data: { tool: name, vendor },
    ...(cause !== undefined && { cause }),
  });
}

// ---- Checks of a declaration

const SPEC: Readonly<Record<string, OptionRule>> = {
  name: "text",
  description: "text",
  input: null,
  output: null,
  inputJsonSchema: null,
  effect: EFFECTS,
  dedupe: null,
  idempotent: null,
  timeoutMs: "duration",
  settleMs: "wait",
  interrupted: ["ask", "fail"],
  needsApproval: null,
  requireApprover: "flag",
  agentAnswers: "flag",
  repeatable: "flag",
  definite: "function",
  execute: "function",
  verify: "function",
};

/** The rule of OpenAI. Anthropic's is the same with 128 characters. */
const VENDOR_NAME = /^[a-zA-Z0-9_-]{1,64}$/;

export function checkToolName(name: string): void {
  if (VENDOR_NAME.test(name)) return;
  throw new HoldfastError("INPUT_INVALID", `tool ${quoteValue(name)}: vendors refuse this name`, {
    hint: 'Use 1 to 64 letters, digits, "_" or "-": send_receipt.',
    data: { tool: name },
  });
}

const checked = new WeakSet<object>();

/** Checks tools that may not have passed `tool()`. Without their effect, a crash would be settled wrongly. */
export function checkTools(tools: readonly unknown[]): void {
  for (const each of tools) {
    if (typeof each !== "object" || each === null)
      throw new HoldfastError("INPUT_INVALID", `a tool is ${each === null ? "null" : `a ${typeof each}`}`, {
        hint: "Pass tools that tool() made: tools: [charge].",
      });
    if (!checked.has(each)) checkToolSpec(each);
  }
}

/** For programs without types: a typo in `dedupe` or `verify` would show up only when money is gone. */
function checkToolSpec(spec: object): void {
  const { name, input, output, effect, execute, dedupe, idempotent, needsApproval } = spec as Record<
    string,
    unknown
  >;
  if (typeof name !== "string" || name === "") {
    throw new HoldfastError("INPUT_INVALID", "a tool has no name", {
      hint: "Pass `name`: the model calls the tool by it, and its open calls are settled by it.",
    });
  }
  const what = `tool ${name}`;
  checkOptions(what, spec, SPEC);
  checkOption(`${what}: effect`, effect, EFFECTS);
  checkOption(`${what}: execute`, execute, "function");
  mustBeSchema(what, "input", input);
  if (output !== undefined) mustBeSchema(what, "output", output);
  if (needsApproval !== undefined && typeof needsApproval !== "function")
    checkOption(`${what}: needsApproval`, needsApproval, "flag");
  if (needsApproval && effect === "read") {
    throw new HoldfastError("INPUT_INVALID", `${what}: a read cannot need approval`, {
      hint: 'Reads run freely, and again after a crash. Use effect "mutate" for what a person has to allow.',
    });
  }
  const { requireApprover, agentAnswers } = spec as Partial<Tool>;
  if (requireApprover && agentAnswers) {
    throw new HoldfastError("INPUT_INVALID", `${what}: agentAnswers and requireApprover exclude each other`, {
      hint: "An agent has no approver's key. Leave one of them out.",
    });
  }
  if (dedupe !== undefined) checkDedupe(what, dedupe, effect);
  if (typeof idempotent === "object" && idempotent !== null) {
    checkOptions(`${what}: idempotent`, idempotent, { forMs: "duration" });
    checkOption(`${what}: idempotent.forMs`, (idempotent as { forMs?: unknown }).forMs, "duration");
  } else if (idempotent !== undefined) checkOption(`${what}: idempotent`, idempotent, "flag");
  checked.add(spec);
}

/** Rejects a JSON Schema, with which every call would fail because "the schema threw". */
function mustBeSchema(what: string, name: "input" | "output", schema: unknown): void {
  const isAny = (typeof schema === "object" && schema !== null) || typeof schema === "function";
  const standard = isAny ? (schema as { "~standard"?: { validate?: unknown } })["~standard"] : undefined;
  if (typeof standard?.validate === "function") return;
  const problem = isAny ? "is no Standard Schema" : "is missing";
  throw new HoldfastError("INPUT_INVALID", `${what}: its ${name} schema ${problem}`, {
    hint:
      `Pass a Standard Schema (zod, valibot, arktype) as \`${name}\`: z.object({}) for nothing. ` +
      "A JSON Schema goes into `inputJsonSchema`.",
  });
}

function checkDedupe(what: string, dedupe: unknown, effect: unknown): void {
  let scope = dedupe;
  if (typeof dedupe === "object" && dedupe !== null) {
    checkOptions(`${what}: dedupe`, dedupe, { scope: null, key: null });
    const options = dedupe as { scope?: unknown; key?: unknown };
    checkOption(`${what}: dedupe.scope`, options.scope, ["session", "global"]);
    checkOption(`${what}: dedupe.key`, options.key, "function");
    scope = options.scope;
  } else checkOption(`${what}: dedupe`, dedupe, ["call", "session", "global"]);
  if (effect !== "write" || scope !== "global") return;
  throw new HoldfastError("INPUT_INVALID", `${what}: a write cannot be once ever over all sessions`, {
    hint: 'A write sets a state and may have to be set again. Use effect "mutate", or dedupe "session".',
  });
}
