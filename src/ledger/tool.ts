import { describeError, HoldfastError } from "../model/errors.ts";
import type { Json } from "../model/json.ts";
import { checkOption, checkOptions, type OptionRule } from "../model/options.ts";
import { type Amounts, EFFECTS, type Effect } from "../model/session/index.ts";

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
  repeatable: "flag",
  definite: "function",
  execute: "function",
  verify: "function",
};

/**
 * Where there are no types to say so, a slip here is found out when money has gone: what counts as the same payment, what may be
 * repeated, what has to be asked.
 */
function checkToolSpec(spec: object): void {
  const { name, input, output, effect, execute, dedupe, idempotent } = spec as Record<string, unknown>;
  if (typeof name !== "string" || name === "") {
    throw new HoldfastError("INPUT_INVALID", "a tool has no name", {
      hint: "Pass `name`: the model calls it by that, and its open calls are settled by that.",
    });
  }
  const what = `tool ${name}`;
  checkOptions(what, spec, SPEC);
  checkOption(`${what}: effect`, effect, EFFECTS);
  checkOption(`${what}: execute`, execute, "function");
  mustBeSchema(what, "input", input);
  if (output !== undefined) mustBeSchema(what, "output", output);
  if (dedupe !== undefined) checkDedupe(what, dedupe, effect);
  if (typeof idempotent === "object" && idempotent !== null) {
    checkOptions(`${what}: idempotent`, idempotent, { forMs: "duration" });
    checkOption(`${what}: idempotent.forMs`, (idempotent as { forMs?: unknown }).forMs, "duration");
  } else if (idempotent !== undefined) checkOption(`${what}: idempotent`, idempotent, "flag");
}

/** Of any kind that says so. A JSON Schema is none: the model would be told with every call that the schema threw. */
function mustBeSchema(what: string, name: "input" | "output", schema: unknown): void {
  const isAny = (typeof schema === "object" && schema !== null) || typeof schema === "function";
  const standard = isAny ? (schema as { "~standard"?: { validate?: unknown } })["~standard"] : undefined;
  if (typeof standard?.validate === "function") return;
  const problem = isAny ? "is no Standard Schema" : "is missing";
  throw new HoldfastError("INPUT_INVALID", `${what}: its ${name} schema ${problem}`, {
    hint: `Pass a Standard Schema (zod, valibot, arktype) as \`${name}\`: z.object({}) for nothing. A JSON Schema goes into \`inputJsonSchema\`.`,
  });
}

function checkDedupe(what: string, dedupe: unknown, effect: unknown): void {
  let scope = dedupe;
  if (typeof dedupe === "object" && dedupe !== null) {
    checkOptions(`${what}: dedupe`, dedupe, { scope: null, key: null });
    const { scope: said, key } = dedupe as { scope?: unknown; key?: unknown };
    checkOption(`${what}: dedupe.scope`, said, ["session", "global"]);
    checkOption(`${what}: dedupe.key`, key, "function");
    scope = said;
  } else checkOption(`${what}: dedupe`, dedupe, ["call", "session", "global"]);
  if (effect !== "write" || scope !== "global") return;
  throw new HoldfastError("INPUT_INVALID", `${what}: a write cannot be once ever over all sessions`, {
    hint: 'A write sets a state and may have to be set again. Use effect "mutate", or dedupe "session".',
  });
}

/**
 * The common interface of zod, valibot, arktype and others (standardschema.dev), as far as we use it: any of
 * them can describe a tool's input and output.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => Validated<Output> | Promise<Validated<Output>>;
    readonly types?: { readonly input: Input; readonly output: Output } | undefined;
  };
}

type Validated<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly Issue[] };

interface Issue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

type Checked<Output> = { value: Output } | { problem: string };

/**
 * The value as the schema understands it, or the first problems in words. A schema that throws does not accept it. Not a
 * promise where the schema answers at once, as most do.
 */
export function validate<Output>(
  schema: StandardSchema<unknown, Output>,
  value: unknown,
): Checked<Output> | Promise<Checked<Output>> {
  try {
    const result = schema["~standard"].validate(value);
    return isAnswer(result)
      ? readIssues(result)
      : Promise.resolve(result).then(readIssues).catch(schemaThrew);
  } catch (error) {
    return schemaThrew(error);
  }
}

/** By a transform that chokes on the value, most often: JSON.parse, new URL. */
function schemaThrew(error: unknown): { problem: string } {
  return { problem: `the schema threw: ${describeError(error).message}` };
}

function isAnswer<Output>(
  result: Validated<Output> | Promise<Validated<Output>>,
): result is Validated<Output> {
  return !("then" in result);
}

function readIssues<Output>(result: Validated<Output>): Checked<Output> {
  if (!result.issues) return { value: result.value };
  const problems = result.issues.slice(0, 5).map((issue) => {
    const path = (issue.path ?? []).map((part) => (typeof part === "object" ? part.key : part));
    return path.length === 0 ? issue.message : `${path.map(String).join(".")}: ${issue.message}`;
  });
  return { problem: problems.join("; ") };
}

/** What a tool's `execute` is told beside its arguments. */
export interface ExecuteContext {
  /** Hand this to the vendor as its idempotency key. It stays the same over attempts whose outcome is unknown. */
  readonly key: string;
  readonly callId: string;
  readonly session: string;
  /** The lease's fencing token: a target that remembers the highest one it saw can refuse a zombie. */
  readonly token: number;
  readonly attempt: number;
  /** Aborts on time-out, when the session is cancelled, and when another process has taken over. */
  readonly signal: AbortSignal;
  /**
   * Opens the session of a sub-agent that works for this call: the same one for every attempt. `budget` is what it may
   * spend of its parent's; all that is left unless given. `agentTool` is the comfortable way to it.
   */
  child(budget?: Amounts): Promise<ChildSession>;
}

/** A sub-agent's session, open. Run it, say when it has finished, and close it. */
export interface ChildSession {
  readonly session: SubAgentSession;
  /** Call this when the sub-agent has done its work: what it spent is counted together with the call's outcome. */
  finished(): void;
}

/** As much of a `Session` as a tool needs. It is a whole one: cast it to `Session` for everything else. */
export interface SubAgentSession {
  readonly id: string;
  /** `completed` when an earlier attempt had finished it, and crashed before its call was recorded. */
  readonly status: string;
  /** Takes the `RunOptions` of `session.run`. While it does not end as `done`, throw `NotFinished`. */
  run(options: object): Promise<{ readonly status: string; readonly reason: string; readonly text: string }>;
  complete(why?: string): Promise<void>;
  close(): Promise<void>;
}

export interface VerifyContext extends Omit<ExecuteContext, "child"> {
  /** Wall clock of the attempt whose outcome is asked for, milliseconds. */
  readonly issuedAt: number;
}

/** What `verify` found out about an attempt that may or may not have had its effect. */
export type Verdict<Result> =
  | { readonly answer: "landed"; readonly result: Result }
  | { readonly answer: "never" }
  | { readonly answer: "notYet"; readonly againInMs: number }
  | { readonly answer: "unsure"; readonly why: string };

/** It happened: the result is recorded and the tool is not run again. */
export function landed<Result>(result: Result): Verdict<Result> {
  return { answer: "landed", result };
}

/** It did not happen and cannot happen any more: the target knows our key or token and will refuse it. */
export function never(): Verdict<never> {
  return { answer: "never" };
}

/**
 * There is no trace of it, but it may still arrive. Asked again until `settleMs` are over, then it is run again; without
 * `settleMs`, for a minute, then a person is asked. One process has to see `settleMs` out, as nobody else's clock is trusted
 * with that: where again and again none does, a person is asked, too.
 */
export function notYet(options: { againInMs: number }): Verdict<never> {
  return { answer: "notYet", againInMs: options.againInMs };
}

/**
 * Nobody can tell from here: repeated with the same key if the tool is `idempotent`, else failed or put before a person,
 * as `interrupted` says.
 */
export function unsure(why: string): Verdict<never> {
  return { answer: "unsure", why };
}

/** Throw this from `execute` when it is certain that nothing has happened: the call fails instead of waiting. */
export class DefiniteFailure extends Error {
  override readonly name = "DefiniteFailure";
}

/**
 * Throw this from `execute` when the work goes on elsewhere and is not done yet, such as a sub-agent that waits for a
 * person. The call stays open and is taken up again by the next run.
 */
export class NotFinished extends Error {
  override readonly name = "NotFinished";
  /** Whether it goes on only when a person has answered something. */
  readonly person: boolean;

  constructor(message: string, options: ErrorOptions & { readonly person?: boolean } = {}) {
    super(message, options);
    this.person = options.person ?? false;
  }
}

/** Thrown by an attempt that did nothing but ask: the call has not begun, and waits for a person who lets it run or refuses it. */
export class NeedsApproval extends Error {
  override readonly name = "NeedsApproval";
}

/**
 * What counts as the same call. A call that is the same as a finished one is not run: it gets the recorded result.
 *
 *     "session"  same session, same tool, same arguments: the default
 *     "global"   the same over all sessions of the namespace: once ever, such as one payment for one order
 *     "call"     every call is its own: for tools that may well do the same thing twice
 *     { scope, key }  what `key` returns decides, a text that is not empty, instead of all the arguments: an order number,
 *                     say, where the model words the rest differently each time
 */
export type Dedupe<Args> =
  | "call"
  | "session"
  | "global"
  | { readonly scope: "session" | "global"; readonly key: (args: Args) => string };

/**
 * A tool, and what it does to the world. Only `effect` is asked for beside what every framework asks; the rest says what
 * may be done about a call that was interrupted. A vendor that takes an idempotency key: pass it `key`, say `idempotent`. A
 * target that can be asked: write `verify`. Neither: a person is asked, or say `interrupted: "fail"`.
 */
export interface ToolSpec<Args, Result> {
  /** What the model calls it. Open calls are settled by this name: a renamed tool leaves them to a person. */
  readonly name: string;
  readonly description: string;
  /**
   * Any Standard Schema (zod, valibot, arktype …). It checks what the model sends; `execute` gets what it makes of that.
   * Input that it refuses, or throws at, is told to the model as a failed call, and nothing is run.
   */
  readonly input: StandardSchema<unknown, Args>;
  /**
   * Checks what `execute` returned. The effect has happened by then: a result that does not match is kept, and the mismatch
   * is noted with the call.
   */
  readonly output?: StandardSchema<unknown, Result>;
  /**
   * JSON Schema of the input: all that the model is told of it. `input` only checks what comes. Without this the model
   * sees no parameters; with zod: `z.toJSONSchema(schema)`.
   */
  readonly inputJsonSchema?: Json;
  /**
   * `readIssues` changes nothing and is simply run again. `write` sets something to a state (a file's content). `mutate`
   * does something that counts (a payment, an e-mail).
   */
  readonly effect: Effect;
  /** When a call counts as done already, and is answered with the recorded result. `session` unless set. */
  readonly dedupe?: Dedupe<Args>;
  /** Repeating with the same key is safe: for ever, or for so long after the first attempt. */
  readonly idempotent?: true | { readonly forMs: number };
  /**
   * How long an attempt may take before its signal aborts and its outcome counts as unknown; for ever unless set. An answer
   * that comes later is recorded all the same. Also limits `verify`, else 60 s.
   */
  readonly timeoutMs?: number;
  /** Nothing that was sent can still take effect after this long. Allows a retry after `notYet`. */
  readonly settleMs?: number;
  /** What becomes of a call whose outcome nobody can tell: ask a person (default), or fail and let the agent decide. */
  readonly interrupted?: "ask" | "fail";
  /** The model may repeat a finished call if it says why, in an argument `againBecause`. */
  readonly repeatable?: boolean;
  /**
   * Whether nothing can have happened after this error: true, false, or undefined where you cannot say. Then a refused connection,
   * a name that is not found and an HTTP 4xx (but 408 and 409) count as such: right for a tool that sends one request, wrong for one
   * that sends several or repeats them by itself.
   */
  readonly definite?: (error: unknown) => boolean | undefined;
  readonly execute: (args: Args, context: ExecuteContext) => Promise<Result> | Result;
  /**
   * Asks the target whether an attempt with an unknown outcome took effect, before anything is tried again: `landed`,
   * `never`, `notYet` or `unsure`. When it throws it is asked again, three times in all; after that it counts as unsure.
   */
  readonly verify?: (args: Args, context: VerifyContext) => Promise<Verdict<Result>> | Verdict<Result>;
}

/** Any tool, whatever its types: what the ledger works with. Every `ToolSpec` is one. */
export interface Tool<Result = unknown> extends Omit<ToolSpec<never, Result>, "input" | "output"> {
  readonly input: StandardSchema<unknown, unknown>;
  readonly output?: StandardSchema<unknown, Result>;
}

/**
 * Declares a tool. Say what it does to the world and, if you can, how to find out whether it did it: that decides
 * what a crash in the middle of it comes to.
 */
export function tool<Args, Result>(spec: ToolSpec<Args, Result>): ToolSpec<Args, Result> {
  checkToolSpec(spec);
  return spec;
}
